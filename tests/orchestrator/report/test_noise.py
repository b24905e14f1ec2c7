"""The notes of a report on disturbances, by which a reader judges its times."""

from __future__ import annotations

from typing import Any

from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import PORTABLE, paired, sweep, trial


def rendered(*trials_of: dict[str, Any]) -> str:
    trials = [trial(PORTABLE, block, **fields) for block, fields in enumerate(trials_of)]
    return " ".join(render(summarise(sweep(trials, (PORTABLE,))), "text").split())


def test_shares_of_the_timed_epochs_are_reported() -> None:
    text = rendered(
        {"others_cpu_pct": 10.0, "steal_pct": 0.5, "throttled_pct": 0.0, "clock_drop_pct": 3.0},
        {"others_cpu_pct": 20.0, "steal_pct": 1.5},
        {"others_cpu_pct": 90.0, "status": "failed", "failure": "error: not counted"},
    )
    assert (
        "During the timed epochs other processes took 15.0 (12.5–17.5) % of the CPUs, the machine's"
        " host took 1.00 (0.75–1.25) %, the device's clocks were throttled 0 % of the time, the"
        " clocks were 3 % below their maximum: median (quartiles)." in text
    )


def test_neighbours_are_reported_if_there_were_any() -> None:
    text = rendered({"other_trainers": 1}, {"other_trainers": 0}, {})
    assert "Other work ran during 1 of 2 trials, first: 1 other trainer on the node." in text
    assert "Other work ran" not in rendered({"other_trainers": 0})


def test_disturbed_trials_and_rounds_are_counted_by_what_disturbed_them() -> None:
    both = {"disturbance": {"other_processes": 43.2, "slow_canary": 1.31}}
    one = {"disturbance": {"other_processes": 12.0}}
    text = rendered({}, both, one, {"disturbance": {}})
    assert (
        "2 of 4 trials were disturbed, in 2 of 4 rounds, by other processes (2) and a slow"
        " calibration probe (1). First: run run-tensorflow/portable-1-0, other processes took 43 %"
        " of the CPUs; the calibration probe took 1.31 times its expected time." in text
    )
    assert "were disturbed" not in rendered({}, {"other_trainers": 0})


def test_shares_that_were_not_measured_are_not_reported() -> None:
    assert "During the timed epochs" not in render(summarise(paired(3)), "text")
