"""Progress of a running sweep, live and as plain lines."""

import io
from dataclasses import replace

from rich.console import Console

from orchestrator.cli.progress import LiveView, PlainLines, make_view
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.execution.job import JobProgress
from orchestrator.hardware import classify
from tests.orchestrator.sample_plans import blocks_of, drain, node, plan

PLAN = plan(classify([node("a")]), implementations=2, blocks=3, repeats=2)
ASSIGNMENTS = drain(blocks_of(PLAN))
DONE = Outcome("complete", 0.0, 2.0, metrics={"step_ms": 12.34, "val_accuracy": 0.91})
FAILED = Outcome("failed", 0.0, 100.0, failure=FailureRecord("hung", "no [bold]sign[/] [/]"))


def console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_a_line_for_each_trial() -> None:
    out = console()
    with make_view(out, PLAN) as view:
        assert type(view) is PlainLines
        for assignment in ASSIGNMENTS:
            view.trial_assigned(assignment)
            outcome = FAILED if assignment is ASSIGNMENTS[-1] else DONE
            view.trial_finished(assignment.trial, outcome)
    lines = printed(out).splitlines()
    assert len(lines) == PLAN.trials == 12
    assert lines[0].startswith("1/12  block 0  tensorflow/kernel")
    assert "12.3 ms/step, 0.91 val_accuracy" in lines[0]
    assert "left" not in lines[0] and "left)" in lines[1], "one trial is no pace"
    assert "FAILED (hung): no [bold]sign[/] [/]" in lines[-1], "a workload's text is no markup"


def test_the_end_of_blocks_changes_the_total() -> None:
    out = console()
    view = PlainLines(out, replace(PLAN, auto=AutoBlocks(0.1, 6, 9)))
    assert view.total == "at most 12"
    for assignment in ASSIGNMENTS[:4]:
        view.trial_finished(assignment.trial, DONE)
    view.blocks_decided(1, "every speed-up is known to ± 0.5 %")
    assert "enough after 1 block: every speed-up is known to ± 0.5 %" in printed(out)
    assert (view.total, view.blocks_expected) == ("4", 1)


def test_trials_that_a_pruned_block_does_not_run_are_not_expected() -> None:
    out = console(terminal=True)
    view = LiveView(out, PLAN)
    view.trial_assigned(ASSIGNMENTS[1])
    view.trial_finished(ASSIGNMENTS[0].trial, Outcome("pruned", 0.0, 2.0))
    out.print(view.drawn())
    assert "1 of 9 trials · 1 of 3 blocks · 1 pruned" in printed(out)
    assert "next" not in printed(out)


def test_the_live_view_counts_blocks_arms_failures_and_shows_what_runs() -> None:
    out = console(terminal=True)
    with make_view(out, PLAN) as view:
        assert isinstance(view, LiveView)
        for assignment in ASSIGNMENTS[:7]:
            view.trial_assigned(assignment)
        for assignment in ASSIGNMENTS[:5]:
            outcome = FAILED if assignment is ASSIGNMENTS[4] else DONE
            view.trial_finished(assignment.trial, outcome)
        view.job_progressed(ASSIGNMENTS[5], JobProgress(3))
        view.job_progressed(ASSIGNMENTS[6], JobProgress(24, most=96, interval=0.023))
        out.print(view.drawn())
    shown = printed(out)
    for words in ("5 of 12 trials · 1 of 3 blocks", "/6", "now   block 1", "epoch 3 done"):
        assert words in shown
    for words in ("next  block 1", "FAILED (hung)", "1 failed", "slice 24 of at most 96", "± 2.3"):
        assert words in shown


def test_trials_of_an_earlier_start_count_as_far_as_they_are_planned_but_are_no_pace() -> None:
    view = PlainLines(console(), PLAN)
    fewer = PlainLines(console(), plan(classify([node("a")]), implementations=1, blocks=2))
    for assignment in ASSIGNMENTS:
        view.trial_restored(assignment.trial, FAILED)
        fewer.trial_restored(assignment.trial, FAILED)
    assert (view.ended.total(), view.blocks_ended, view.remaining()) == (12, 3, None)
    assert (fewer.ended.total(), fewer.blocks_ended, fewer.failed.total()) == (2, 2, 2)
