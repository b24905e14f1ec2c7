"""Test that removed arms are compared over their trials, and do not affect other arms."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.comparisons.ranking import rankings
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.render import summarise
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, UNROLL, XLA, sweep, trial

EVERY = (PORTABLE, XLA, UNROLL)
TIMES = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 5.0}


def trials(arm: Arm, blocks: Sequence[int]) -> list[FinishedTrial]:
    ms = TIMES.get(arm, 10.0)
    return [trial(arm, block, step_ms=ms * (1 + 0.001 * (block % 3))) for block in blocks]


def sweep_with_removed_arms(
    removed: Sequence[Arm] = (UNROLL,), arms: Sequence[Arm] = EVERY
) -> SweepRecord:
    """Return a sweep with six blocks of removed arms and twelve of the others."""
    staying = tuple(arm for arm in arms if arm not in removed)
    made = [finished for arm in staying for finished in trials(arm, range(12))]
    made += [finished for arm in removed for finished in trials(arm, range(6))]
    return sweep(made, arms, current=staying, expected_trials=12 * len(staying) + 6 * len(removed))


def test_current_arms_are_compared_over_every_block() -> None:
    summary = summarise(sweep_with_removed_arms())
    xla, unroll = summary.comparisons
    assert (len(xla.pairs), len(unroll.pairs)) == (12, 6)
    assert (xla.verdict, unroll.verdict) == ("faster", "faster")
    assert (summary.complete_blocks, summary.gaps) == (tuple(range(12)), ())
    assert summary.sweep.trials.missing == 0
    by_arm = {arm.arm: arm for arm in summary.arms}
    assert [by_arm[arm].planned for arm in EVERY] == [True, True, False]
    assert [by_arm[arm].used for arm in EVERY] == [12, 12, 6]
    assert by_arm[UNROLL].trials.missing == 0
    assert summary.former == (UNROLL,)


def test_a_sweep_without_current_arms_has_no_removed_arms() -> None:
    record = sweep_with_removed_arms()
    whole = sweep(record.trials, EVERY)
    assert match(whole).blocks == tuple(range(6))
    assert [arm.planned for arm in summarise(whole).arms] == [True] * 3


def test_a_round_that_only_a_removed_arm_completed_is_excluded() -> None:
    """XLA did not complete round 5, the last round of the removed arm."""
    record = sweep_with_removed_arms()
    lacking = [t for t in record.trials if (t.arm, t.block) != (XLA, 5)]
    summary = summarise(sweep(lacking, EVERY, current=(PORTABLE, XLA)))
    assert [len(comparison.pairs) for comparison in summary.comparisons] == [11, 5]
    (gap,) = summary.gaps
    assert (gap.block, gap.missing) == (5, ((XLA, "missing"),))


def test_removed_arms_are_compared_with_one_another() -> None:
    """The next start has other hardware, on which no trial has ended yet."""
    later = Arm("tensorflow/portable", GPU)
    made = [finished for arm in EVERY for finished in trials(arm, range(7))]
    summary = summarise(sweep(made, (later, *EVERY), current=(later,)), f"{PORTABLE}")
    assert summary.complete_blocks == tuple(range(7))
    assert [len(c.pairs) for c in summary.comparisons if c.arm in EVERY] == [7, 7]


def test_a_ranking_of_current_arms_keeps_all_blocks() -> None:
    (ranking,) = rankings(match(sweep_with_removed_arms()), "step_ms", 0.02)
    assert (ranking.leader, ranking.blocks, len(ranking.behind)) == (XLA, 12, 1)
    assert ranking.left_out == (UNROLL,)  # the fastest, but with six of twelve blocks
    (alone,) = rankings(match(sweep_with_removed_arms(removed=(XLA, UNROLL))), "step_ms", 0.02)
    assert (alone.leader, alone.blocks, len(alone.behind)) == (UNROLL, 6, 2)


def test_a_removed_arm_with_every_round_is_ranked_with_the_others() -> None:
    """The sweep was re-run without the hardware of one arm."""
    away = Arm("tensorflow/portable", GPU)
    record = sweep_with_removed_arms(removed=(), arms=(PORTABLE, XLA, away))
    rerun = sweep(record.trials, (PORTABLE, XLA, away), current=(PORTABLE, XLA))
    groups = rankings(match(rerun), "step_ms", 0.02)
    assert {(group.among, group.within) for group in groups} == {
        ("implementations", str(CPU)),
        ("hardware", "tensorflow/portable"),
        ("arms", ""),
    }
    assert {group.blocks for group in groups} == {12}


def test_the_effect_of_a_param_is_estimated_from_arms_with_every_block() -> None:
    """UNROLL is the fastest arm and has only small sizes, which is no effect of the param."""
    times = {PORTABLE: 10.0, XLA: 10.0, UNROLL: 1.0}
    made = [
        trial(arm, block, step_ms=ms, config={"units": 16 if block < 6 else 32, "layers": block})
        for arm, ms in times.items()
        for block in range(6 if arm == UNROLL else 12)
    ]
    sizes = summarise(sweep(made, EVERY, current=(PORTABLE, XLA))).sizes
    assert {size.param: size.explains for size in sizes} == {"units": 0.0, "layers": 0.0}
