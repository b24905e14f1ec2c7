"""What MLflow has of the answer of a sweep."""

import pytest

from orchestrator.analysis.summary import summarise
from orchestrator.report.formats.tracker_values import to_metrics
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.trials import build_trial

ARM = "tensorflow portable xla"


@pytest.mark.parametrize("blocks", [2, 8])
def test_the_comparisons_with_the_baseline_have_the_intervals_that_decide(blocks: int) -> None:
    trials = [
        build_trial(block, arm, step_ms=step_ms + block % 2, f1=f1 + 0.001 * (block % 3))
        for block in range(blocks)
        for arm, step_ms, f1 in ((PORTABLE, 20.0, 0.5), (XLA, 10.0, 0.9))
    ]
    summary = summarise(build_record(trials, objectives={"f1": "maximize"}))
    metrics = to_metrics(summary)
    for kind, metric in (("speedup", "step_ms"), ("difference_f1", "f1")):
        contrast = summary.contrast(XLA, PORTABLE, metric)
        assert contrast is not None
        estimate, has_interval = contrast.estimate, blocks == 8
        assert metrics[f"{kind}/{ARM}"] == estimate.value
        assert (f"{kind}_low/{ARM}" in metrics) == has_interval
        if has_interval:
            interval = (metrics[f"{kind}_low/{ARM}"], metrics[f"{kind}_high/{ARM}"])
            assert interval == (estimate.low, estimate.high)


def test_trials_are_counted_and_the_best_values_are_those_of_the_report() -> None:
    trials = [
        build_trial(0, PORTABLE, f1=0.5, disturbance={"other_processes": 60.0}),
        build_trial(0, XLA, f1=0.9),
        build_trial(1, PORTABLE, status="failed"),
    ]
    record = build_record(trials, objectives={"f1": "maximize"})
    metrics = to_metrics(summarise(record))
    assert (
        metrics.items()
        >= {
            "trials": 3,
            "trials_expected": 4,
            "trials_failed": 1,
            "trials_disturbed": 1,
            "best/f1": 0.9,
        }.items()
    )
