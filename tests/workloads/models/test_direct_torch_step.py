"""PyTorch's direct train step computes the same as Keras' own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result

IMAGES: dict[str, Any] = {
    **{"workload": "image_rows", "units": 8, "dropout": 0.4},
    **{"samples": 70, "validation_samples": 40},  # and so a partial batch
}
TEXT: dict[str, Any] = {
    **{"workload": "char_rnn", "batches": "windows", "units": 8, "embedding_units": 8},
    **{"sequence_length": 10, "samples": 100, "validation_samples": 40},
}
STREAMS = {**TEXT, "batches": "stateful", "batch_size": 8, "samples": 40, "validation_samples": 16}
REVIEWS: dict[str, Any] = {
    **{"workload": "sentiment", "dataset": "python-docs", "units": 4},
    **{"sequence_length": 12, "samples": 40, "validation_samples": 20},
}
PROBE = "tests.workloads.probes:compare_steps"
full = pytest.mark.full


@pytest.mark.parametrize(
    ("kernel", "settings", "is_direct"),
    [
        pytest.param("portable", IMAGES, True, id="images"),
        pytest.param("fused", TEXT, True, id="windows"),
        pytest.param("fused", IMAGES, True, id="fused images", marks=full),
        pytest.param("portable", TEXT, True, id="portable windows", marks=full),
        pytest.param("portable", STREAMS, True, id="streams", marks=full),
        pytest.param("fused", STREAMS, True, id="fused streams", marks=full),
        pytest.param("portable", REVIEWS, False, id="masks"),
        pytest.param("portable+bf16", TEXT, False, id="mixed precision", marks=full),
    ],
)
def test_the_direct_step_computes_the_numbers_of_keras_own_step(
    torch_trainer: Trainer, kernel: str, settings: dict[str, Any], is_direct: bool
) -> None:
    metrics = result(torch_trainer.ask(PROBE, f"torch/{kernel}", settings=settings, seed=3))
    assert metrics["names"] == 4
    assert metrics["moved"] > 0
    assert metrics["logs"] < 1e-6
    assert metrics["weights"] < 1e-6
    assert metrics["direct"] == is_direct
