"""The registry of metrics is consistent, and the places that name metrics name metrics of it."""

import pytest

from orchestrator.analysis.arms.arm_summary import PHASES
from orchestrator.analysis.measures import DERIVED, PER_STEP, TIMES
from orchestrator.analysis.results import USUAL_RESULTS
from workloads.metrics import (
    ANY_WORKLOAD,
    BY_NAME,
    DERIVED_METRICS,
    METRICS,
    PRUNED_METRICS,
    TRAINING,
    Metric,
    find_metric,
    sliced_objectives,
)
from workloads.registry import BUILT_IN

UNITS = {
    "_s": "s",
    "_ms": "ms",
    "_us": "µs",
    "_mib": "MiB",
    "_j": "J",
    "_w": "W",
    "_mhz": "MHz",
    "_c": "°C",
    "_usd": "USD",
}


def test_each_metric_has_one_entry() -> None:
    assert len(BY_NAME) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_an_entry_is_complete(metric: Metric) -> None:
    workloads = {ANY_WORKLOAD, TRAINING, *(workload.name for workload in BUILT_IN)}
    assert metric.workload in workloads
    assert metric.measured_in
    assert metric.description.endswith(".")
    suffix = metric.name[metric.name.rfind("_") :]
    is_shown_as_recorded = metric.unit and metric.recorded_per_unit == 1
    if suffix in UNITS and is_shown_as_recorded and "_per_" not in metric.name:
        assert metric.unit == UNITS[suffix]


def test_the_report_computes_the_metrics_that_only_it_has() -> None:
    assert set(DERIVED) == set(DERIVED_METRICS)


def test_what_the_analysis_names_is_in_the_registry() -> None:
    assert {*PHASES, *USUAL_RESULTS, *PER_STEP, *TIMES} <= BY_NAME.keys()


def test_trials_in_slices_and_pruned_ones_have_no_result_of_a_training() -> None:
    of_trainings = {"train_s", "val_accuracy", "energy_per_sample_j", "train_cost_usd"}
    assert not of_trainings & sliced_objectives("train")
    assert not of_trainings & PRUNED_METRICS
    assert "step_ms" in sliced_objectives("train") & PRUNED_METRICS


def test_predictions_in_slices_have_no_times_of_training_steps() -> None:
    per_step = {"step_ms", "sample_us", "samples_per_s"}
    per_prediction = {"predict_ms", "predict_sample_us", "predictions_per_s"}
    assert per_step <= sliced_objectives("train") - sliced_objectives("predict")
    assert per_prediction <= sliced_objectives("predict") - sliced_objectives("train")
    assert not per_prediction & PRUNED_METRICS


@pytest.mark.parametrize(
    ("name", "better"),
    [
        pytest.param("step_ms", "less", id="built in, a time"),
        pytest.param("top5_accuracy", "more", id="a user's accuracy"),
        pytest.param("perplexity", "less", id="any other of a user"),
    ],
)
def test_the_better_direction(name: str, better: str) -> None:
    assert find_metric(name).better == better
