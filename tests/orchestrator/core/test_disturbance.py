"""Causes of disturbance of a trial: never its own times."""

from __future__ import annotations

import pytest

from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import CanaryBaseline, causes, judge
from orchestrator.core.trial import Arm, FinishedTrial, Outcome, Trial
from tests.orchestrator.sample_hardware import on_cpu

QUIET = DisturbanceLimits()


def finished(
    canary_ms: float | None, node: str = "one", implementation: str = "torch/fused"
) -> FinishedTrial:
    trial = Trial("key", 0, {}, Arm(implementation, on_cpu()), 0, 1)
    metrics = {} if canary_ms is None else {"canary_ms": canary_ms}
    return FinishedTrial(trial, Outcome("complete", 0.0, 1.0, node=node, metrics=metrics))


def test_a_trial_whose_node_was_quiet_is_not_disturbed_however_slow_it_was() -> None:
    metrics = {"others_cpu_pct": 9.9, "steal_pct": 5.0, "canary_ms": 22.9, "step_ms": 1e6}
    assert judge(metrics, {"neighbours": "none"}, QUIET, 20.0) == ""


def test_what_was_not_measured_judges_nothing() -> None:
    assert judge({}, {}, QUIET, None) == ""
    assert judge({"canary_ms": 1e6}, {}, QUIET, None) == ""


def test_every_cause_has_its_figure() -> None:
    metrics = {
        "others_cpu_pct": 43.2,
        "steal_pct": 6.0,
        "throttled_pct": 20.0,
        "clock_drop_pct": 25.4,
        "canary_ms": 26.2,
    }
    note = judge(metrics, {"throttle_reasons": "hw_thermal_slowdown 20 %"}, QUIET, 20.0)
    assert note == (
        "others took 43 % of the CPUs; the machine's host took 6 % of the CPUs; clocks were held"
        " back 20 % of the time; clocks lay 25 % below what they may be; the canary took 1.31"
        " times its usual time"
    )
    assert causes(note) == (
        *("other processes", "the machine's host", "throttling", "low clocks"),
        "a slow canary",
    )


@pytest.mark.parametrize(
    ("seconds", "limit_pct"),
    [({"train_s": 9.0}, 15), ({"train_s": 0.25}, 60), ({"timed_s": 0.5, "train_s": 9.0}, 30)],
)
def test_shares_of_less_than_a_second_are_judged_less_strictly(
    seconds: dict[str, float], limit_pct: float
) -> None:
    assert not judge({**seconds, "others_cpu_pct": limit_pct - 0.1}, {}, QUIET, None)
    assert judge({**seconds, "others_cpu_pct": limit_pct + 0.1}, {}, QUIET, None)
    assert judge({**seconds, "clock_drop_pct": 10.1}, {}, QUIET, None)


def test_limits_are_the_spec_s() -> None:
    assert judge({"others_cpu_pct": 43.2}, {}, DisturbanceLimits(others_cpu_pct=50), None) == ""
    assert judge({"canary_ms": 26.0}, {}, DisturbanceLimits(canary=1.5), 20.0) == ""


@pytest.mark.parametrize(
    ("reasons", "disturbed"),
    [
        ("sw_power_cap 80 %", False),
        ("sw_power_cap 80 %, sw_thermal_slowdown 10 %", True),
        ("", True),
    ],
)
def test_a_gpu_at_its_own_power_limit_is_as_it_always_is(reasons: str, disturbed: bool) -> None:
    notes = {"throttle_reasons": reasons} if reasons else {}
    assert bool(judge({"throttled_pct": 80.0}, notes, QUIET, None)) is disturbed


def test_other_trainers_have_cpus_of_their_own_but_a_gpu_is_one_trial_s_alone() -> None:
    neighbour = {"neighbours": "3 other trainers at work on the node"}
    assert judge({"others_cpu_pct": 2.0}, neighbour, QUIET, None) == ""
    shared = {"neighbours": "1 other trainer at work on the node, 2 other processes on the GPU"}
    note = judge({}, shared, QUIET, None)
    assert note == "2 other processes on the GPU"
    assert causes(note) == ("a shared GPU",)


def test_usual_is_what_three_canaries_of_four_at_a_place_stay_below_once_there_are_enough() -> None:
    canary_baseline = CanaryBaseline().learn(
        [finished(ms) for ms in (20.0, 21.0, 90.0, 22.0, 19.0, 20.0)]
    )
    canary_baseline.add(finished(18.0))
    canary_baseline.add(finished(None))
    assert CanaryBaseline().learn([finished(20.0)] * 4).expected_ms(finished(None)) is None
    assert canary_baseline.expected_ms(finished(None)) == 22.0
    assert canary_baseline.expected_ms(finished(None, node="two")) is None
    assert canary_baseline.expected_ms(finished(None, implementation="tensorflow/portable")) is None
    assert canary_baseline.expected_ms(finished(None, implementation="torch/portable")) == 22.0


def test_a_second_speed_that_is_there_all_day_is_no_disturbance() -> None:
    canary_baseline = CanaryBaseline().learn(
        [finished(ms) for ms in (4.3, 6.5, 4.4, 6.2, 4.5, 4.3, 6.6, 4.4)]
    )
    assert (
        judge(
            {"canary_ms": 6.8}, {}, DisturbanceLimits(), canary_baseline.expected_ms(finished(None))
        )
        == ""
    )
    assert (
        judge(
            {"canary_ms": 9.8}, {}, DisturbanceLimits(), canary_baseline.expected_ms(finished(None))
        )
        != ""
    )


def test_a_node_that_became_slower_for_good_is_usual_after_a_while() -> None:
    canary_baseline = CanaryBaseline().learn([finished(20.0)] * 40 + [finished(30.0)] * 60)
    assert canary_baseline.expected_ms(finished(None)) == 30.0
