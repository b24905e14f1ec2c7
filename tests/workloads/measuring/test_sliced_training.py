"""Trials that are timed in slices, in real trainers on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from tests.workloads.tasks.test_workloads import SMALL
from workloads.implementations import BACKENDS
from workloads.protocol import (
    Dataset,
    Epoch,
    Event,
    Finish,
    KernelProof,
    PhaseEnded,
    Ready,
    Slice,
    SliceDone,
    TrialRequest,
    encode,
)
from workloads.registry import TIMING_METRICS

full = pytest.mark.full


def run_in_slices(
    trainer: Trainer, workload: str, implementation: str, slice_s: float = 0.02, **own: Any
) -> list[Event]:
    """Run a trial of three slices."""
    request = TrialRequest(
        workload,
        implementation,
        {**SMALL[workload], **own},
        seed=3,
        measure="timing",
        slice_s=slice_s,
    )
    for line in (request, Slice(), Slice(), Slice(), Finish()):
        trainer.send(encode(line))
    return trainer.events_of_trial()


def expect_sound(events: Sequence[Event]) -> list[SliceDone]:
    """Check the rules for every trial in slices, and return its slices."""
    metrics, proof = result(events), single_event(events, KernelProof)
    done = [event for event in events if isinstance(event, SliceDone)]
    assert proof.ran == proof.asked
    optional = {"ratio_interval", "peak_gpu_mib", "import_s"}
    assert {*metrics, *optional} == {*TIMING_METRICS, *optional}
    assert not [event for event in events if isinstance(event, Epoch)]
    ended = [event for event in events if isinstance(event, PhaseEnded)]
    trained = [event for event in ended if event.phase == "train"]
    for window, item in zip(trained, done, strict=True):
        assert window.seconds >= item.seconds > 0
    return done


@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(b, marks=full) for b in ("tensorflow", "jax"))]
)
@pytest.mark.parametrize("batches", [2, 9], ids=["whole passes", "parts of a pass"])
def test_a_slice_is_whole_steps_of_full_batches(
    trainer_of: Trainer, backend: str, batches: int
) -> None:
    implementation, samples = f"{backend}/portable", 32 * batches + 12
    events = run_in_slices(trainer_of, "image_rows", implementation, 1e-4, samples=samples)
    steps = single_event(events, Ready).slice_steps
    assert [item.steps for item in expect_sound(events)] == [steps] * 3
    assert steps % 2 == 0 if batches == 2 else steps < 9
    assert result(events)["samples_per_s"] == pytest.approx(32_000 / result(events)["step_ms"])
    assert single_event(events, Dataset).samples == samples


@full
@pytest.mark.parametrize(
    ("workload", "backend", "kernel"),
    [
        *((workload, "torch", "fused") for workload in SMALL),
        ("synthetic", "tensorflow", "portable+xla"),
        ("synthetic", "jax", "portable"),
    ],
)
def test_every_workload_takes_slices(
    trainer_of: Trainer, workload: str, backend: str, kernel: str
) -> None:
    expect_sound(run_in_slices(trainer_of, workload, f"{backend}/{kernel}"))


@full
@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_begin_where_a_whole_training_does(trainer_of: Trainer, backend: str) -> None:
    settings = {**SMALL["image_rows"], "dropout": 0.4, "samples": 64}
    probe = "tests.workloads.probes:starts_of_slices"
    digests = result(trainer_of.ask(probe, f"{backend}/portable", settings=settings))
    assert digests["before"] == digests["first"] != digests["second"]
