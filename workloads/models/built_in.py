"""The models of the built-in workloads, compiled for a trial's implementation. Imports Keras."""

from collections.abc import Sequence
from typing import Any

import keras

from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.data.samples import DataSet
from workloads.models.initial_weights import set_initial_weights
from workloads.models.layers import dropout, recurrent_stack
from workloads.models.model import WitnessedModel
from workloads.settings import (
    CharRnnSettings,
    ImageRowsSettings,
    NextTokenSettings,
    SentimentSettings,
    SyntheticSettings,
)


def compile_model(
    layers: Sequence[Any],
    trial: Context,
    *,
    name: str,
    optimizer: Any,
    loss: Any = None,
) -> WitnessedModel:
    """Return the model of layers (the first is a `keras.Input`), compiled for the trial's arm."""
    # With mixed float16, Keras wraps the optimizer to scale the loss.
    implementation = trial.implementation
    framework = load_framework(implementation.backend)
    model = WitnessedModel(layers, name=name, framework=framework)
    set_initial_weights(model, trial.seed)
    model.compile(
        optimizer=optimizer,
        loss=loss or keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
        jit_compile=framework.backend.is_compiled(implementation),
        run_eagerly="eager" in implementation.options,
    )
    framework.sum_gradients(model.optimizer)
    return model


def image_model(settings: ImageRowsSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build the model of `image_rows`; its last layer computes in float32 at any precision."""
    seed = trial.seed + 3 * settings.layers  # the recurrent layers use those before it
    last_dropout = settings.dropout / 2 if settings.layers > 1 else settings.dropout
    layers = [
        keras.Input(data.train.inputs.shape[1:]),
        *recurrent_stack(settings, trial.implementation, return_sequences=False, seed=trial.seed),
        dropout(last_dropout, seed, "dropout_last"),
        keras.layers.Dense(settings.dense_units, activation="relu", name="dense"),
        dropout(settings.dropout, seed + 1, "dropout"),
        keras.layers.Dense(data.classes, activation="softmax", dtype="float32", name="classes"),
    ]
    rate: Any = settings.learning_rate
    if settings.decay:  # Keras 3 no longer has Adam(decay=…)
        rate = keras.optimizers.schedules.InverseTimeDecay(
            rate, decay_steps=1, decay_rate=settings.decay
        )
    return compile_model(layers, trial, name="image_rows", optimizer=keras.optimizers.Adam(rate))


def review_model(settings: SentimentSettings, trial: Context) -> WitnessedModel:
    """Build the model of `sentiment`."""
    layers = [
        keras.Input((settings.sequence_length,), dtype="int32"),
        keras.layers.Embedding(
            settings.vocabulary,
            settings.embedding_units,
            mask_zero=settings.masked,
            name="embedding",
        ),
        *recurrent_stack(settings, trial.implementation, return_sequences=False, seed=trial.seed),
        dropout(settings.dropout, trial.seed + 3 * settings.layers, "dropout"),
        keras.layers.Dense(1, activation="sigmoid", dtype="float32", name="good"),
    ]
    optimizer = keras.optimizers.Adam(settings.learning_rate)
    loss = keras.losses.BinaryCrossentropy()
    return compile_model(layers, trial, name="sentiment", optimizer=optimizer, loss=loss)


def text_model(
    settings: NextTokenSettings | CharRnnSettings,
    trial: Context,
    vocabulary: int,
    *,
    is_writer: bool = False,
) -> WitnessedModel:
    """Build a model from token ids `(batch, steps)` to logits.

    The logits of `char_rnn` have the shape `(batch, steps, vocabulary)`, those of `next_token` the
    shape `(batch, vocabulary)`. A writer is the model that writes text: stateful, with batch size 1
    and one step.
    """
    optimizer: Any = keras.optimizers.Adam(settings.learning_rate)
    each_step, last_dropout = False, settings.dropout
    if isinstance(settings, CharRnnSettings):
        optimizer = keras.optimizers.SGD(settings.learning_rate, momentum=settings.momentum)
        each_step = True
        last_dropout = settings.dropout if settings.dropout_after == "all" else 0.0
    steps, batch_size = settings.sequence_length, settings.batch_size
    if is_writer:
        settings, steps, batch_size = settings.model_copy(update={"batches": "stateful"}), 1, 1
    layers: list[Any] = [
        keras.Input((steps,), batch_size=batch_size if settings.stateful else None, dtype="int32"),
        keras.layers.Embedding(vocabulary, settings.embedding_units, name="embedding"),
        *recurrent_stack(
            settings, trial.implementation, return_sequences=each_step, seed=trial.seed
        ),
    ]
    if last_dropout:
        layers.append(dropout(last_dropout, trial.seed + 3 * settings.layers, "dropout"))
    layers.append(keras.layers.Dense(vocabulary, dtype="float32", name="logits"))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    name = "char_rnn" if each_step else "next_token"
    return compile_model(layers, trial, name=name, optimizer=optimizer, loss=loss)


def passes_model(settings: SyntheticSettings, trial: Context) -> Any:
    """Build the model of `synthetic`: the recurrent layers alone; every step has an output."""
    layers = recurrent_stack(settings, trial.implementation, return_sequences=True, seed=trial.seed)
    inputs = keras.Input((settings.sequence_length, settings.features))
    model = keras.Sequential([inputs, *layers], name="synthetic")
    set_initial_weights(model, trial.seed)
    return model
