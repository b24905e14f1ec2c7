"""Slices and automatic blocks in the output of plan, progress and status."""

from __future__ import annotations

import io

from rich.console import Console

from orchestrator.cli.progress import PlainLines
from orchestrator.core.trial import Block, Outcome, make_trial
from orchestrator.hardware import classify
from orchestrator.planning.plan import Plan, describe_plan, make_plan
from tests.orchestrator.sample_plans import identity, node
from tests.orchestrator.sample_specs import OWN, spec

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
