"""The model of the text workloads: an embedding, recurrent layers, logits over a vocabulary.

Runs inside a trainer process: imports Keras.
"""

from __future__ import annotations

from typing import Any

import keras

from workloads.context import Context
from workloads.models.compile import seed_of
from workloads.models.flops import dense_flops, recurrent_flops
from workloads.models.layers import recurrent_stack
from workloads.settings.text import TextSettings


def text_layers(
    settings: TextSettings,
    trial: Context,
    *,
    vocabulary: int,
    each_step: bool,
    last_dropout: float,
    batch_size: int | None = None,
    steps: int | None = None,
) -> list[Any]:
    """Return the layers from token ids `(batch, steps)` to logits.

    The logits have the shape `(batch, steps, vocabulary)`, or `(batch, vocabulary)` without
    `each_step`.

    Args:
        settings: sizes and the recurrent layers.
        trial: gives the implementation and the seed.
        vocabulary: width of the logits, and number of tokens of the embedding.
        each_step: return logits for every step; else for the last one only.
        last_dropout: dropout rate after the last recurrent layer.
        batch_size: fixed batch size, for a stateful model.
        steps: length of a sequence; by default that of the settings.
    """
    layers: list[Any] = [
        keras.Input((steps or settings.sequence_length,), batch_size=batch_size, dtype="int32"),
        keras.layers.Embedding(vocabulary, settings.embedding_units, name="embedding"),
        *recurrent_stack(
            settings, trial.implementation, return_sequences=each_step, seed=seed_of(trial, 0)
        ),
    ]
    if last_dropout:
        seed = seed_of(trial, 3 * settings.layers)
        layers.append(keras.layers.Dropout(last_dropout, seed=seed, name="dropout"))
    return [*layers, keras.layers.Dense(vocabulary, dtype="float32", name="logits")]


def text_flops(settings: TextSettings, *, vocabulary: int, each_step: bool) -> int:
    """Return the FLOPs of one sequence's forward pass."""
    steps = settings.sequence_length
    outputs = (2 if settings.bidirectional else 1) * settings.units
    return recurrent_flops(settings, inputs=settings.embedding_units, steps=steps) + (
        steps if each_step else 1
    ) * dense_flops(outputs, vocabulary)


def cross_entropy() -> Any:
    """Return the loss of logits against token ids, in nats."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
