"""What a summary has of a sweep, on figures computed by hand."""

from dataclasses import replace

import pytest

from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, Variant
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.trial import EpochRecord, FinishedTrial
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial, change_trial


@pytest.mark.parametrize("objectives", [None, {"energy_j": "minimize"}])
def test_energies_of_different_scopes_are_not_summarised(objectives: dict[str, str] | None) -> None:
    trials = [
        build_trial(block, PORTABLE, energy_j=5.0, energy_scope=scope)
        for block, scope in enumerate(("gpu", "cpu_package"))
    ]
    (arm,) = summarise(build_record(trials, (PORTABLE,), objectives=objectives)).arms
    assert ("energy_j" in arm.measures, arm.energy_scope) == (False, "")


def test_learning_is_by_epoch_and_by_seconds_with_repeats_averaged() -> None:
    def learned(block: int, *accuracies: float, repeat: int = 0) -> FinishedTrial:
        epochs = (EpochRecord(i, 2.0, 0.5, {"val_accuracy": v}) for i, v in enumerate(accuracies))
        return build_trial(block, PORTABLE, repeat, epochs=tuple(epochs))

    trials = [learned(block, 0.5 + block / 10, 0.8) for block in range(3)]
    (curve,) = summarise(build_record(trials, (PORTABLE,))).learning
    assert [(p.epoch, p.seconds, p.value.median) for p in curve.points] == [
        (1, 2.0, 0.6), (2, 4.0, 0.8),
    ]  # fmt: skip
    trials = [
        learned(b, (0.9, 0.1)[b] + (r - 1) / 20, repeat=r) for b in range(2) for r in range(3)
    ]
    (curve,) = summarise(build_record(trials, (PORTABLE,))).learning
    assert curve.points[0].value.n == 2
    assert curve.points[0].value.median == pytest.approx(0.5)


def test_phases_and_noise_count_all_complete_trials_and_missing_phases_as_zero() -> None:
    alone = build_trial(7, PORTABLE, train_s=90.0, others_cpu_pct=50.0)  # XLA has no block 7
    made = [
        change_trial(t, metrics={"train_s": 10.0, "import_s": 6.0, "others_cpu_pct": 1.0})
        for t in build_paired_record(7).trials
    ]
    summary = summarise(build_record([*made, alone]))
    assert (summary.phases[0].trials, summary.phases[0].seconds) == (
        8, {"import_s": 5.25, "train_s": 20.0},
    )  # fmt: skip
    assert summary.arms[0].noise["others_cpu_pct"].n == 8
    assert (summary.arms[0].used, len(summary.arms[0].run_ids["any"])) == (7, 7)


@pytest.mark.parametrize(
    ("criterion", "requested", "baseline"),
    [
        ("tensorflow/portable+xla", None, XLA),
        ("tensorflow/portable+xla", "tensorflow/portable", PORTABLE),
        ("tensorflow/cudnn", None, PORTABLE),  # cannot run
    ],
)
def test_a_requested_baseline_replaces_the_baseline_of_the_spec(
    criterion: str, requested: str | None, baseline: Arm
) -> None:
    record = replace(build_paired_record(7), criteria=ReportCriteria(baseline=criterion))
    picked = summarise(record, requested).baseline
    assert picked is not None
    assert picked.name == str(baseline)


def test_variants_that_set_the_batch_size_are_compared_by_the_time_per_sample() -> None:
    arms = [
        Arm("tensorflow/portable", CPU, Variant(f"batch {size}", {"batch_size": size}))
        for size in (32, 64)
    ]
    trials = [
        build_trial(block, arm, step_ms=10.0, sample_us=us)
        for block in range(6)
        for arm, us in zip(arms, (300.0, 150.0), strict=True)
    ]
    summary = summarise(build_record(trials, arms))
    contrast = summary.contrast(arms[1], arms[0], "sample_us")
    assert summary.time_metric == "sample_us" and contrast is not None
    assert contrast.estimate.value == pytest.approx(2)
