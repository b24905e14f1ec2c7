"""Slices and automatic blocks in the output of plan, progress and status."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from orchestrator.cli.progress import PlainLines
from orchestrator.cli.status import describe_sweeps
from orchestrator.core.trial import Block, Outcome, make_trial
from orchestrator.hardware import classify
from orchestrator.planning.plan import Plan, describe_plan, make_plan
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import (
    BlocksEnough,
    BlockSuggested,
    Journal,
    SessionStarted,
    SweepOpened,
    TrialFinished,
)
from tests.orchestrator.sample_plans import identity, node
from tests.orchestrator.sample_specs import OWN, spec
from tests.orchestrator.sample_sweeps import IDENTITY, PORTABLE, finished

SPEC = spec(
    OWN,
    name="sure",
    configs=None,
    space={"layers": {"low": 1, "high": 99}},
    implementations=["python/a", "python/b"],
    measure={"mode": "timing", "interval": 0.02, "slices": [8, 40]},
    blocks={"interval": 0.005, "at_least": 8, "at_most": 20},
)


def laid() -> Plan:
    return make_plan(SPEC, classify([node("a")]))


def test_a_plan_shows_the_stopping_rule_and_what_is_timed() -> None:
    text = describe_plan(laid(), "sure")
    assert "sweep sure: 8 to 20 blocks × 2 arms = at most 40 trials" in text
    assert "the interval of every speed-up is within ± 0.5 %" in text
    assert "runs   python/a on CPU A, 2 CPUs [timing]" in text
    assert "8 to 40 slices of 0.25 s each, until each ratio of a round is known to ± 2 %" in text
    plain = describe_plan(laid().with_block_count(9), "sure")
    assert "sweep sure: 9 blocks × 2 arms = 18 trials" in plain
    assert "every speed-up" not in plain


def test_the_progress_shows_the_end_of_blocks() -> None:
    plan = laid()
    out = io.StringIO()
    view = PlainLines(Console(file=out, width=200), plan)
    trials = [make_trial(identity(), Block(0, {"layers": 1}), arm, 0) for arm in plan.arms]
    outcome = Outcome("complete", 0.0, 1.0, metrics={"step_ms": 1.0})
    for trial in trials:
        view.trial_finished(trial, outcome)
    view.blocks_decided(1, "every speed-up is known to ± 0.5 %")
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "1/at most 40",
        "2/at most 40",
        "enough after 1 block: every speed-up is known to ± 0.5 %",
    ]
    assert (view.total, view.blocks_expected) == ("2", 1)


def test_a_status_shows_when_and_why_blocks_ended(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path, IDENTITY.name)
    folder.make()
    with Journal(folder.generation(1)) as journal:
        journal.append(SweepOpened(IDENTITY, {}))
        journal.append(SessionStarted(0.0, 1, "host", "1", 60, 1, [PORTABLE], least=6))
        for block in range(7):
            one = finished(block, arm=PORTABLE)
            journal.append(BlockSuggested(block, one.trial.config, 0.0))
            journal.append(TrialFinished(one))
        assert "7 of at most 60 trials ended" in describe_sweeps(tmp_path, IDENTITY.name)
        journal.append(BlocksEnough(1.0, 6, 0.004, "every speed-up is known to ± 0.5 %"))
    text = describe_sweeps(tmp_path, IDENTITY.name)
    assert "7 of 7 trials ended" in text
    assert "7 of 7 blocks suggested" in text
    assert "enough after 6 blocks: every speed-up is known to ± 0.5 %" in text
