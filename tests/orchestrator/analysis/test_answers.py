"""Test by which metrics the arms of a sweep are compared."""

from collections.abc import Mapping

import pytest

from orchestrator.analysis.contrasts.contrast import Question
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, HardwareUse, Variant
from orchestrator.core.records import Direction, SweepRecord
from tests.building.arms import CPU, GPU, PORTABLE, XLA
from tests.building.asking import only
from tests.building.records import build_record
from tests.building.trials import build_timed_trials, build_trial

TWO = {PORTABLE: 10.0, XLA: 5.0}


def metrics_of(record: SweepRecord) -> set[str]:
    contrasts = summarise(record).contrasts
    return {contrast.metric for contrast in contrasts if contrast.question == Question.BASELINE}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"step_ms": 4.0, "predict_ms": 3.0, "train_s": 2.0}, "step_ms"),
        ({"predict_ms": 3.0, "train_s": 2.0}, "predict_ms"),
        ({"train_s": 2.0}, "train_s"),
        ({"loss": 2.0}, None),
    ],
)
def test_speed_is_compared_by_the_first_time_that_two_arms_have(
    metrics: Mapping[str, float], expected: str | None
) -> None:
    trials = [
        build_trial(block, arm, metrics={**metrics, **({"step_ms": 1.0} if arm == XLA else {})})
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    summary = summarise(build_record(trials))
    assert summary.time_metric == expected
    assert metrics_of(build_record(trials)) == ({expected} if expected else {"loss"})


def test_variants_with_batch_sizes_are_compared_by_the_time_per_sample() -> None:
    one, two = (Arm("torch/fused", CPU, Variant(f"{n}", {"batch_size": n})) for n in (32, 64))
    trials = [
        *build_timed_trials({one: 2.0}, 6, sample_us=62.5),
        *build_timed_trials({two: 3.0}, 6, sample_us=46.875),
    ]
    contrast = only(build_record(trials, (one, two)), "sample_us")
    assert contrast.estimate.value == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("objectives", "results"),
    [
        pytest.param({"step_ms": "minimize"}, ("val_accuracy",), id="none is a result"),
        pytest.param(
            {"f1": "maximize", "step_ms": "minimize", "val_loss": "minimize"},
            ("f1", "val_loss"),
            id="several, in the order of the spec",
        ),
    ],
)
def test_results_are_those_that_the_objectives_name(
    objectives: Mapping[str, Direction], results: tuple[str, ...]
) -> None:
    trials = build_timed_trials(TWO, 8, f1=0.9, val_loss=0.4, train_s=1.0)
    record = build_record(trials, objectives=objectives)
    assert summarise(record).results == results
    assert metrics_of(record) == {"step_ms", *results}
    assert {front.result for front in summarise(record).fronts} == {results[0]}


@pytest.mark.parametrize(("hardware", "is_fresh"), [(CPU, True), (CPU, False), (GPU, True)])
def test_memory_is_compared_if_every_trainer_was_fresh_and_is_not_a_gpus_host(
    hardware: HardwareUse, is_fresh: bool
) -> None:
    used = {
        Arm(arm.implementation, hardware): mib for arm, mib in ((PORTABLE, 900.0), (XLA, 600.0))
    }
    trials = [
        build_trial(block, arm, peak_rss_mib=mib + block, trainer_trials=block * (not is_fresh))
        for block in range(6)
        for arm, mib in used.items()
    ]
    is_compared = "peak_rss_mib" in metrics_of(build_record(trials, (*used,)))
    assert is_compared == (is_fresh and hardware == CPU)


def test_a_whole_training_is_compared_with_its_compiling() -> None:
    """PORTABLE trains for 9 s after 1 s of compiling, XLA for 4 s after 16 s."""
    trials = build_timed_trials({PORTABLE: 10.0}, 8, train_s=9.0, compile_s=1.0)
    trials += build_timed_trials({XLA: 4.0}, 8, train_s=4.0, compile_s=16.0)
    record = build_record(trials)
    assert only(record, "whole_train_s").estimate.value == pytest.approx(0.5)
    leaders = {leader.metric: leader.arm for leader in summarise(record).leaders}
    assert leaders["step_ms"] == str(XLA) and leaders["whole_train_s"] == str(PORTABLE)
