"""Test the figures of single arms, and the excluded trials."""

from __future__ import annotations

import math

import pytest

from orchestrator.analysis.arms.arm_summary import KernelCount
from orchestrator.analysis.measures import finite, scopes_of
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.trial import EpochRecord, Kernel
from orchestrator.report.render import summarise
from tests.orchestrator.sample_records import (
    PORTABLE,
    UNROLL,
    XLA,
    changed,
    paired,
    sweep,
    trial,
)


def median(summary: ReportSummary, metric: str, arm: Arm = PORTABLE) -> tuple[float, int] | None:
    (arm_summary,) = (row for row in summary.arms if row.arm == arm)
    spread = arm_summary.measures.get(metric)
    return (spread.median, spread.n) if spread else None


def test_load_and_compile_exclude_a_trainers_first_trial_and_memory_the_others() -> None:
    trials = [
        trial(PORTABLE, block, trainer_trials=block, load_s=9.0 / (block + 1), compile_s=1.0,
              peak_rss_mib=800.0 + block, peak_gpu_mib=90.0 + block)
        for block in range(3)
    ]  # fmt: skip
    summary = summarise(sweep(trials, (PORTABLE,)))
    assert median(summary, "load_s") == (3.75, 2)
    assert median(summary, "compile_s") == (1.0, 2)
    assert median(summary, "peak_rss_mib") == (800.0, 1)
    assert median(summary, "peak_gpu_mib") == (90.0, 1)
    assert median(summary, "step_ms") == (10.0, 3)
    later = summarise(sweep(trials[1:], (PORTABLE,)))
    assert median(later, "peak_rss_mib") is None
    assert "peak_rss_mib" in {measure.metric for measure in later.measures}
    fresh = [changed(t, trainer_trials=0) for t in trials]
    all_fresh = summarise(sweep(fresh, (PORTABLE,)))
    assert median(all_fresh, "load_s") == (4.5, 3)
    assert median(all_fresh, "peak_rss_mib") == (801.0, 3)


def test_medians_are_over_the_rounds_that_every_arm_completed() -> None:
    trials = [*paired(3).trials, trial(PORTABLE, 3, step_ms=1000.0)]  # too big for XLA
    trials.append(trial(XLA, 3, status="failed", failure="out_of_memory: 9 GiB"))
    summary = summarise(sweep(trials))
    assert median(summary, "step_ms") == (10.0, 3)
    assert [(arm.matched, arm.used) for arm in summary.arms] == [(True, 3), (True, 3)]
    alone = summarise(sweep([trial(PORTABLE, 0), trial(PORTABLE, 1), trial(XLA, 2)]))
    assert [(arm.matched, arm.used) for arm in alone.arms] == [(False, 2), (False, 1)]
    assert median(alone, "step_ms") == (10.0, 2)


def test_an_objective_of_a_users_workload_is_a_measure() -> None:
    trials = [trial(PORTABLE, block, step_ms=None, words_per_s=float(block)) for block in range(3)]
    summary = summarise(sweep(trials, objectives={"words_per_s": "maximize"}))
    assert median(summary, "words_per_s") == (1.0, 3)


def test_trials_are_counted_by_how_they_ended() -> None:
    statuses = ["complete", "failed", "wrong_kernel"]
    trials = [trial(PORTABLE, block, status=status) for block, status in enumerate(statuses)]
    summary = summarise(sweep([*trials, trial(UNROLL, 0)]))
    counts = summary.sweep.trials
    assert (counts.expected, counts.complete, counts.failed) == (6, 1, 1)
    assert (counts.wrong_kernel, counts.missing) == (1, 3)
    assert [arm.trials.missing for arm in summary.arms] == [0, 3, 0]


def test_failures_are_counted_by_reason_with_the_first_message_and_run() -> None:
    trials = [
        trial(PORTABLE, 0, status="failed", failure="time_limit: longer than 60 s"),
        trial(PORTABLE, 1, status="failed", failure="time_limit: longer than 61 s"),
        trial(PORTABLE, 2, status="failed", failure="crash: signal 11"),
        trial(XLA, 0, status="wrong_kernel", kernel=Kernel("cudnn", "portable", "no CudnnRNNV3")),
    ]
    rows = summarise(sweep(trials)).left_out
    assert [(row.arm, row.status, row.reason, row.trials) for row in rows] == [
        (PORTABLE, "failed", "time_limit", 2),
        (PORTABLE, "failed", "crash", 1),
        (XLA, "wrong_kernel", "wrong_kernel", 1),
    ]
    assert rows[0].message == "longer than 60 s"
    assert rows[0].run_id == "run-tensorflow/portable-0-0"
    assert rows[2].message == "asked cudnn, ran portable: no CudnnRNNV3"


def test_kernels_that_ran_and_complete_trials_without_proof_are_counted() -> None:
    trials = [trial(PORTABLE, 0), trial(PORTABLE, 1), trial(PORTABLE, 2, kernel=None)]
    (arm,) = summarise(sweep(trials, (PORTABLE,))).arms
    assert arm.kernels == (KernelCount("portable", "portable", "While in the traced graph", 2),)
    assert arm.unproven == 1


def test_param_ranges_cover_the_compared_configs() -> None:
    trials = [*paired(2).trials, trial(PORTABLE, 9, config={"units": 9999})]
    ranges = {row.name: row for row in summarise(sweep(trials)).configs}
    assert (ranges["units"].low, ranges["units"].high) == (16, 32)
    configs = [{"cell": "gru", "bias": True}, {"cell": "lstm", "depth": 2}]
    trials = [trial(PORTABLE, block, config=config) for block, config in enumerate(configs)]
    ranges = {row.name: row for row in summarise(sweep(trials, (PORTABLE,))).configs}
    assert ranges["cell"].values == ("gru", "lstm")
    assert (ranges["bias"].values, ranges["bias"].blocks) == (("True",), 1)
    assert (ranges["depth"].low, ranges["depth"].blocks) == (2, 1)


EPOCHS = (EpochRecord(0, 1.0), EpochRecord(1, 3.0))


@pytest.mark.parametrize(
    ("metric", "values"), [("step_ms", [3.0, 1.0]), ("epoch_s", [2.0]), ("fit_s", [9.0])]
)
def test_absent_and_non_finite_values_are_excluded(metric: str, values: list[float]) -> None:
    trials = [
        trial(PORTABLE, 0, step_ms=3.0, train_s=8.0, validate_s=1.0),
        trial(PORTABLE, 1, step_ms=math.nan, train_s=math.inf),
        trial(PORTABLE, 2, step_ms=None, epochs=EPOCHS),
        trial(PORTABLE, 3, step_ms=1.0),
    ]
    assert finite(trials, metric) == values


def test_scopes_are_those_of_complete_trials_with_an_energy() -> None:
    trials = [
        trial(PORTABLE, 0, energy_j=1.0, mean_power_w=2.0, energy_scope="gpu"),
        trial(PORTABLE, 1, energy_j=1.0, energy_scope="gpu+cpu_package"),
        trial(PORTABLE, 2, energy_scope="cpu_package"),
        trial(PORTABLE, 3, status="wrong_kernel", energy_j=1.0, energy_scope="another"),
    ]
    assert scopes_of(trials) == {"gpu", "gpu+cpu_package"}
    assert scopes_of(trials, ("step_ms", "mean_power_w")) == {"gpu"}
    assert scopes_of(trials, ("step_ms",)) == set()
    assert scopes_of([trial(PORTABLE, 0, energy_j=1.0)]) == {""}  # as the workload reported it
