"""Trials that are timed in slices, in real trainers: on every backend, by hand, and with faults."""

from __future__ import annotations

import json
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
from workloads.registry import find_workload
from workloads.slicing import SliceSize, Slicing, choose_slice_size

SLICING = "tests.workloads.examples.slicing"
ATTACHED = ("--die-with-parent", str(os.getpid()))
SMALL: dict[str, Any] = {
    **{"units": 8, "samples": 70, "validation_samples": 40, "dropout": 0.4},
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "image_rows": {**SMALL, "dense_units": 8},
    "next_token": {**SMALL, "sequence_length": 6},
    "sentiment": {**SMALL, "dataset": "python-docs", "sequence_length": 6},
    "char_rnn": {**SMALL, "sequence_length": 6, "batch_size": 8},  # stateful
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
    metrics, done_slices = result(events), slices(events)
    logs = [math.log(done_slice.seconds / done_slice.steps) for done_slice in done_slices]
    assert metrics["slices"] == len(done_slices)
    assert metrics["step_ms"] == pytest.approx(1_000 * math.exp(sum(logs) / len(logs)))
    assert metrics["timed_s"] == pytest.approx(
        sum(done_slice.seconds for done_slice in done_slices)
    )
    assert metrics["slice_steps"] * len(done_slices) == pytest.approx(
        sum(done_slice.steps for done_slice in done_slices)
    )
    assert single_event(events, KernelProof).ran == single_event(events, KernelProof).asked
    assert {"load_s", "compile_s", "peak_rss_mib", "canary_ms", "samples_per_s"} <= set(metrics)
    assert not {"loss", "accuracy", "val_accuracy", "train_s", "evaluate_s"} & set(metrics)
    assert not [event for event in events if isinstance(event, Epoch)]
    trained = [
        event for event in events if isinstance(event, PhaseEnded) and event.phase == "train"
    ]
    for window, done_slice in zip(trained, done_slices, strict=True):
        assert window.seconds >= done_slice.seconds > 0
    return metrics


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("batches", [2, 9], ids=["whole passes", "parts of a pass"])
def test_a_slice_is_whole_steps_of_full_batches(
    trainer_of: Trainer, backend: str, batches: int
) -> None:
    settings = {**WORKLOADS["image_rows"], "samples": 32 * batches + 12}
    events = run_in_slices(
        trainer_of, "image_rows", f"{backend}/portable", settings=settings, slice_s=1e-4
    )
    metrics, steps = expect_sound(events), single_event(events, Ready).slice_steps
    assert [done_slice.steps for done_slice in slices(events)] == [steps] * 3
    assert steps % 2 == 0 if batches == 2 else steps < 9
    assert metrics["samples_per_s"] == pytest.approx(32_000 / metrics["step_ms"])
    assert metrics["sample_us"] == pytest.approx(1_000 * metrics["step_ms"] / 32)
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


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_that_trains_takes_slices(torch_trainer: Trainer, workload: str) -> None:
    expect_sound(
        run_in_slices(torch_trainer, workload, "torch/fused", settings=WORKLOADS[workload])
    )


@pytest.mark.parametrize(
    ("backend", "kernel"), [("tensorflow", "portable+xla"), ("jax", "portable"), ("torch", "fused")]
)
def test_passes_alone_take_slices(trainer_of: Trainer, backend: str, kernel: str) -> None:
    settings = {"features": 5, "sequence_length": 6, "units": 4, "batch_size": 3, "timed_steps": 3}
    metrics = expect_sound(
        run_in_slices(trainer_of, "synthetic", f"{backend}/{kernel}", settings=settings)
    )
    assert "forward_ms" not in metrics


def test_the_metrics_of_slices_are_among_those_of_the_workload(torch_trainer: Trainer) -> None:
    metrics = result(
        run_in_slices(
            torch_trainer, "image_rows", "torch/fused+again", settings=WORKLOADS["image_rows"]
        )
    )
    slicing = {"slices", "slice_steps", "timed_s"}
    assert set(metrics) - {"import_s"} - slicing <= set(find_workload("image_rows").metrics)


def test_a_slice_has_about_the_requested_steps(torch_trainer: Trainer) -> None:
    commands = (Slice(steps=6), Slice(steps=1), Slice(), Finish())
    events = run_in_slices(
        torch_trainer, "image_rows", "torch/fused", commands, settings=WORKLOADS["image_rows"]
    )
    six, one, suggested = (done_slice.steps for done_slice in slices(events))
    assert (six, one) == (6, 2)  # a pass has two steps, and is never cut
    assert suggested == single_event(events, Ready).slice_steps


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_slices_begin_where_a_whole_training_does(trainer_of: Trainer, backend: str) -> None:
    settings = {**WORKLOADS["image_rows"], "samples": 64}
    digests = result(
        trainer_of.ask(
            "tests.workloads.probes:starts_of_slices", f"{backend}/portable", settings=settings
        )
    )
    assert digests["before"] == digests["first"] != digests["second"]


def test_a_full_trial_follows_one_in_slices(torch_trainer: Trainer) -> None:
    settings = {**WORKLOADS["image_rows"], "epochs": 1, "timed_steps": 0}
    before = result(torch_trainer.ask("image_rows", "torch/fused", settings=settings, seed=3))
    run_in_slices(torch_trainer, "image_rows", "torch/fused", settings=settings)
    after = result(torch_trainer.ask("image_rows", "torch/fused", settings=settings, seed=3))
    assert before["loss"] == after["loss"]


def test_a_users_workload_takes_slices(light: Trainer) -> None:
    events = run_in_slices(light, f"{SLICING}:steady", "none/one", settings={"spread": 0.1})
    assert [type(event) for event in events] == [
        Ready,
        *[PhaseBegan, PhaseEnded, SliceDone] * 3,
        KernelProof,
        Result,
    ]
    assert single_event(events, Ready).slice_steps == 10
    assert result(events)["slices"] == 3


@pytest.mark.parametrize(
    ("name", "commands", "message"),
    [
        ("forgets", [], "its workload returned without any: expected a loop over trial.slices"),
        ("stops_early", [Slice()], "before it had run all requested slices"),
        (
            "reports_no_slice",
            [Slice()] * 2,
            "expected trial.slice(steps, seconds) once per iteration",
        ),
        ("loses_time", [Slice()], "more than 0 seconds for them; received 1 steps and 0.0 s"),
        ("steady", [Finish()], "expected at least one slice before finish; received none"),
        ("raises", [Slice()] * 5, "broke in a slice"),
        ("refuses", [Slice()], "this needs hardware that nobody has"),
    ],
)
def test_a_workload_that_breaks_the_slice_protocol_fails_with_advice(
    light: Trainer, name: str, commands: list[Slice | Finish], message: str
) -> None:
    line = encode(TrialRequest(f"{SLICING}:{name}", "none/one", {"step_s": 1e-4}, measure="timing"))
    for sent in (line, *map(encode, commands)):
        light.send(sent)
    events = [light.next_event()]
    while not isinstance(events[-1], Result | Failure):
        events.append(light.next_event())
    assert message in failure(events).message
    assert result(run_in_slices(light, f"{SLICING}:steady", "none/one")), (
        "commands too late are dropped"
    )


def test_a_full_trial_has_no_slices(light: Trainer) -> None:
    failed = failure(light.ask(f"{SLICING}:takes_anyway", "none/one"))
    assert "slices are for a trial whose trial.measure is 'timing'" in failed.message


def run_by_hand_in_slices(*lines: str) -> tuple[int, list[Event | str], str]:
    trial_request = TrialRequest(
        f"{SLICING}:steady", "none/one", {"step_s": 1e-4}, measure="timing"
    )
    return run_by_hand(encode(trial_request), *lines)


def test_by_hand_the_commands_follow_the_request() -> None:
    status, events, _ = run_by_hand_in_slices(
        '{"command": "slice"}', '{"command": "slice", "steps": 7}', '{"command": "finish"}',
        request("noop"),
    )  # fmt: skip
    assert status == 0
    done_slices = [event for event in events if isinstance(event, SliceDone)]
    assert [done_slice.steps for done_slice in done_slices] == [2500, 7]
    assert sum(isinstance(event, Result) for event in events) == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "it ended: send at least one slice, and finish"),
        (['{"command": "slice"}'], "it ended: send at least one slice, and finish"),
        (['{"command": "go"}'], "'command': expected one of slice, finish; received 'go'"),
        (
            ['{"command": "slice", "steps": 0}'],
            "slice.steps: Input should be greater than or equal to 1; received 0",
        ),
        (['{"command": "slice", "step": 1}'], "slice.step: unknown field"),
    ],
)
def test_without_its_commands_a_trial_fails_and_does_not_hang(
    lines: list[str], message: str
) -> None:
    status, events, _ = run_by_hand_in_slices(*lines)
    assert status == 1
    last = events[-1]
    assert isinstance(last, Failure)
    assert last.kind == "bad_request"
    assert message in last.message


def test_a_request_instead_of_a_command_stays_queued() -> None:
    status, events, _ = run_by_hand_in_slices(request("noop"))
    assert status == 1
    ends = [event for event in events if isinstance(event, Result | Failure)]
    assert [type(event) for event in ends] == [Failure, Result]


def test_a_command_without_a_trial_is_no_request() -> None:
    status, events, _ = run_by_hand('{"command": "slice"}')
    assert status == 2
    assert isinstance(events[0], Failure)


def test_commands_that_come_too_late_are_dropped() -> None:
    trial_request = TrialRequest(f"{SLICING}:refuses", "none/one", measure="timing")
    status, events, errors = run_by_hand(
        encode(trial_request), '{"command": "slice"}', '{"command": "finish"}', request("noop")
    )
    assert status == 1
    assert [type(event) for event in events] == [Failure, Epoch, Result]
    assert errors.count("dropped, its trial is over") == 2


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


def test_a_slice_of_0_seconds_is_refused() -> None:
    line = {"workload": f"{SLICING}:steady", "implementation": "a/b", "slice_s": 0}
    status, events, _ = run_by_hand(json.dumps(line))
    assert status == 2
    assert isinstance(events[0], Failure)
    assert "request.slice_s: Input should be greater than 0; received 0" in events[0].message
