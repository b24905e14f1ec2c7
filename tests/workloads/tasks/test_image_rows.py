from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.protocol import Dataset, Epoch, Event, KernelProof
from workloads.registry import find_workload

SMALL: dict[str, Any] = {
    "units": 8,
    "layers": 1,
    "dense_units": 8,
    "epochs": 2,
    "samples": 70,
    "timed_steps": 1,
}
ONE_SHAPE: dict[str, Any] = {"samples": 64, "validation_samples": 32}  # half the compilations
PORTABLE = "tensorflow/portable"


def train(
    trainer: Trainer, implementation: str = PORTABLE, seed: int = 3, **settings: Any
) -> list[Event]:
    return trainer.ask("image_rows", implementation, settings={**SMALL, **settings}, seed=seed)


def test_it_learns_to_read_digits(trainer: Trainer) -> None:
    settings = {"units": 64, "layers": 1, "epochs": 12, "learning_rate": 5e-3}
    events = trainer.ask("image_rows", PORTABLE, settings={**settings, "target_accuracy": 0.8})
    metrics = result(events)
    assert metrics["val_accuracy"] > 0.93
    assert 0 < metrics["time_to_accuracy_s"] < metrics["train_s"]
    curve = [event.metrics["val_accuracy"] for event in events if isinstance(event, Epoch)]
    assert curve[-1] == metrics["val_accuracy"] > curve[0]
    data = single_event(events, Dataset)
    assert (data.samples, data.validation_samples) == (1438, 359)
    assert data.digest == find_workload("image_rows").data_digest({})


@pytest.mark.parametrize(
    ("backend", "cell", "kernels"),
    [
        ("tensorflow", "lstm", ("portable", "portable+xla", "portable+unroll")),
        ("jax", "gru", ("portable", "portable+unroll")),
        ("torch", "lstm", ("portable", "fused")),
        ("torch", "gru", ("portable", "fused")),
    ],
)
def test_arms_start_equal_and_stay_close(
    trainer_of: Trainer, backend: str, cell: str, kernels: tuple[str, ...]
) -> None:
    shared: dict[str, Any] = {
        "cell": cell,
        "layers": 2,
        "bidirectional": True,
        "dropout": 0.0,
        "epochs": 1,
    }
    losses = []
    for kernel in kernels:
        events = train(trainer_of, f"{backend}/{kernel}", **shared, **ONE_SHAPE)
        proof = single_event(events, KernelProof)
        assert proof.ran == proof.asked == kernel
        losses.append(result(events)["loss"])
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-4)


def test_cudnn_without_a_gpu_is_not_possible_and_keras_agrees(trainer: Trainer) -> None:
    refusal = failure(train(trainer, "tensorflow/cudnn"))
    assert refusal.kind == "not_possible"
    assert refusal.message == "tensorflow/cudnn on cpu: cuDNN kernels need an NVIDIA GPU"
    keras_refusal = failure(
        trainer.ask("tests.workloads.probes:cudnn_unchecked", PORTABLE, settings=SMALL)
    )
    assert keras_refusal.kind == "not_possible"
    assert "tensorflow/cudnn: Keras refuses it here: " in keras_refusal.message


def test_data_with_another_digest_is_refused(trainer: Trainer) -> None:
    digest, settings = find_workload("image_rows").data_digest({}), {**SMALL, **ONE_SHAPE}
    assert result(trainer.ask("image_rows", PORTABLE, settings=settings, data_digest=digest))
    failed = failure(trainer.ask("image_rows", PORTABLE, settings=settings, data_digest="0" * 64))
    assert failed.kind == "data"
    assert f"expected digest {'0' * 64}" in failed.message


def test_mnist_can_come_from_a_file(trainer: Trainer, tmp_path: Path) -> None:
    events = train(trainer, dataset="mnist", data_path=str(_mnist(tmp_path)))
    assert result(events)["val_loss"] > 0
    assert single_event(events, Dataset).validation_samples == 10
    failed = failure(train(trainer, dataset="mnist", data_path=str(tmp_path / "none.npz")))
    assert failed.kind == "data"
    assert "expected a readable file" in failed.message


def test_pixels_that_are_not_finite_are_bad_data(trainer: Trainer, tmp_path: Path) -> None:
    path = _mnist(tmp_path, hole=np.nan)
    failed = failure(train(trainer, dataset="mnist", data_path=str(path)))
    assert failed.kind == "data"
    assert "expected finite pixels in x_train" in failed.message


def _mnist(folder: Path, hole: float = 0.0) -> Path:
    draw = np.random.default_rng(1)
    path = folder / "images.npz"
    images = draw.integers(0, 255, (80, 28, 28)).astype(np.float32)
    images[:, 0, 0] = hole
    labels = draw.integers(0, 10, 80).astype(np.uint8)
    np.savez(path, x_train=images[:70], y_train=labels[:70], x_test=images[70:], y_test=labels[70:])
    return path
