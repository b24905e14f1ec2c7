from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.data.sources import data_digest
from workloads.protocol import Dataset, Event, KernelProof
from workloads.registry import find_workload

SMALL: dict[str, Any] = {
    **{"dataset": "python-docs", "samples": 96, "validation_samples": 32, "vocabulary": 500},
    **{"units": 6, "embedding_units": 5, "sequence_length": 20, "timed_steps": 2, "dropout": 0.0},
}


def sentiment(trainer: Trainer, implementation: str, **settings: Any) -> list[Event]:
    return trainer.ask("sentiment", implementation, settings={**SMALL, **settings}, seed=3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_it_runs_masked_and_both_ways(trainer_of: Trainer, backend: str) -> None:
    events = sentiment(trainer_of, f"{backend}/portable")
    metrics, data = result(events), single_event(events, Dataset)
    assert single_event(events, KernelProof).ran == "portable"
    assert (data.samples, data.validation_samples) == (96, 32)
    assert data.digest == data_digest("python-docs")
    assert set(metrics) - {"import_s"} <= set(find_workload("sentiment").metrics)


@pytest.mark.parametrize("masked", [True, False])
def test_masks_have_the_same_effect_on_every_arm(
    trainer: Trainer, jax_trainer: Trainer, torch_trainer: Trainer, masked: bool
) -> None:
    losses = [
        result(sentiment(process, implementation, masked=masked))["loss"]
        for process, implementation in (
            (trainer, "tensorflow/portable"),
            (jax_trainer, "jax/portable"),
            (torch_trainer, "torch/portable"),
            (torch_trainer, "torch/fused"),
        )
    ]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-4)


def test_masking_the_padding_changes_what_is_learnt(torch_trainer: Trainer) -> None:
    masked, unmasked = (
        result(sentiment(torch_trainer, "torch/fused", masked=masked))["loss"]
        for masked in (True, False)
    )
    assert masked != unmasked


def test_masks_decide_what_may_run(torch_trainer: Trainer) -> None:
    failed = failure(sentiment(torch_trainer, "torch/fused", padding="left"))
    assert failed.kind == "not_possible"
    assert "left" in failed.message
    assert result(sentiment(torch_trainer, "torch/portable", padding="left"))
    assert result(sentiment(torch_trainer, "torch/fused", padding="left", masked=False))


def test_it_learns(torch_trainer: Trainer) -> None:
    settings: dict[str, Any] = {
        "samples": None,
        "validation_samples": None,
        "vocabulary": 3000,
        "epochs": 4,
    }
    settings |= {"units": 16, "embedding_units": 16, "learning_rate": 5e-3}
    assert result(sentiment(torch_trainer, "torch/fused", **settings))["val_accuracy"] > 0.65


def test_reviews_of_three_classes_are_bad_data(torch_trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "reviews.npz"
    tokens, labels = np.ones((6, 4), np.int32), np.arange(6) % 3
    np.savez(path, x_train=tokens, y_train=labels, x_test=tokens, y_test=labels)
    failed = failure(sentiment(torch_trainer, "torch/fused", dataset="imdb", data_path=str(path)))
    assert failed.kind == "data"
    assert "expected the labels 0 and 1 in y_train and y_test" in failed.message
