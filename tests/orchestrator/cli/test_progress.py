"""Progress of a running sweep, live and as plain lines."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.cli import progress
from orchestrator.cli.messages import Messages
from orchestrator.cli.progress import LiveView, PlainLines, WaitingLine, make_view
from orchestrator.core.records import Direction
from orchestrator.core.trial import FailureRecord, Outcome, Trial
from orchestrator.execution.job import JobProgress
from orchestrator.hardware import classify
from tests.building.hardware import build_node
from tests.building.scheduling import build_dispatcher, build_plan, finish_all_assignments
from tests.commands import wait_for
from tests.orchestrator.cli.typed_commands import read_events

PLAN = build_plan(classify([build_node("a")]), implementations=2, blocks=3, repeats=2)
ASSIGNMENTS = finish_all_assignments(build_dispatcher(PLAN))
DONE = Outcome("complete", 0.0, 2.0, metrics={"step_ms": 12.34, "val_accuracy": 0.91})
FAILED = Outcome("failed", 0.0, 100.0, failure=FailureRecord("hung", "no [bold]sign[/] [/]"))


def console(*, terminal: bool = False, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def timed(trial: Trial) -> Outcome:
    """`kernel1` is about twice as fast as `kernel0`."""
    times = {"tensorflow/kernel0": 10.0, "tensorflow/kernel1": 5.0 + trial.block % 3 / 100}
    return replace(DONE, metrics={"step_ms": times[trial.arm.implementation]})


def test_a_pipe_gets_a_line_for_each_trial() -> None:
    out = console()
    with make_view(out, PLAN) as view:
        assert type(view) is PlainLines
        for assignment in ASSIGNMENTS:
            view.trial_assigned(assignment)
            outcome = FAILED if assignment is ASSIGNMENTS[-1] else DONE
            view.trial_finished(assignment.trial, outcome)
    lines = [line for line in printed(out).splitlines() if "so far" not in line]
    assert len(lines) == PLAN.trials == 12
    assert lines[0].startswith("1/12  block 0  tensorflow/kernel")
    assert "12.3 ms/step, 0.91 val_accuracy" in lines[0]
    assert "left" not in lines[0] and "left)" in lines[1], "one trial is no pace"
    assert "FAILED (hung): no [bold]sign[/] [/]" in lines[-1], "a workload's text is no markup"


@pytest.mark.parametrize(
    ("objectives", "second_is_better_by", "led_by"),
    [
        ({"f1": "maximize"}, 0.4, ["f1: kernel1"]),
        ({"f1": "maximize"}, 0.0, ["f1: none"]),
        ({"f1": "maximize", "step_ms": "minimize"}, 0.4, ["f1: kernel1", "time: kernel0"]),
        ({"unmeasured": "maximize"}, 0.4, ["time: kernel0"]),
    ],
)
def test_the_leader_is_the_one_by_the_objectives_in_their_order(
    objectives: dict[str, Direction], second_is_better_by: float, led_by: list[str]
) -> None:
    """By time alone `kernel0` leads: it takes half as long."""
    out = console(width=200)
    plan = build_plan(classify([build_node("a")]), implementations=2, blocks=8)
    with make_view(out, plan) as view:
        view.objectives = objectives
        for assignment in finish_all_assignments(build_dispatcher(plan)):
            block, is_second = assignment.trial.block, "1" in assignment.trial.arm.implementation
            f1 = 0.5 + 0.001 * block + second_is_better_by * is_second
            metrics = {"step_ms": 5.0 + 5.0 * is_second + block / 100, "f1": f1}
            view.trial_finished(assignment.trial, replace(DONE, metrics=metrics))
        leads = view.leads
    lines = printed(out).splitlines()
    assert any("0.5 f1" in line for line in lines) == ("f1" in objectives)
    found = [
        f"{'f1' if 'f1' in lead else 'time'}: {(*re.findall(r'kernel[01]', lead), 'none')[0]}"
        for lead in leads
    ]
    assert found == led_by
    assert [line for line in lines if line.startswith("so far")][-len(leads) :] == [
        f"so far {lead}" for lead in leads
    ]


def test_a_pipe_is_never_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console()
    monkeypatch.setattr(progress, "_SILENCE_S", 0.0)
    with make_view(out, PLAN) as view:
        view.jobs_changed(ASSIGNMENTS[:2])
        view.job_progressed(ASSIGNMENTS[0], JobProgress(0, doing="compiling"))
        line = r"0/12  compiling, [1-9]\d* s: block 0  tensorflow/kernel"
        wait_for(lambda: re.search(line, printed(out)))
    assert "and 1 other job" in printed(out)


def test_the_fastest_arm_so_far_is_shown_now_and_then() -> None:
    out, laid = console(), build_plan(classify([build_node("a")]), implementations=2, blocks=40)
    view = make_view(out, laid)
    for assignment in finish_all_assignments(build_dispatcher(laid)):
        view.trial_finished(assignment.trial, timed(assignment.trial))
    leads = [line for line in printed(out).splitlines() if line.startswith("so far")]
    assert leads[0].startswith("so far tensorflow/kernel1 leads: ")
    assert leads[-1].startswith("so far tensorflow/kernel1 is fastest: ")
    assert leads[-1].endswith("over 40 blocks")
    assert len(leads) == 14, "each ranking reads all trials"


def test_scripts_get_an_object_for_each_event() -> None:
    out = console(terminal=True)
    view = make_view(out, PLAN, Messages(are_json=True), quiet=True)
    for assignment in ASSIGNMENTS:
        outcome = FAILED if assignment is ASSIGNMENTS[-1] else timed(assignment.trial)
        view.trial_finished(assignment.trial, outcome)
    view.warn("a GPU is lost")
    first, *others, last, lead, warning = read_events(printed(out))
    assert [lead["event"], warning["event"], len(others)] == ["lead", "warning", 11]
    assert (first["trials_done"], first["trials"], first["seconds_left"]) == (1, 12, None)
    assert first["trial"]["trial_key"] == ASSIGNMENTS[0].trial.key
    assert first["trial"]["metrics"] == timed(ASSIGNMENTS[0].trial).metrics
    assert (last["trial"]["failure_reason"], last["blocks_done"]) == ("hung", 3)
    assert last["seconds_left"] == 0


def test_quiet_leaves_failures_and_warnings() -> None:
    out = console(terminal=True)
    view = make_view(out, PLAN, quiet=True)
    for assignment, outcome in zip(ASSIGNMENTS, (DONE, FAILED), strict=False):
        view.trial_finished(assignment.trial, outcome)
    view.warn("a GPU is lost")
    assert "FAILED (hung)" in printed(out) and len(printed(out).splitlines()) == 2


def test_the_end_of_blocks_changes_the_total() -> None:
    out = console()
    view = PlainLines(out, replace(PLAN, ending="open"))
    assert view.total == "at most 12"
    for assignment in ASSIGNMENTS[:4]:
        view.trial_finished(assignment.trial, DONE)
    view.blocks_decided(1, "every speed-up is known to ± 0.5 %")
    assert "enough after 1 block: every speed-up is known to ± 0.5 %" in printed(out)
    assert (view.total, view.blocks_expected) == ("4", 1)


def test_a_wait_is_shown_in_place_on_a_terminal_and_now_and_then_in_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen, log, events = console(terminal=True), console(), console()
    for out, form in ((screen, Messages()), (log, Messages()), (events, Messages(are_json=True))):
        with WaitingLine(out, form) as waiting:
            for number in range(3):
                waiting.show(f"look {number}")
    assert printed(log) == "look 0\n"
    assert [event["text"] for event in read_events(printed(events))] == ["look 0"]
    assert "look 2" in printed(screen)


@pytest.mark.parametrize("width", [80, 100])
def test_the_live_view_fits_and_shows_blocks_failures_and_what_runs(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal gets plain lines
    screen = console(terminal=True, width=width)
    view = make_view(console(terminal=True), PLAN)
    assert isinstance(view, LiveView)
    for number, assignment in enumerate(ASSIGNMENTS[:9]):
        outcome = FAILED if number == 8 else timed(assignment.trial)
        view.trial_finished(assignment.trial, outcome)
    view.jobs_changed(ASSIGNMENTS[9:12])
    view.job_progressed(ASSIGNMENTS[9], JobProgress(3))
    view.job_progressed(ASSIGNMENTS[10], JobProgress(24, most=96, interval=0.023))
    screen.print(view.drawn())
    shown = printed(screen)
    for words in ("9 of 12 trials · 2 of 3 blocks · about 0 s left", "▸ starting, 0 s: block 2"):
        assert words in shown
    for words in ("▸ 3 epochs done, 0 s: block 2", "▸ slice 24 of at most 96, ± 2.3 %, 0 s: block"):
        assert words in shown
    assert "tensorflow/kernel1 leads: " in shown and ": 1 failed" in shown
    assert max(map(len, shown.splitlines())) <= width


def test_trials_of_an_earlier_start_count_as_far_as_they_are_planned_but_are_no_pace() -> None:
    view = PlainLines(console(), PLAN)
    fewer = PlainLines(
        console(), build_plan(classify([build_node("a")]), implementations=1, blocks=2)
    )
    for assignment in ASSIGNMENTS:
        view.count_trial(assignment.trial, FAILED)
        fewer.count_trial(assignment.trial, FAILED)
    assert (view.ended.total(), view.blocks_ended, view.remaining()) == (12, 3, None)
    assert (fewer.ended.total(), fewer.blocks_ended, fewer.failed.total()) == (2, 2, 2)
