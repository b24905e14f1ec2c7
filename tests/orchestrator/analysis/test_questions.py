"""Test what is asked about arms: each with its baseline, the leader, and each pair once."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from orchestrator.analysis.contrasts.contrast import Contrast, Question, Verdict
from orchestrator.analysis.contrasts.questions import Leader
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from tests.building.arms import CPU, GPU, PORTABLE, UNROLL, XLA
from tests.building.asking import asked
from tests.building.chance import most_by_chance
from tests.building.hardware import build_timing_use
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.large_records import build_large_record
from tests.building.noisy_sweeps import build_noisy_record, recorded_noise
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial
from tests.profiles import draws

SWEEPS = draws(100, 200)
THREE = {PORTABLE: 12.0, XLA: 10.0, UNROLL: 15.0}


def timed_sweep(times: Mapping[Arm, float], noise: float = 0.01, seed: int = 0) -> SweepRecord:
    laws = {arm: lambda _, ms=ms: ms for arm, ms in times.items()}
    configs = [{"units": size} for size in UNITS]
    return build_record_by_laws(laws, configs, noise=noise, seed=seed)


def test_no_pair_has_two_intervals_in_150_undisturbed_sweeps() -> None:
    """The leader and its baseline are the contrast of the baseline's family."""
    logs, random = recorded_noise(), np.random.default_rng(42)
    compared_leaders = 0
    for _ in range(150):
        record = build_noisy_record(8, 4, random, logs)
        summary = summarise(record)
        pairs = Counter(
            (frozenset((contrast.subject, contrast.reference)), contrast.metric)
            for contrast in summary.contrasts
        )
        assert set(pairs.values()) == {1}
        leader = summary.leader("step_ms")
        assert leader is not None
        base = str(record.arms[0])
        by_arm = {str(arm): arm for arm in record.arms}
        for other in leader.others:
            contrast = summary.contrast(by_arm[leader.arm], by_arm[other], "step_ms")
            assert contrast is not None
            is_of_baseline = base in (leader.arm, other)
            question = Question.BASELINE if is_of_baseline else Question.BEST
            assert contrast.question == question
            compared_leaders += is_of_baseline and contrast in summary.contrasts
    assert compared_leaders > 50  # from the leader's side, too


def test_the_leader_is_compared_with_each_other_arm() -> None:
    """The pair with the baseline is known already."""
    summary = summarise(timed_sweep(THREE))
    assert summary.leaders[0] == Leader("step_ms", str(CPU), str(XLA), (str(PORTABLE), str(UNROLL)))
    own = {
        (contrast.subject, contrast.reference): contrast.question
        for contrast in summary.contrasts
        if contrast.question in (Question.BASELINE, Question.BEST)
    }
    assert own == {
        (str(XLA), str(PORTABLE)): Question.BASELINE,
        (str(UNROLL), str(PORTABLE)): Question.BASELINE,
        (str(XLA), str(UNROLL)): Question.BEST,
    }
    (best,) = asked(timed_sweep(THREE), question=Question.BEST)
    assert best.verdict == Verdict.BETTER
    assert best.estimate.low < 1.5 < best.estimate.high
    equal = summarise(timed_sweep({PORTABLE: 10, XLA: 10.02, UNROLL: 15}, 0.001))
    assert equal.leaders[0].arm == str(PORTABLE)
    same = equal.contrast(PORTABLE, XLA, "step_ms")
    assert same is not None and same.verdict == Verdict.SAME


def test_the_arm_with_the_best_result_leads_whatever_its_direction() -> None:
    trials = [
        build_trial(block, arm, metrics={"f1": f1 + 0.001 * (block % 3), "val_mae": mae})
        for block in range(8)
        for arm, f1, mae in ((PORTABLE, 0.5, 0.2), (XLA, 0.9, 0.3))
    ]
    summary = summarise(build_record(trials, objectives={"f1": "maximize", "val_mae": "minimize"}))
    assert [(leader.metric, leader.arm) for leader in summary.leaders] == [
        ("f1", str(XLA)), ("val_mae", str(PORTABLE)),
    ]  # fmt: skip
    assert {c.question for c in summary.contrasts} <= {Question.BASELINE, Question.SIZE}


def test_equal_arms_seldom_have_a_leader_that_is_better_than_all_others() -> None:
    """With no margin, and no arm as the baseline of all: all pairs of arms are one family."""

    def is_sole(record: SweepRecord) -> bool:
        best: list[Contrast] = asked(record, question=Question.BEST)
        return len(best) == 2 and all(contrast.verdict == Verdict.BETTER for contrast in best)

    away = replace(PORTABLE, hardware=GPU)
    arms = dict.fromkeys((away, *THREE), 10.0)
    records = [timed_sweep(arms, 0.1, seed) for seed in range(SWEEPS)]
    criteria = replace(records[0].criteria, baseline=str(away))
    assert sum(is_sole(replace(r, criteria=criteria)) for r in records) <= most_by_chance(
        SWEEPS, 0.05
    )


def groups_of(record: SweepRecord, metric: str) -> list[str]:
    return [leader.hardware for leader in summarise(record).leaders if leader.metric == metric]


def test_each_hardware_class_has_a_leader_and_all_classes_together() -> None:
    """Energies of unlike devices and timed arms beside trained ones are compared on each alone."""
    record = build_large_record(blocks=8, kernels=2)
    assert groups_of(record, "step_ms") == [str(CPU), str(GPU), ""]
    assert groups_of(record, "energy_per_sample_j") == [str(CPU), str(GPU)]
    sliced = Arm(XLA.implementation, build_timing_use(CPU))
    beside = timed_sweep({PORTABLE: 12.0, sliced: 10.0})
    assert groups_of(beside, "step_ms") == [""]
    unknown = tuple(change_trial(t, energy_scope=None) for t in record.trials)
    assert groups_of(replace(record, trials=unknown), "energy_per_sample_j") == []
