from __future__ import annotations

import math
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.data.sources import data_digest
from workloads.protocol import Artifact, Dataset, Epoch, Event, KernelProof
from workloads.registry import find_workload

BACKENDS = pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
NEXT: dict[str, Any] = {
    **{"samples": 128, "validation_samples": 64, "batch_size": 32, "timed_steps": 2},
    **{"units": 8, "embedding_units": 4, "sequence_length": 12, "vocabulary": 40},
}
CHAR: dict[str, Any] = {
    **{"samples": 20, "validation_samples": 8, "batch_size": 4, "timed_steps": 2},
    **{"units": 8, "layers": 1, "sequence_length": 12, "sample_characters": 30, "dropout": 0.0},
}


def next_token(trainer: Trainer, implementation: str, **settings: Any) -> list[Event]:
    return trainer.ask("next_token", implementation, settings={**NEXT, **settings}, seed=3)


def char_rnn(trainer: Trainer, implementation: str, **settings: Any) -> list[Event]:
    return trainer.ask("char_rnn", implementation, settings={**CHAR, **settings}, seed=3)


@BACKENDS
def test_next_token_reports_the_published_columns(trainer_of: Trainer, backend: str) -> None:
    events = next_token(trainer_of, f"{backend}/portable")
    metrics, proof, data = (
        result(events),
        single_event(events, KernelProof),
        single_event(events, Dataset),
    )
    assert {"train_s", "sample_us", "loss", "accuracy", "val_loss", "val_accuracy"} <= set(metrics)
    assert metrics["sample_us"] == pytest.approx(1e6 * metrics["train_s"] / 128)
    assert proof.ran == proof.asked == "portable"
    assert (data.samples, data.validation_samples) == (128, 64)
    assert data.digest == data_digest("python-docs")
    assert set(metrics) - {"import_s"} <= set(find_workload("next_token").metrics)


def test_every_backend_learns_the_same(
    trainer: Trainer, jax_trainer: Trainer, torch_trainer: Trainer
) -> None:
    losses = [
        result(next_token(process, implementation))["loss"]
        for process, implementation in (
            (trainer, "tensorflow/portable"),
            (jax_trainer, "jax/portable"),
            (torch_trainer, "torch/portable"),
            (torch_trainer, "torch/fused"),
        )
    ]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-4)


def test_next_token_learns_more_than_the_most_frequent_word(torch_trainer: Trainer) -> None:
    settings = {"dataset": "zipf", "vocabulary": 16, "samples": 3000, "epochs": 8, "units": 32}
    metrics = result(next_token(torch_trainer, "torch/fused", learning_rate=0.02, **settings))
    frequent = 1 / sum(1 / rank for rank in range(1, 16))  # the share of Zipf's first word
    assert metrics["val_accuracy"] > frequent + 0.1


def test_words_are_tokens_too(torch_trainer: Trainer) -> None:
    assert result(next_token(torch_trainer, "torch/fused", tokens="word"))["loss"] > 0


def test_more_windows_than_the_text_has_are_refused(torch_trainer: Trainer) -> None:
    failed = failure(next_token(torch_trainer, "torch/fused", samples=50_000_000))
    assert failed.kind == "data"
    assert "samples: expected at most" in failed.message


@BACKENDS
@pytest.mark.parametrize("batches", ["stateful", "windows"])
def test_char_rnn_reports_bits_and_writes_a_text(
    trainer_of: Trainer, backend: str, batches: str
) -> None:
    events = char_rnn(trainer_of, f"{backend}/portable", batches=batches)
    metrics, text = result(events), single_event(events, Artifact)
    assert metrics["bits_per_char"] == pytest.approx(metrics["loss"] / math.log(2))
    assert metrics["val_bits_per_char"] == pytest.approx(metrics["val_loss"] / math.log(2))
    assert text.name == "sample.txt"
    prime, mark, continuation = text.text.partition("--- written at temperature 0.8:\n")
    assert len(prime) == 12 + 1
    assert mark and len(continuation) == 30 + 1
    assert single_event(events, KernelProof).ran == "portable"
    assert set(metrics) - {"import_s"} <= set(find_workload("char_rnn").metrics)


def test_equal_weights_and_seeds_write_equal_texts(torch_trainer: Trainer) -> None:
    texts = {
        single_event(char_rnn(torch_trainer, implementation, layers=2), Artifact).text
        for implementation in ("torch/portable", "torch/fused", "torch/fused")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(("batches", "counted"), [("stateful", 8), ("windows", 10)])
def test_the_reported_samples_are_those_of_the_accuracy(
    torch_trainer: Trainer, batches: str, counted: int
) -> None:
    """Validate a stateful model on full batches, of four samples here."""
    events = char_rnn(torch_trainer, "torch/portable", batches=batches, validation_samples=10)
    assert single_event(events, Dataset).validation_samples == counted


def test_states_continue_from_batch_to_batch(torch_trainer: Trainer) -> None:
    stateful = result(char_rnn(torch_trainer, "torch/fused"))
    windowed = result(char_rnn(torch_trainer, "torch/fused", batches="windows"))
    portable = result(char_rnn(torch_trainer, "torch/portable"))
    assert stateful["loss"] != windowed["loss"]
    assert stateful["loss"] == pytest.approx(portable["loss"], rel=1e-5)
    assert stateful["val_loss"] == pytest.approx(portable["val_loss"], rel=1e-5)


def test_a_text_sample_can_be_left_out(torch_trainer: Trainer) -> None:
    events = char_rnn(torch_trainer, "torch/fused", sample_characters=0)
    assert not [event for event in events if isinstance(event, Artifact)]
    assert "sample_s" not in result(events)


def test_dropout_after_all_layers_is_another_model(torch_trainer: Trainer) -> None:
    settings = {"layers": 2, "dropout": 0.4}
    once = result(char_rnn(torch_trainer, "torch/portable", **settings))
    twice = result(char_rnn(torch_trainer, "torch/portable", dropout_after="all", **settings))
    assert once["loss"] != twice["loss"]


def test_char_rnn_learns(torch_trainer: Trainer) -> None:
    settings = {"samples": 2000, "units": 64, "sequence_length": 25, "batch_size": 20, "epochs": 2}
    settings["validation_samples"] = 200
    events = char_rnn(torch_trainer, "torch/fused", learning_rate=0.3, **settings)
    curve = [event.metrics["val_loss"] for event in events if isinstance(event, Epoch)]
    assert curve[-1] < curve[0]
    assert result(events)["val_bits_per_char"] < 4.5  # characters alone, by their frequency: 4.7
