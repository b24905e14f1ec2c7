"""Test the figures of single arms, the excluded trials, and the Pareto front."""

import math
import operator
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.arms.arm_summary import KernelCount, TrialCounts
from orchestrator.analysis.arms.best_configs import non_dominated, pareto_front, trade_offs
from orchestrator.analysis.contrasts.contrast import Question, Scale
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Kernel
from tests.building.arms import PORTABLE, UNROLL, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial, change_trial


def median(summary: ReportSummary, metric: str) -> tuple[float, int] | None:
    spread = summary.arms[0].measures.get(metric)
    return (spread.median, spread.n) if spread else None


def test_load_and_compile_exclude_a_trainers_first_trial_and_memory_the_others() -> None:
    first = build_trial(0, PORTABLE, trainer_trials=0, load_s=9.0, peak_rss_mib=800.0)
    later = [
        build_trial(
            block, PORTABLE, trainer_trials=block, load_s=6.0 / block, peak_rss_mib=810.0 + block
        )
        for block in (1, 2)
    ]
    fresh = [change_trial(t, trainer_trials=0) for t in (first, *later)]
    every, warm, all_fresh = (
        summarise(build_record(trials, (PORTABLE,))) for trials in ([first, *later], later, fresh)
    )
    metrics = "load_s", "peak_rss_mib", "step_ms"
    assert [median(every, metric) for metric in metrics] == [(4.5, 2), (800.0, 1), (10.0, 3)]
    assert [median(warm, metric) for metric in metrics] == [(4.5, 2), None, (10.0, 2)]
    assert [median(all_fresh, metric) for metric in metrics] == [(6.0, 3), (811.0, 3), (10.0, 3)]
    assert "peak_rss_mib" in {measure.metric for measure in warm.measures}


def test_medians_are_over_the_rounds_that_every_arm_completed() -> None:
    too_big_for_xla = build_trial(3, PORTABLE, step_ms=1000.0)
    trials = [*build_paired_record(3).trials, too_big_for_xla]
    trials.append(build_trial(3, XLA, status="failed", failure="out_of_memory: 9 GiB"))
    summary = summarise(build_record(trials))
    assert median(summary, "step_ms") == (10.0, 3)
    assert [(arm.matched, arm.used) for arm in summary.arms] == [(True, 3), (True, 3)]


def build_uneven_record() -> SweepRecord:
    """Return three arms of ten blocks with two repeats, whose medians have another order.

    One block is pruned, the trials of two others are disturbed, and each arm has its own noise.
    """
    draw, trials = random.Random(7), []
    for block, repeat, arm in product(range(10), range(2), (PORTABLE, XLA, UNROLL)):
        is_pruned = block == 9
        step_ms = 10.0 * draw.lognormvariate(0, 0.6) * (1 + block)
        metrics = {"step_ms": step_ms}
        if not is_pruned:
            metrics |= {"train_s": step_ms / 5, "val_accuracy": draw.uniform(0.8, 0.9)}
        trials.append(
            build_trial(
                block,
                arm,
                repeat,
                metrics=metrics,
                status="pruned" if is_pruned else "complete",
                disturbance={"other_processes": 60.0} if arm == UNROLL and block in (2, 3) else {},
            )
        )
    return build_record(trials, (PORTABLE, XLA, UNROLL))


def test_the_means_of_two_arms_have_the_ratio_that_is_compared() -> None:
    summary = summarise(build_uneven_record())
    means = {str(row.arm): row.means for row in summary.arms}
    blocks = {values.metric: values.blocks for values in summary.values}
    assert blocks == {
        "step_ms": (0, 1, 4, 5, 6, 7, 8, 9), "val_accuracy": (*range(9),),
    }  # fmt: skip
    compared = [c for c in summary.contrasts if c.question in (Question.BASELINE, Question.BEST)]
    assert len(compared) >= 4
    for contrast in compared:
        ours, theirs = (
            means[side][contrast.metric] for side in (contrast.subject, contrast.reference)
        )
        is_ratio = contrast.scale == Scale.RATIO
        expected = theirs / ours if is_ratio else ours - theirs
        assert contrast.estimate.value == pytest.approx(expected)


def test_trials_are_counted_by_how_they_ended_with_the_first_message_and_run() -> None:
    trials = [
        build_trial(0, PORTABLE, words_per_s=3.0),
        build_trial(1, PORTABLE, status="failed", failure="time_limit: longer than 60 s"),
        build_trial(2, PORTABLE, status="failed", failure="time_limit: longer than 61 s"),
        build_trial(3, PORTABLE, status="failed", failure="crash: signal 11"),
        build_trial(4, PORTABLE, kernel=None),
        build_trial(
            0, XLA, status="wrong_kernel", kernel=Kernel("cudnn", "portable", "no CudnnRNNV3")
        ),
    ]
    record = build_record([*trials, build_trial(0, UNROLL)], objectives={"words_per_s": "maximize"})
    summary = summarise(record)
    assert summary.sweep.trials == TrialCounts(10, 2, 3, 1, 4)
    assert [arm.trials.missing for arm in summary.arms] == [0, 4, 0]
    assert median(summary, "words_per_s") == (3.0, 1)  # an objective of a user's workload
    portable = summary.arms[0]
    (kernel,) = portable.kernels
    assert kernel == KernelCount("portable", "portable", "While in the traced graph", 4)
    assert portable.unproven == 1
    rows = summary.excluded
    assert [(row.arm, row.status, row.reason, row.trials, row.message) for row in rows] == [
        (PORTABLE, "failed", "time_limit", 2, "longer than 60 s"),
        (PORTABLE, "failed", "crash", 1, "signal 11"),
        (XLA, "wrong_kernel", "wrong_kernel", 1, "asked cudnn, ran portable: no CudnnRNNV3"),
    ]
    assert rows[0].run_id == "run-tensorflow/portable-1-0"


def test_failures_with_unlike_messages_are_told_apart() -> None:
    messages = ["KeyError: 'unit'"] * 3 + ["loss is nan at step 7", "loss is nan at step 12"]
    trials = [
        build_trial(block, PORTABLE, status="failed", failure=f"error: {message}")
        for block, message in enumerate((*messages, "IndexError: 4"))
    ]
    rows = summarise(build_record(trials, (PORTABLE,))).excluded
    assert [(row.trials, row.message) for row in rows] == [
        (3, "KeyError: 'unit'"),
        (2, "loss is nan at step 7"),
        (1, "IndexError: 4"),
    ]
    more = build_trial(9, PORTABLE, status="failed", failure="error: no file a.txt")
    rows = summarise(build_record([*trials, more], (PORTABLE,))).excluded
    assert [row.trials for row in rows] == [3, 2, 2]
    assert rows[2].message == "IndexError: 4 (and 1 other message)"


def test_param_ranges_cover_the_compared_configs() -> None:
    trials = [*build_paired_record(2).trials, build_trial(9, PORTABLE, config={"units": 9999})]
    ranges = {row.name: row for row in summarise(build_record(trials)).configs}
    assert (ranges["units"].low, ranges["units"].high) == (16, 32)
    configs = [{"cell": "gru", "bias": True}, {"cell": "lstm", "depth": 2}]
    trials = [build_trial(block, PORTABLE, config=config) for block, config in enumerate(configs)]
    ranges = {row.name: row for row in summarise(build_record(trials, (PORTABLE,))).configs}
    assert ranges["cell"].values == ("gru", "lstm")
    assert (ranges["bias"].values, ranges["bias"].blocks) == (("true",), 1)
    assert (ranges["depth"].low, ranges["depth"].blocks) == (2, 1)


# Few values, so that ties and equal points come up
COSTS = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0])] * n), max_size=30)
)


@given(COSTS)
def test_the_front_is_exactly_what_nothing_dominates(costs: list[tuple[float, ...]]) -> None:
    expected = [
        i
        for i, cost in enumerate(costs)
        if not any(o != cost and all(map(operator.le, o, cost)) for o in costs)
    ]
    assert non_dominated(costs) == expected


def test_a_point_is_the_mean_over_its_repeats_and_names_its_runs() -> None:
    """The most accurate config, and the fastest arm of the other one, are Pareto-best."""
    values = {(PORTABLE, 0): (0.9, 20), (XLA, 0): (0.9, 15), (PORTABLE, 1): (0.95, 30)}
    trials = [
        build_trial(block, arm, repeat, val_accuracy=accuracy, step_ms=step_ms + repeat)
        for (arm, block), (accuracy, step_ms) in {**values, (XLA, 1): (0.94, 31)}.items()
        for repeat in (0, 1)
    ]
    front = pareto_front(build_record(trials))
    assert [(p.arm, p.block) for p in front.points] == [(PORTABLE, 1), (XLA, 0)]
    assert (front.tried, front.left_out) == (4, 0)
    point = front.points[1]
    assert (point.values, point.repeats) == ({"val_accuracy": 0.9, "step_ms": 15.5}, 2)
    assert point.run_ids == ("run-tensorflow/portable+xla-0-0", "run-tensorflow/portable+xla-0-1")


def test_survivors_and_incomplete_values_are_no_points() -> None:
    trials = [
        build_trial(0, XLA, 0),
        build_trial(0, XLA, 1, status="failed"),
        build_trial(1, XLA, 0, status="wrong_kernel"),
        *(
            build_trial(2 + i, XLA, 0, step_ms=ms)
            for i, ms in enumerate((math.nan, None, math.inf))
        ),
        build_trial(5, XLA, 0),
    ]
    front = pareto_front(build_record(trials))
    assert [(p.block, p.values["step_ms"]) for p in front.points] == [(5, 10.0)]
    assert (front.tried, front.left_out) == (1, 5)


def test_energies_of_different_scopes_do_not_dominate_one_another() -> None:
    values = [
        (PORTABLE, 0, "cpu_package", 500.0),
        (PORTABLE, 1, "cpu_package", 450.0),
        (XLA, 0, "gpu", 400.0),
        (XLA, 1, "gpu", 420.0),
        (XLA, 2, None, 1.0),  # the workload's own figure, of unknown scope
        (XLA, 3, "gpu", 10.0),
        (XLA, 3, "cpu_package", 10.0),  # another repeat: a config of two scopes is no point
    ]
    trials = [
        build_trial(block, arm, place // 6, energy_j=energy_j, train_s=1.0, energy_scope=scope)
        for place, (arm, block, scope, energy_j) in enumerate(values)
    ]
    front = pareto_front(build_record(trials, objectives={"energy_j": "minimize"}))
    assert [(p.scope, p.block, p.values["energy_j"]) for p in front.points] == [
        ("", 2, 1.0), ("cpu_package", 1, 450.0), ("gpu", 0, 400.0),
    ]  # fmt: skip
    assert (front.tried, front.left_out) == (5, 1)
    by_energy = [
        row for row in trade_offs(build_record(trials), trials) if row.expense == "energy_j"
    ]
    blocks = {row.scope: [point.block for point in row.front.points] for row in by_energy}
    assert blocks == {"cpu_package": [1], "gpu": [0], "": [2]}
    by_time = pareto_front(build_record(trials, objectives={"train_s": "minimize"}))
    assert {point.scope for point in by_time.points} == {""}
