"""Progress of a running sweep, live and as plain lines."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from orchestrator.cli.progress import LiveView, PlainLines, make_view
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.hardware import classify
from orchestrator.scheduling.blocks import Assignment
from tests.orchestrator.sample_plans import blocks_of, node, plan

PLAN = plan(classify([node("a")]), implementations=2, blocks=3, repeats=2)


def assignments() -> list[Assignment]:
    """The trials of the whole plan, in their order."""
    blocks = blocks_of(PLAN)
    made = []
    while (issued := blocks.next()) is not None:
        blocks.finish(issued[0], Outcome("complete", 0.0, 1.0))
        made.append(issued[0])
    return made


def console(*, terminal: bool = False, width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_a_line_for_each_trial() -> None:
    out = console()
    with make_view(out, PLAN) as view:
        assert type(view) is PlainLines
        for assignment in assignments():
            view.trial_assigned(assignment)
            metrics = {"step_ms": 12.34, "val_accuracy": 0.91}
            view.trial_finished(assignment.trial, Outcome("complete", 0.0, 2.0, metrics=metrics))
    lines = printed(out).splitlines()
    assert len(lines) == PLAN.trials == 12
    assert lines[0].startswith("1/12  block 0  tensorflow/kernel")
    assert "12.3 ms/step, 0.91 val_accuracy" in lines[0]
    assert "left" not in lines[0], "one trial is no pace"
    assert "left)" in lines[1]


def test_a_failure_is_shown_with_its_reason_and_text_of_a_workload_is_no_markup() -> None:
    out = console()
    outcome = Outcome("failed", 0.0, 1.0, failure=FailureRecord("error", "broke [bold]here[/] [/]"))
    PlainLines(out, PLAN).trial_finished(assignments()[0].trial, outcome)
    assert "FAILED (error): broke [bold]here[/] [/]" in printed(out)


def test_the_end_of_blocks_changes_the_total() -> None:
    out = console()
    view = PlainLines(out, replace(PLAN, auto=AutoBlocks(0.1, 6, 9)))
    assert view.total == "at most 12"
    for assignment in assignments()[:4]:
        view.trial_finished(assignment.trial, Outcome("complete", 0.0, 1.0))
    view.blocks_decided(1, "every speed-up is known to ± 0.5 %")
    assert "enough after 1 block: every speed-up is known to ± 0.5 %" in printed(out)
    assert (view.total, view.blocks_expected) == ("4", 1)


def test_the_live_view_counts_blocks_arms_failures_and_shows_what_runs() -> None:
    out = console(terminal=True)
    view = make_view(out, PLAN)
    assert isinstance(view, LiveView)
    made = assignments()
    with view:
        for assignment in made[:5]:
            hung = Outcome("failed", 0.0, 1.0, failure=FailureRecord("hung", "no sign of life"))
            view.trial_assigned(assignment)
            view.trial_finished(
                assignment.trial, hung if assignment is made[4] else Outcome("complete", 0.0, 1.0)
            )
        for assignment in made[5:7]:
            view.trial_assigned(assignment)
        view.epoch_finished(made[5], 2)
        out.print(view.drawn())
    shown = printed(out)
    for words in ("5 of 12 trials · 1 of 3 blocks", "/6", "now   block 1", "epoch 3 done",
                  "next  block 1", "FAILED (hung)", "1 failed"):  # fmt: skip
        assert words in shown


def test_trials_of_an_earlier_start_count_as_far_as_they_are_planned_but_are_no_pace() -> None:
    view = PlainLines(console(), PLAN)
    fewer = PlainLines(console(), plan(classify([node("a")]), implementations=1, blocks=2))
    failure = FailureRecord("error", "broke")
    for assignment in assignments():
        outcome = Outcome("failed", 0.0, 100.0, failure=failure)
        view.trial_restored(assignment.trial, outcome)
        fewer.trial_restored(assignment.trial, outcome)
    assert (view.ended.total(), view.blocks_ended, view.remaining()) == (12, 3, None)
    assert (fewer.ended.total(), fewer.blocks_ended, fewer.failed.total()) == (2, 2, 2)
