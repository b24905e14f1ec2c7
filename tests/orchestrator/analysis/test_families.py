"""Test verdicts and qualifiers of contrasts: what decides them, and what leaves them open."""

import math
from dataclasses import replace

import pytest

from orchestrator.analysis.contrasts.contrast import Qualifier, Scale, Verdict, between
from orchestrator.analysis.statistics.estimates import LEVEL, t_interval
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, Usage
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria, ResultMargin
from tests.building.arms import CPU, PORTABLE, UNROLL, XLA
from tests.building.asking import asked, matrix_of, only
from tests.building.hardware import build_cpu_use, build_gpu_use, build_timing_use
from tests.building.known_records import NAN, RISING, Ending, build_learning_record, build_training
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_fingerprint, build_timed_trials, build_trial, change_trial

KILLED = "out_of_memory: the trainer needed more than 4 GiB"
TIMED = Arm("tensorflow/portable+xla", build_timing_use(CPU))
FAST = Arm("tensorflow/portable", build_gpu_use("NVIDIA H200", "AMD EPYC", 2))
SHORT = Arm("tensorflow/portable", build_cpu_use(usage=Usage(settings={"epochs": 1})))


@pytest.mark.parametrize(
    ("blocks", "ratio", "verdict", "qualifier"),
    [
        (8, 1.25, Verdict.BETTER, None),
        (8, 0.8, Verdict.WORSE, None),
        (8, 1.001, Verdict.SAME, None),
        (5, 1.25, Verdict.OPEN, Qualifier.FEW),
        (1, 1.25, Verdict.OPEN, Qualifier.FEW),
    ],
)
def test_a_ratio_is_the_references_time_over_the_subjects(
    blocks: int, ratio: float, verdict: Verdict, qualifier: Qualifier | None
) -> None:
    contrast = only(build_paired_record(blocks, lambda _: ratio))
    assert (contrast.subject, contrast.reference) == (str(XLA), str(PORTABLE))
    assert (contrast.scale, contrast.margin) == (Scale.RATIO, 0.02)
    assert contrast.estimate.value == pytest.approx(ratio)
    assert (contrast.verdict, contrast.qualifier) == (verdict, qualifier)
    assert (contrast.estimate.high == math.inf) == (blocks == 1)


@pytest.mark.parametrize(
    ("direction", "gain", "margin", "verdict"),
    [
        ("maximize", 0.03, ResultMargin(0.01), Verdict.BETTER),
        ("minimize", 0.03, ResultMargin(0.01), Verdict.WORSE),
        ("minimize", 0.03, ResultMargin(0.05), Verdict.SAME),
        ("maximize", 0.03, ResultMargin(0.1, is_share=True), Verdict.SAME),  # of the baseline's 0.5
    ],
)
def test_a_difference_is_the_subjects_value_minus_the_references(
    direction: str, gain: float, margin: ResultMargin, verdict: Verdict
) -> None:
    trials = [
        build_trial(block, arm, metrics={"step_ms": 10.0, "f1": value + 0.0001 * (block % 3)})
        for block in range(8)
        for arm, value in ((PORTABLE, 0.5 - 0.0001), (XLA, 0.5 + gain))
    ]
    criteria = ReportCriteria(margins=Margins(results={"f1": margin}))
    record = build_record(trials, objectives={"f1": direction}, criteria=criteria)
    contrast = only(record, "f1")
    assert contrast.estimate.value == pytest.approx(gain + 0.0001)
    assert (contrast.scale, contrast.verdict) == (Scale.DIFFERENCE, verdict)
    expected = margin.value * (0.5 if margin.is_share else 1)
    assert contrast.margin == pytest.approx(expected, rel=0.001)


def test_intervals_allow_for_the_other_arms_and_for_stopping_by_width() -> None:
    """A wider interval for each of two open contrasts; none for one without a verdict."""
    ratios = [1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 0.95, 1.15]
    pairs = build_paired_record(8, ratios.__getitem__)
    stopped = replace(pairs, criteria=ReportCriteria(auto_blocks=AutoBlocks()))
    twin = tuple(change_trial(t, arm=UNROLL) for t in pairs.trials if t.arm == XLA)
    three = replace(pairs, trials=pairs.trials + twin, arms=(*pairs.arms, UNROLL))
    other = tuple(
        change_trial(t, fingerprint=build_fingerprint(2.0 if t.arm == UNROLL else 1.0))
        for t in three.trials
    )
    logs = [math.log(ratio) for ratio in ratios]
    for record, level in (
        (pairs, 0.95), (stopped, LEVEL), (three, 0.975), (replace(three, trials=other), 0.95),
    ):  # fmt: skip
        interval = t_interval(logs, level)
        contrast = asked(record)[0]
        assert interval is not None and contrast.verdict == Verdict.OPEN
        assert math.log(contrast.estimate.low) == pytest.approx(interval.low)
        assert math.log(contrast.estimate.high) == pytest.approx(interval.high)
        assert contrast.more_blocks is not None and contrast.more_blocks > 100


@pytest.mark.parametrize("ratio", [1.25, 1.0])
def test_a_busy_machine_qualifies_a_verdict_and_changes_nothing_else(ratio: float) -> None:
    quiet = build_paired_record(8, lambda block: ratio + 0.002 * (block % 3))
    busy = tuple(change_trial(t, disturbance={"other_processes": 97.0}) for t in quiet.trials)
    usual, beside = only(quiet), only(replace(quiet, trials=busy))
    assert (usual.qualifier, beside.qualifier) == (None, Qualifier.BUSY)
    assert replace(beside, qualifier=None) == usual
    assert only(replace(quiet, trials=busy), "val_accuracy").qualifier is None


@pytest.mark.parametrize("metric", ["step_ms", "val_accuracy"])
def test_an_arm_of_other_mathematics_has_no_verdict_and_leads_nothing(metric: str) -> None:
    factors, times = {PORTABLE: 1.0, XLA: 1.5, UNROLL: 1.0}, {PORTABLE: 10.0, XLA: 5.0, UNROLL: 8.0}
    trials = [
        build_trial(
            block,
            arm,
            step_ms=times[arm],
            val_accuracy=1 - times[arm] / 100,
            fingerprint=build_fingerprint(factor),
        )
        for block in range(8)
        for arm, factor in factors.items()
    ]
    summary = summarise(build_record(trials, (*factors,)))
    different = summary.contrast(XLA, PORTABLE, metric)
    assert different is not None
    assert (different.verdict, different.qualifier) == (Verdict.OPEN, Qualifier.OTHER_MATHEMATICS)
    leader = summary.leader(metric)
    assert leader is not None and (leader.arm, leader.others) == (str(UNROLL), (str(PORTABLE),))


def test_of_unlike_work_only_the_steps_are_compared() -> None:
    """SHORT seems best because it does less; of two arms of its work both are compared."""
    xla = Arm("tensorflow/portable+xla", SHORT.hardware)
    metrics = {
        FAST: {"train_s": 60.0, "val_accuracy": 0.90, "step_ms": 1.0, "compile_s": 1.0},
        SHORT: {"train_s": 2.0, "val_accuracy": 0.95, "step_ms": 20.0, "compile_s": 1.0},
        xla: {"train_s": 1.0, "val_accuracy": 0.95, "step_ms": 10.0, "compile_s": 1.0},
    }
    trials = [
        build_trial(block, arm, metrics=metrics[arm]) for block in range(7) for arm in metrics
    ]
    summary = summarise(build_record(trials, (*metrics,)))
    by_step = summary.contrast(SHORT, FAST, "step_ms")
    assert by_step is not None and by_step.verdict == Verdict.WORSE
    for metric in ("val_accuracy", "whole_train_s"):
        unlike, alike = (summary.contrast(arm, base, metric) for arm, base in
                         ((SHORT, FAST), (xla, SHORT)))  # fmt: skip
        assert unlike is not None and alike is not None
        assert (unlike.verdict, unlike.qualifier) == (Verdict.OPEN, Qualifier.UNLIKE_WORK)
        assert alike.qualifier is None and alike.verdict in (Verdict.SAME, Verdict.BETTER)


def test_arms_that_are_only_timed_are_compared_by_the_time_per_step_alone() -> None:
    trials = build_timed_trials({PORTABLE: 10.0}, 7, train_s=100.0)
    trials += build_timed_trials({TIMED: 5.0}, 7)
    record = build_record(trials, (PORTABLE, TIMED))
    assert only(record).estimate.value == pytest.approx(2.0)
    assert asked(record, "val_accuracy") == []


BETTER, WORSE = (*RISING[:-1], 0.95), (*RISING[:-1], 0.85)


@pytest.mark.parametrize(
    ("usual", "endings", "verdict"),
    [
        (RISING, (NAN, NAN), Verdict.SAME),
        (RISING, (RISING, KILLED), Verdict.SAME),
        (BETTER, (RISING, NAN), Verdict.OPEN),
        (WORSE, (RISING, NAN), Verdict.WORSE),
        (WORSE, (NAN, WORSE), Verdict.OPEN),
    ],
)
def test_divergence_never_favours_the_arm_that_diverged(
    usual: Ending, endings: tuple[Ending, Ending], verdict: Verdict
) -> None:
    whole = build_learning_record(dict.fromkeys(range(12), (RISING, usual)), 12)
    others = [change_trial(t, repeat=1) for t in whole.trials]
    lost = build_learning_record(dict.fromkeys(range(4), endings), 4)
    record = build_record([*lost.trials, *(t for t in whole.trials if t.block >= 4)])
    for some_record, blocks in ((record, 8), (build_record([*record.trials, *others]), 12)):
        contrast = only(some_record, "val_accuracy")
        assert (contrast.verdict, contrast.blocks) == (verdict, blocks)
    retried = build_record([*whole.trials, build_training(0, XLA, NAN)])
    assert only(retried, "val_accuracy").verdict != Verdict.OPEN, "it completed in the end"


@pytest.mark.parametrize("metric", ["step_ms", "val_accuracy"])
def test_a_contrast_reads_from_both_sides(metric: str) -> None:
    trials = build_timed_trials({PORTABLE: 10.0}) + build_timed_trials({XLA: 8.0}, val_accuracy=0.7)
    record = build_record(trials)
    contrast, matrix = only(record, metric), matrix_of(record, metric)
    turned = between([contrast], str(PORTABLE), str(XLA), metric)
    assert turned == contrast.turned() and between([turned], str(XLA), str(PORTABLE), metric)
    assert {contrast.verdict, turned.verdict} == {Verdict.BETTER, Verdict.WORSE}
    ours, theirs = matrix.mean(PORTABLE), matrix.mean(XLA)
    is_ratio = contrast.scale == Scale.RATIO
    assert turned.estimate.value == pytest.approx(theirs / ours if is_ratio else ours - theirs)
    assert turned.estimate.low <= turned.lowest <= turned.highest <= turned.estimate.high
    assert between([contrast], str(PORTABLE), str(UNROLL), metric) is None
    extreme = replace(contrast, lowest=0.0, highest=math.inf)
    if is_ratio:
        assert (extreme.turned().lowest, extreme.turned().highest) == (0.0, math.inf)
