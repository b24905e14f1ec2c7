"""PyTorch's direct train step computes the same as Keras' own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result

IMAGES: dict[str, Any] = {
    "workload": "image_rows",
    "units": 8,
    "samples": 70,  # and so a partial batch
    "validation_samples": 40,
    "dropout": 0.4,
}
TEXT: dict[str, Any] = {
    "workload": "char_rnn",
    "batches": "windows",
    "units": 8,
    "embedding_units": 8,
    "sequence_length": 10,
    "samples": 100,
    "validation_samples": 40,
}
STREAMS = {**TEXT, "batches": "stateful", "batch_size": 8, "samples": 40, "validation_samples": 16}
REVIEWS: dict[str, Any] = {
    "workload": "sentiment",
    "dataset": "python-docs",
    "units": 4,
    "sequence_length": 12,
    "samples": 40,
    "validation_samples": 20,
}


def compare_steps(
    trainer: Trainer, implementation: str, settings: dict[str, Any]
) -> dict[str, float]:
    metrics = result(
        trainer.ask(
            "tests.workloads.models.direct_step_probes:compare_steps",
            implementation,
            settings=settings,
            seed=3,
        )
    )
    assert metrics["names"] == 4
    assert metrics["moved"] > 0
    assert metrics["logs"] < 1e-6
    assert metrics["weights"] < 1e-6
    return metrics


@pytest.mark.parametrize("settings", [IMAGES, TEXT, STREAMS], ids=["images", "windows", "streams"])
@pytest.mark.parametrize("implementation", ["torch/portable", "torch/fused"])
def test_the_direct_step_computes_the_numbers_of_keras_own_step(
    torch_trainer: Trainer, implementation: str, settings: dict[str, Any]
) -> None:
    assert compare_steps(torch_trainer, implementation, settings)["direct"]


@pytest.mark.parametrize(
    ("implementation", "settings"),
    [("torch/portable", REVIEWS), ("torch/portable+bf16", TEXT)],
    ids=["masks", "mixed precision"],
)
def test_keras_own_step_is_used_with_masks_and_mixed_precision(
    torch_trainer: Trainer, implementation: str, settings: dict[str, Any]
) -> None:
    assert not compare_steps(torch_trainer, implementation, settings)["direct"]
