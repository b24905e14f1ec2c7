"""Progress of a running sweep, live and as plain lines."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.cli import progress
from orchestrator.cli.messages import Messages
from orchestrator.cli.progress import LiveView, PlainLines, make_view
from orchestrator.core.records import Direction
from orchestrator.core.trial import FailureRecord, FinishedTrial, Outcome, Trial
from orchestrator.execution.job import JobProgress
from orchestrator.hardware import classify
from tests.building.hardware import build_node
from tests.building.scheduling import build_dispatcher, build_plan, finish_all_assignments
from tests.commands import wait_for
from tests.orchestrator.cli.typed_commands import read_events

PLAN = build_plan(classify([build_node("a")]), implementations=2, blocks=3, repeats=2)
ROUNDS = finish_all_assignments(build_dispatcher(PLAN))
TRIALS = [trial for round_ in ROUNDS for trial in round_.trials]
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
        for round_ in ROUNDS:
            view.round_assigned(round_)
            view.round_finished(
                [
                    FinishedTrial(trial, FAILED if trial is TRIALS[-1] else DONE)
                    for trial in round_.trials
                ]
            )
    lines = [line for line in printed(out).splitlines() if " so far  " not in line]
    assert len(lines) == PLAN.trials == 12
    assert lines[0].startswith("1/12  block 0  tensorflow/kernel")
    assert "12.3 ms/step, 0.91 val_accuracy" in lines[0]
    assert ["left)" in line for line in lines[:4]] == [False, False, True, True]  # one is no pace
    assert "FAILED (hung): no [bold]sign[/] [/]" in lines[-1], "a workload's text is no markup"


@pytest.mark.parametrize(
    ("objectives", "second_is_better_by", "led_by"),
    [
        ({}, 0.4, ["fastest: kernel0", "val_loss: kernel0"]),
        ({"f1": "maximize"}, 0.4, ["f1: kernel1", "fastest: kernel0"]),
        ({"f1": "maximize"}, 0.0, ["fastest: kernel0", "f1: none"]),
        ({"f1": "maximize", "step_ms": "minimize"}, 0.4, ["fastest: kernel0", "f1: kernel1"]),
        (
            {"peak_rss_mib": "minimize"},
            0.4,
            ["fastest: kernel0", "peak memory: kernel1", "val_loss: kernel0"],
        ),
        ({"unmeasured": "maximize"}, 0.4, ["fastest: kernel0", "val_loss: kernel0"]),
    ],
)
def test_the_time_leads_unless_all_objectives_are_results_that_differ(
    objectives: dict[str, Direction], second_is_better_by: float, led_by: list[str]
) -> None:
    """By time `kernel0` leads: it takes half as long. `kernel1` needs less memory."""
    out = console(width=200)
    plan = build_plan(classify([build_node("a")]), implementations=2, blocks=8)
    with make_view(out, plan) as view:
        view.objectives = objectives
        for round_ in finish_all_assignments(build_dispatcher(plan)):
            ended = []
            for trial in round_.trials:
                is_second = "1" in trial.arm.implementation
                metrics = {
                    "step_ms": 5.0 + 5.0 * is_second + trial.block / 100,
                    "f1": 0.5 + 0.001 * trial.block + second_is_better_by * is_second,
                    "val_loss": 1.0 + trial.block / 100 + is_second,
                    "peak_rss_mib": 900.0 - 300.0 * is_second,
                }
                ended.append(FinishedTrial(trial, replace(DONE, metrics=metrics)))
            view.round_finished(ended)
        leads = view.leads
    lines = printed(out).splitlines()
    assert any("0.5 f1" in line for line in lines) == ("f1" in objectives)
    found = [(lead.partition(" so far  ")[0], re.findall(r"kernel[01]", lead)) for lead in leads]
    assert [f"{label}: {(*arms, 'none')[0]}" for label, arms in found] == led_by
    assert [line for line in lines if " so far  " in line][-len(leads) :] == leads


def test_a_pipe_is_never_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console()
    monkeypatch.setattr(progress, "_SILENCE_S", 0.0)
    with make_view(out, PLAN) as view:
        view.jobs_changed(ROUNDS[:2])
        view.job_progressed(ROUNDS[0], JobProgress(0, doing="compiling"))
        line = r"0/12  compiling, [1-9]\d* s: block 0  2 arms in turns"
        wait_for(lambda: re.search(line, printed(out)))
    assert "and 1 other job" in printed(out)


def test_scripts_get_an_object_for_each_event() -> None:
    out = console(terminal=True)
    view = make_view(out, PLAN, Messages(are_json=True), quiet=True)
    for round_ in ROUNDS:
        view.round_finished(
            [
                FinishedTrial(trial, FAILED if trial is TRIALS[-1] else timed(trial))
                for trial in round_.trials
            ]
        )
    view.warn("a GPU is lost")
    first, *others, last, lead, warning = read_events(printed(out))
    assert [lead["event"], warning["event"], len(others)] == ["lead", "warning", 11]
    assert (first["trials_done"], first["trials"], first["seconds_left"]) == (1, 12, None)
    assert first["trial"]["trial_key"] == TRIALS[0].key
    assert first["trial"]["metrics"] == timed(TRIALS[0]).metrics
    assert (last["trial"]["failure_reason"], last["blocks_done"]) == ("hung", 3)
    assert last["seconds_left"] == 0


def test_quiet_leaves_failures_and_warnings() -> None:
    out = console(terminal=True)
    view = make_view(out, PLAN, quiet=True)
    view.round_finished([FinishedTrial(TRIALS[0], DONE), FinishedTrial(TRIALS[1], FAILED)])
    view.warn("a GPU is lost")
    assert "FAILED (hung)" in printed(out) and len(printed(out).splitlines()) == 2


def test_the_end_of_blocks_changes_the_total() -> None:
    out = console()
    view = PlainLines(out, replace(PLAN, ending="open"))
    assert view.total == "at most 12"
    view.round_finished([FinishedTrial(trial, DONE) for trial in TRIALS[:4]])
    view.blocks_decided(1, "every speed-up is known to ± 0.5 %")
    assert "after 1 block: every speed-up is known to ± 0.5 %" in printed(out)
    assert (view.total, view.blocks_expected) == ("4", 1)


def test_the_live_view_fits_and_shows_blocks_failures_and_what_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal gets plain lines
    screen = console(terminal=True)
    view = make_view(console(terminal=True), PLAN)
    assert isinstance(view, LiveView)
    for number, trial in enumerate(TRIALS[:9]):
        view.round_finished([FinishedTrial(trial, FAILED if number == 8 else timed(trial))])
    alone, together = replace(ROUNDS[4], trials=(TRIALS[9],)), ROUNDS[5]
    view.jobs_changed([alone, together, ROUNDS[0]])
    view.job_progressed(alone, JobProgress(24, most=96, interval=0.023))
    view.job_progressed(together, JobProgress(3, trial=1))
    view.job_progressed(together, JobProgress(2, trial=0))
    screen.print(view.drawn())
    shown = printed(screen)
    for words in ("9 of 12 trials · 2 of 3 blocks · about 0 s left", "▸ starting, 0 s: block 0"):
        assert words in shown
    for words in (
        "▸ 3 epochs done, 0 s: block 2  2 arms in turns",
        "▸ turn 24 of at most 96, ± 2.3 %, 0 s: block 2  tensorflow/kernel",
    ):
        assert words in shown
    assert "fastest so far  " in shown and ": 1 failed" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_trials_of_an_earlier_start_count_as_far_as_they_are_planned_but_are_no_pace() -> None:
    view = PlainLines(console(), PLAN)
    fewer = PlainLines(
        console(), build_plan(classify([build_node("a")]), implementations=1, blocks=2)
    )
    for trial in TRIALS:
        view.count_trial(trial, FAILED)
        fewer.count_trial(trial, FAILED)
    assert (view.ended.total(), view.blocks_ended, view.remaining()) == (12, 3, None)
    assert (fewer.ended.total(), fewer.blocks_ended, fewer.failed.total()) == (2, 2, 2)
