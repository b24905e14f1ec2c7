"""How long the rest of a sweep may take."""

from __future__ import annotations

from orchestrator.analysis.forecast.forecast import Forecast, describe_forecast, forecast_from
from orchestrator.core.trial import FinishedTrial, Outcome
from orchestrator.hardware import classify
from tests.orchestrator.sample_plans import blocks_of, drain, node, plan

SECONDS = {"tensorflow/kernel0": 10.0, "tensorflow/kernel1": 40.0}
BY_ARM = {f"{implementation} on CPU A, 2 CPUs": s for implementation, s in SECONDS.items()}


def finished(number: int, nodes: int = 1) -> tuple[list[FinishedTrial], Forecast]:
    laid = plan(classify([node(f"n{index}") for index in range(nodes)]), blocks=10, repeats=2)
    trials = [issue.trial for issue in drain(blocks_of(laid))][:number]
    done = [
        FinishedTrial(trial, Outcome("complete", 0.0, SECONDS[trial.arm.implementation]))
        for trial in trials
    ]
    return done, forecast_from(laid, done)


def test_nothing_is_predicted_before_each_arm_has_run() -> None:
    assert finished(0)[1] == Forecast(0, 40, None)
    (first,), ahead = finished(1)
    seconds = SECONDS[first.trial.arm.implementation]
    assert ahead == Forecast(1, 39, None, {str(first.trial.arm): seconds})


def test_each_arm_is_judged_by_its_own_trials() -> None:
    assert finished(4)[1] == Forecast(4, 36, 18 * 10.0 + 18 * 40.0, BY_ARM)


def test_nodes_share_the_work() -> None:
    done, ahead = finished(6, nodes=3)
    work_s = 20 * 10.0 + 20 * 40.0 - sum(event.outcome.ended_s for event in done)
    assert ahead.remaining_s == work_s / 3


def test_nothing_is_left_of_a_finished_sweep() -> None:
    assert finished(40)[1] == Forecast(40, 0, 0.0, BY_ARM)


def test_trials_outside_the_plan_do_not_count() -> None:
    done, _ = finished(40)
    smaller = plan(classify([node("n0")]), blocks=3, repeats=1)
    assert forecast_from(smaller, done) == Forecast(6, 0, 0.0, BY_ARM)


def test_classes_that_share_a_node_share_its_time() -> None:
    hardware = classify([node("a", gpus=1), node("b", gpus=1)])
    laid = plan(hardware, implementations=1, blocks=10)
    trials = [issue.trial for issue in drain(blocks_of(laid))][:4]
    done = [FinishedTrial(trial, Outcome("complete", 0.0, 6.0)) for trial in trials]
    assert {str(trial.arm.hardware) for trial in trials} == {
        hardware_class.name for hardware_class in hardware
    }
    assert forecast_from(laid, done).remaining_s == 16 * 6.0 / 2


def test_what_is_to_be_done_again_is_missing_and_shows_how_long_it_takes() -> None:
    done, _ = finished(40)
    laid = plan(classify([node("n0")]), blocks=10, repeats=2)
    retimed = {event.trial.key for event in done if event.trial.block == 3}
    assert forecast_from(laid, done, retimed) == Forecast(36, 4, 2 * 10.0 + 2 * 40.0, BY_ARM)


def test_of_a_finished_sweep_only_that_is_reported() -> None:
    assert describe_forecast(finished(40)[1], at_most=True) == "all 40 trials are done"
