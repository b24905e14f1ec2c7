"""Trials that are timed in slices, in real trainers: on every backend, by hand, and with faults."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.workloads.shared_trainer import (
    Trainer,
    failure,
    request,
    result,
    run_by_hand,
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
    PhaseBegan,
    PhaseEnded,
    Ready,
    Result,
    Slice,
    SliceDone,
    TrialRequest,
    encode,
)
from workloads.registry import TIMING_METRICS
from workloads.slicing import SliceSize, Slicing, choose_slice_size

full = pytest.mark.full
SLICING = "tests.workloads.examples.slicing"
ATTACHED = ("--die-with-parent", str(os.getpid()))
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
    metrics, done = result(events), slices(events)
    logs = [math.log(item.seconds / item.steps) for item in done]
    assert metrics["slices"] == len(done)
    assert metrics["step_ms"] == pytest.approx(1_000 * math.exp(sum(logs) / len(logs)))
    assert metrics["timed_s"] == pytest.approx(sum(item.seconds for item in done))
    assert metrics["slice_steps"] * len(done) == pytest.approx(sum(item.steps for item in done))
    assert single_event(events, KernelProof).ran == single_event(events, KernelProof).asked
    assert set(metrics) | {"ratio_interval", "peak_gpu_mib", "import_s"} == {
        *TIMING_METRICS,
        "import_s",
    }
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


@pytest.mark.parametrize(
    ("pass_steps", "step_s", "size"),
    [
        (45, 0.001, (45, 0, 6)),  # 250 steps would suffice, and 270 are whole passes
        (45, 0.01, (45, 0, 1)),
        (200, 0.002, (200, 0, 1)),  # a pass that takes up to twice as long is not cut
        (10_000, 0.002, (125, 4, 1)),
        (10_000, 0.1, (2, 1, 1)),
        (10_000, 9.0, (1, 1, 1)),
        (2, 9.0, (2, 0, 1)),  # with its settling step it would be the whole pass
        (1, 9.0, (1, 0, 1)),
    ],
)
def test_a_slice_is_passes_or_a_part_of_one(
    pass_steps: int, step_s: float, size: tuple[int, int, int]
) -> None:
    assert choose_slice_size(pass_steps, step_s, slice_s=0.25) == SliceSize(*size)


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


def test_a_users_workload_takes_slices(light: Trainer) -> None:
    events = run_in_slices(light, f"{SLICING}:steady", "none/one", settings={"spread": 0.1})
    window = [PhaseBegan, PhaseEnded, SliceDone]
    assert [type(event) for event in events] == [Ready, *window * 3, KernelProof, Result]
    assert single_event(events, Ready).slice_steps == 10
    assert result(events)["slices"] == 3


@pytest.mark.parametrize(
    ("name", "commands", "message"),
    [
        ("forgets", [], "its workload returned without any: expected a loop over trial.slices"),
        ("stops_early", [Slice()], "before it had run all requested slices"),
        ("reports_no_slice", [Slice()] * 2, "expected trial.slice(steps, seconds) once per"),
        ("loses_time", [Slice()], "more than 0 seconds for them; received 1 steps and 0.0 s"),
        ("steady", [Finish()], "expected at least one slice before finish; received none"),
        ("raises", [Slice()] * 5, "broke in a slice"),
        ("refuses", [Slice()], "this needs hardware that nobody has"),
    ],
)
def test_a_workload_that_breaks_the_slice_protocol_fails_with_advice(
    light: Trainer, name: str, commands: list[Slice | Finish], message: str
) -> None:
    """Commands that come too late are dropped: the next trial runs."""
    line = encode(TrialRequest(f"{SLICING}:{name}", "none/one", {"step_s": 1e-4}, measure="timing"))
    for sent in (line, *map(encode, commands)):
        light.send(sent)
    events = [light.next_event()]
    while not isinstance(events[-1], Result | Failure):
        events.append(light.next_event())
    assert message in failure(events).message
    assert result(run_in_slices(light, f"{SLICING}:steady", "none/one"))


def test_a_full_trial_has_no_slices(light: Trainer) -> None:
    failed = failure(light.ask(f"{SLICING}:takes_anyway", "none/one"))
    assert "slices are for a trial whose trial.measure is 'timing'" in failed.message


def run_by_hand_in_slices(*lines: str) -> tuple[int, list[Event | str], str]:
    settings = {"step_s": 1e-4}
    trial_request = TrialRequest(f"{SLICING}:steady", "none/one", settings, measure="timing")
    return run_by_hand(encode(trial_request), *lines)


def test_by_hand_the_commands_follow_the_request() -> None:
    status, events, _ = run_by_hand_in_slices(
        '{"command": "slice"}', '{"command": "slice", "steps": 7}', '{"command": "finish"}',
        request("noop"),
    )  # fmt: skip
    assert status == 0
    assert [event.steps for event in events if isinstance(event, SliceDone)] == [2500, 7]
    assert sum(isinstance(event, Result) for event in events) == 2


@pytest.mark.parametrize(
    ("lines", "message", "answers"),
    [
        ([], "it ended: send at least one slice, and finish", 1),
        (['{"command": "slice"}'], "it ended: send at least one slice, and finish", 1),
        (['{"command": "go"}'], "'command': expected one of slice, finish; received 'go'", 1),
        (['{"command": "slice", "steps": 0}'], "slice.steps: Input should be greater than", 1),
        ([request("noop")], "expected a line such as", 2),  # the request stays queued
    ],
)
def test_without_its_commands_a_trial_fails_and_does_not_hang(
    lines: list[str], message: str, answers: int
) -> None:
    status, events, _ = run_by_hand_in_slices(*lines)
    ends = [event for event in events if isinstance(event, Result | Failure)]
    assert (status, len(ends)) == (1, answers)
    assert isinstance(ends[0], Failure)
    assert ends[0].kind == "bad_request"
    assert message in ends[0].message


@pytest.mark.parametrize("name", ["steady", "hangs"], ids=["waiting", "in a slice"])
def test_an_attached_trainer_ends_with_standard_input(name: str) -> None:
    trial_request = TrialRequest(f"{SLICING}:{name}", "none/one", {"at": 0}, measure="timing")
    with Trainer(*ATTACHED) as attached:
        attached.send(encode(trial_request))
        assert isinstance(attached.next_event(), Ready)
        if name == "hangs":
            attached.send(encode(Slice()))
            time.sleep(0.2)
        assert attached.process.stdin is not None
        attached.process.stdin.close()
        assert attached.process.wait(timeout=10) == 0
        attached.process.stdin = None


def test_a_slice_without_a_duration_is_refused() -> None:
    slicing = Slicing(Finish, 0.25)
    with pytest.raises(ValueError, match="received 3 steps and nan s"):
        slicing.slice(3, math.nan, lambda _: None)
    with pytest.raises(ValueError, match="at least 1 step in a slice; received 0"):
        next(slicing.slices(0, lambda _: None))
