"""Settings of the built-in workloads that make trials seconds long."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "image_rows": {
        "units": 8,
        "dropout": 0.0,
        "timed_steps": 2,
        "layers": 1,
        "dense_units": 8,
        "epochs": 2,
        "samples": 70,
    },
    "next_token": {
        "units": 8,
        "dropout": 0.0,
        "timed_steps": 2,
        "samples": 128,
        "validation_samples": 64,
        "batch_size": 32,
        "embedding_units": 4,
        "sequence_length": 12,
        "vocabulary": 40,
    },
    "char_rnn": {
        "units": 8,
        "dropout": 0.0,
        "timed_steps": 2,
        "samples": 20,
        "validation_samples": 8,
        "batch_size": 4,
        "layers": 1,
        "sequence_length": 12,
        "sample_characters": 30,
    },
    "sentiment": {
        "units": 8,
        "dropout": 0.0,
        "timed_steps": 2,
        "dataset": "python-docs",
        "samples": 96,
        "validation_samples": 32,
        "vocabulary": 500,
        "embedding_units": 5,
        "sequence_length": 20,
    },
    "synthetic": {
        "features": 5,
        "sequence_length": 6,
        "units": 4,
        "batch_size": 3,
        "timed_steps": 3,
    },
}
