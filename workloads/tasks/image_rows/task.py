"""`image_rows`: reads the rows of an image as a sequence, and predicts its class."""

from typing import Any

from workloads.context import Context
from workloads.data.labelled import LabelledData
from workloads.tasks.image_rows.data import load_image_rows
from workloads.tasks.image_rows.settings import ImageRowsSettings
from workloads.tasks.task import Task


def load(settings: ImageRowsSettings, seed: int) -> LabelledData:
    """Load the images, always in the same order."""
    return load_image_rows(settings)


def build(settings: ImageRowsSettings, trial: Context, data: LabelledData) -> Any:
    """Build the model; its last layer computes in float32 at any precision."""
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import dropout, recurrent_stack  # noqa: PLC0415

    seed = trial.seed + 3 * settings.layers  # the recurrent layers use those before it
    last_dropout = settings.dropout / 2 if settings.layers > 1 else settings.dropout
    model = keras.Sequential(
        [
            keras.Input(data.train.inputs.shape[1:]),
            *recurrent_stack(settings, return_sequences=False, seed=trial.seed),
            dropout(last_dropout, seed, "dropout_last"),
            keras.layers.Dense(settings.dense_units, activation="relu", name="dense"),
            dropout(settings.dropout, seed + 1, "dropout"),
            keras.layers.Dense(data.classes, activation="softmax", dtype="float32", name="classes"),
        ],
        name="image_rows",
    )
    rate: Any = settings.learning_rate
    if settings.decay:  # Keras 3 no longer has Adam(decay=…)
        rate = keras.optimizers.schedules.InverseTimeDecay(
            rate, decay_steps=1, decay_rate=settings.decay
        )
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
    )
    return model


TASK = Task(settings_model=ImageRowsSettings, load=load, build=build, plan=ImageRowsSettings.plan)
