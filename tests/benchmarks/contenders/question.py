"""The task of all contenders, as plain arrays in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.samples import Samples
from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.initial_weights import draw_layer, draw_variable
from workloads.settings.tasks import CharRnnSettings
from workloads.tasks.training import load_char_rnn

SEED = 0
_VALIDATION_BATCHES = 4


def ask(steps: int, epochs: int) -> dict[str, Any]:
    """Return settings of `char_rnn`: Embedding(64 → 128) → LSTM(128) → logits, 64 windows of 64.

    Args:
        steps: steps per epoch.
        epochs: epochs per `fit`.
    """
    batch_size = 64
    return {
        "batches": "windows",
        "vocabulary": 64,
        "sequence_length": 64,
        "embedding_units": 128,
        "units": 128,
        "layers": 1,
        "dropout": 0.0,
        "batch_size": batch_size,
        "samples": steps * batch_size,
        "validation_samples": _VALIDATION_BATCHES * batch_size,
        "epochs": epochs,
        "timed_steps": 0,
        "sample_characters": 0,
    }


def write(path: Path, asked: dict[str, Any]) -> None:
    """Write data in the order of the trial's batches, and initial weights in Keras' layout."""
    settings = CharRnnSettings(**asked)
    data = load_char_rnn(settings)
    order = np.random.default_rng([SEED, 1]).permutation(len(data.train))
    arrays = _arrays("train", data.train.take(order)) | _arrays("validation", data.validation)
    np.savez(path, **arrays, **_weights(settings, data.classes))


def _arrays(part: str, samples: Samples) -> dict[str, Any]:
    return {f"{part}_inputs": samples.inputs, f"{part}_targets": samples.targets}


def _weights(settings: CharRnnSettings, vocabulary: int) -> dict[str, Any]:
    inputs, units = settings.embedding_units, settings.units
    shapes = CanonicalLayer(
        np.empty((inputs, 4 * units)), np.empty((units, 4 * units)), np.empty(4 * units)
    )
    recurrent = draw_layer("recurrent_0", shapes, SEED)
    return {
        "embeddings": draw_variable("embedding/embeddings", (vocabulary, inputs), SEED),
        "kernel": recurrent.kernel,
        "recurrent_kernel": recurrent.recurrent_kernel,
        "bias": recurrent.bias,
        "logits_kernel": draw_variable("logits/kernel", (units, vocabulary), SEED),
        "logits_bias": draw_variable("logits/bias", (vocabulary,), SEED),
    }
