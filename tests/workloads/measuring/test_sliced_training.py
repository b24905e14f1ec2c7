"""Trials that are timed in slices, in real trainers on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.workloads.shared_trainer import (
    Trainer,
    result,
    single_event,
)
from workloads.implementations import BACKENDS
from workloads.protocol import (
    Dataset,
    Epoch,
    Event,
    Failure,
    Finish,
    KernelProof,
    PhaseEnded,
    Ready,
    Result,
    Slice,
    SliceDone,
    TrialRequest,
    encode,
)
from workloads.registry import TIMING_METRICS

full = pytest.mark.full
SMALL: dict[str, Any] = {"units": 8, "samples": 70, "validation_samples": 40, "dropout": 0.4}
WORKLOADS: dict[str, dict[str, Any]] = {
    "image_rows": {**SMALL, "dense_units": 8},
    "next_token": {**SMALL, "sequence_length": 6},
    "sentiment": {**SMALL, "dataset": "python-docs", "sequence_length": 6},
    "char_rnn": {**SMALL, "sequence_length": 6, "batch_size": 8},  # stateful
    "synthetic": {"features": 5, "sequence_length": 6, "units": 4, "batch_size": 3},
}


def run_in_slices(
    trainer: Trainer,
    workload: str,
    implementation: str,
    commands: Sequence[Slice | Finish] = (Slice(), Slice(), Slice(), Finish()),
    **fields: Any,
) -> list[Event]:
    """Run a trial in slices; send a command when the previous one has been answered."""
    fields = {"slice_s": 0.02, "seed": 3, **fields}
    trainer.send(encode(TrialRequest(workload, implementation, measure="timing", **fields)))
    events, waiting = list[Event](), list(commands)
    while not (events and isinstance(events[-1], Result | Failure)):
        events.append(trainer.next_event())
        if isinstance(events[-1], Ready | SliceDone):
            trainer.send(encode(waiting.pop(0)))
    return events


def slices(events: Sequence[Event]) -> list[SliceDone]:
    return [event for event in events if isinstance(event, SliceDone)]


def expect_sound(events: Sequence[Event]) -> dict[str, float]:
    """Check the rules for every trial in slices, and return its metrics."""
    metrics, done, proof = result(events), slices(events), single_event(events, KernelProof)
    assert proof.ran == proof.asked
    assert set(metrics) | {"ratio_interval", "peak_gpu_mib"} == {*TIMING_METRICS} | (
        {"import_s"} & set(metrics)
    )
    assert not [event for event in events if isinstance(event, Epoch)]
    ended = [event for event in events if isinstance(event, PhaseEnded)]
    trained = [event for event in ended if event.phase == "train"]
    for window, item in zip(trained, done, strict=True):
        assert window.seconds >= item.seconds > 0
    return metrics


@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(b, marks=full) for b in ("tensorflow", "jax"))]
)
@pytest.mark.parametrize("batches", [2, 9], ids=["whole passes", "parts of a pass"])
def test_a_slice_is_whole_steps_of_full_batches(
    trainer_of: Trainer, backend: str, batches: int
) -> None:
    settings = {**WORKLOADS["image_rows"], "samples": 32 * batches + 12}
    events = run_in_slices(
        trainer_of, "image_rows", f"{backend}/portable", settings=settings, slice_s=1e-4
    )
    metrics, steps = expect_sound(events), single_event(events, Ready).slice_steps
    assert [item.steps for item in slices(events)] == [steps] * 3
    assert steps % 2 == 0 if batches == 2 else steps < 9
    assert metrics["samples_per_s"] == pytest.approx(32_000 / metrics["step_ms"])
    assert single_event(events, Dataset).samples == 32 * batches + 12


@full
@pytest.mark.parametrize(
    ("workload", "backend", "kernel"),
    [
        *((workload, "torch", "fused") for workload in WORKLOADS),
        ("synthetic", "tensorflow", "portable+xla"),
        ("synthetic", "jax", "portable"),
    ],
)
def test_every_workload_takes_slices(
    trainer_of: Trainer, workload: str, backend: str, kernel: str
) -> None:
    settings = WORKLOADS[workload]
    expect_sound(run_in_slices(trainer_of, workload, f"{backend}/{kernel}", settings=settings))


@full
def test_a_slice_has_about_the_requested_steps_and_changes_no_later_trial(
    torch_trainer: Trainer,
) -> None:
    settings = {**WORKLOADS["image_rows"], "epochs": 1, "timed_steps": 0}
    before = result(torch_trainer.ask("image_rows", "torch/fused", settings=settings, seed=3))
    commands = (Slice(steps=6), Slice(steps=1), Slice(), Finish())
    events = run_in_slices(torch_trainer, "image_rows", "torch/fused", commands, settings=settings)
    six, one, suggested = (item.steps for item in slices(events))
    assert (six, one) == (6, 2)  # a pass has two steps, and is never cut
    assert suggested == single_event(events, Ready).slice_steps
    after = result(torch_trainer.ask("image_rows", "torch/fused", settings=settings, seed=3))
    assert before["loss"] == after["loss"]


@full
@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_begin_where_a_whole_training_does(trainer_of: Trainer, backend: str) -> None:
    settings, probe = {**WORKLOADS["image_rows"], "samples": 64}, "tests.workloads.probes"
    digests = result(
        trainer_of.ask(f"{probe}:starts_of_slices", f"{backend}/portable", settings=settings)
    )
    assert digests["before"] == digests["first"] != digests["second"]
