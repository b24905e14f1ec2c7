"""What a report says of what else went on, so that a reader can judge its times."""

from __future__ import annotations

from typing import Any

from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import PORTABLE, paired, sweep, trial


def told(*trials_of: dict[str, Any]) -> str:
    trials = [trial(PORTABLE, block, **fields) for block, fields in enumerate(trials_of)]
    return " ".join(render(summarise(sweep(trials, (PORTABLE,))), "text").split())


def test_shares_of_the_timed_epochs_are_told() -> None:
    said = told(
        {"others_cpu_pct": 10.0, "steal_pct": 0.5, "throttled_pct": 0.0, "clock_drop_pct": 3.0},
        {"others_cpu_pct": 20.0, "steal_pct": 1.5},
        {"others_cpu_pct": 90.0, "status": "failed", "failure": "error: not counted"},
    )
    assert (
        "During the timed epochs others took 15.0 (12.5–17.5) % of the CPUs, the machine's host"
        " took 1.00 (0.75–1.25) %, the device's clocks were held back 0 % of the time, they lay 3"
        " % below what they may be: median (quartiles)." in said
    )


def test_neighbours_are_told_where_there_were_any() -> None:
    said = told({"other_trainers": 1}, {"other_trainers": 0}, {})
    assert (
        "Beside 1 of 2 trials others were at work, the first time: 1 other trainer on the"
        " node." in said
    )
    assert "others were at work" not in told({"other_trainers": 0})


def test_disturbed_trials_and_rounds_are_counted_by_what_disturbed_them() -> None:
    both = {"disturbance": {"other_processes": 43.2, "slow_canary": 1.31}}
    one = {"disturbance": {"other_processes": 12.0}}
    said = told({}, both, one, {"disturbance": {}})
    assert (
        "2 of 4 trials were disturbed, in 2 of 4 rounds, by other processes (2) and a slow canary"
        " (1). The first, run-tensorflow/portable-1-0: other processes took 43 % of the CPUs; the"
        " canary took 1.31 times its expected time." in said
    )
    assert "were disturbed" not in told({}, {"other_trainers": 0})


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert "During the timed epochs" not in render(summarise(paired(3)), "text")
