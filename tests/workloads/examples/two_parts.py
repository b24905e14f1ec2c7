"""A task with two inputs, two outputs and sample weights, or with weights of its classes."""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.settings import TaskSettings, TrainingPlan
from workloads.tasks.task import Task

STEPS, SAMPLES, BATCH = 6, 20, 8
CLASS_WEIGHT = {0: 3.0, 2: 0.25}


class TwoPartsSettings(TaskSettings):
    kind: Literal["two_parts", "weighted_classes", "no_targets"] = Field("two_parts")


def load(settings: TwoPartsSettings, seed: int) -> DataSet:
    draw = np.random.default_rng(3)
    sequences = draw.normal(size=(SAMPLES, STEPS, 3))  # float64, as NumPy draws it
    facts = draw.integers(0, 5, (SAMPLES, 2))
    classes = draw.integers(0, 3, SAMPLES)
    samples = Samples(sequences, classes)
    if settings.kind == "two_parts":
        amounts = draw.normal(size=(SAMPLES, 1))
        samples = Samples(
            {"facts": facts, "sequence": sequences}, [amounts, classes], draw.random(SAMPLES)
        )
    if settings.kind == "no_targets":
        samples = Samples([sequences, classes], None)
    return DataSet(settings.kind, "0" * 64, "computed", samples, samples.first(BATCH + 3))


def build(settings: TwoPartsSettings, trial: Context, data: DataSet) -> Any:
    import keras  # noqa: PLC0415 - only in a trainer process, after the backend is chosen

    sequence = keras.Input((STEPS, 3), name="sequence")
    summary = keras.layers.SimpleRNN(4)(sequence)
    if settings.kind == "weighted_classes":
        chain = [sequence, keras.layers.SimpleRNN(4), keras.layers.Dense(3, "softmax")]
        model = keras.Sequential(chain)
        model.compile("adam", "sparse_categorical_crossentropy")
        return model
    if settings.kind == "no_targets":
        classes = keras.Input((), name="classes", dtype="int32")
        model = keras.Model([sequence, classes], _cross_entropy_layer()(summary, classes))
        model.compile("adam")
        return model
    facts = keras.Input((2,), name="facts")
    both = keras.layers.Concatenate()([summary, facts])
    amount = keras.layers.Dense(1, name="amount")(both)
    kind = keras.layers.Dense(3, "softmax", name="kind")(both)
    model = keras.Model({"sequence": sequence, "facts": facts}, [amount, kind])
    model.compile(
        "adam",
        ["mse", "sparse_categorical_crossentropy"],
        metrics=[["mae"], ["accuracy"]],
        weighted_metrics=[["mse"], []],
    )
    return model


def _cross_entropy_layer() -> Any:
    import keras  # noqa: PLC0415

    class CrossEntropy(keras.layers.Layer):
        """Adds the loss of its inputs, and returns them."""

        def call(self, outputs: Any, classes: Any) -> Any:
            loss = keras.losses.sparse_categorical_crossentropy(classes, outputs, from_logits=True)
            self.add_loss(keras.ops.mean(loss))
            return outputs

    return CrossEntropy()


def plan(settings: TwoPartsSettings) -> TrainingPlan:
    class_weight = CLASS_WEIGHT if settings.kind == "weighted_classes" else None
    return TrainingPlan(BATCH, epochs=2, class_weight=class_weight)


TASK = Task(settings_model=TwoPartsSettings, load=load, build=build, plan=plan)
