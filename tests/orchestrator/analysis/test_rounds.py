"""Test which rounds and blocks are complete, and of one config."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.analysis.arms.arm_summary import TrialCounts
from orchestrator.analysis.pairing.complete_rounds import BlockGap, match
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import count_spared
from tests.building.arms import GPU, PORTABLE, UNROLL, XLA
from tests.building.records import build_record
from tests.building.trials import build_timed_trials, build_trial

TIMES = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 5.0}
EVERY = tuple(TIMES)


@pytest.mark.parametrize("status", ["failed", None])
def test_only_rounds_that_are_complete_on_every_arm_count(status: str | None) -> None:
    trials = [t for t in build_timed_trials(TIMES, 5) if (t.arm, t.block) != (UNROLL, 3)]
    trials += [build_trial(3, UNROLL, status=status, step_ms=1e9)] if status else []
    trials += [
        build_trial(0, PORTABLE, 1),
        build_trial(5, PORTABLE),
        build_trial(5, XLA, 1),
        build_trial(5, UNROLL),
    ]
    matched = match(build_record(trials, EVERY))
    assert matched.rounds == {(block, 0) for block in (0, 1, 2, 4)}
    assert matched.blocks == (0, 1, 2, 4)
    assert {len(matched.all_trials(arm)) for arm in EVERY} == {4}
    assert {gap.block: gap.missing for gap in matched.gaps} == {
        3: ((UNROLL, status or "missing"),),
        5: tuple((arm, "no shared round") for arm in EVERY),
    }


def test_pruned_blocks_count_with_their_times_alone_and_their_other_trials_are_spared() -> None:
    ended = [
        build_trial(8, arm, status="pruned", metrics={"step_ms": 1.0}) for arm in (PORTABLE, XLA)
    ]
    alone = build_trial(9, PORTABLE, status="pruned", metrics={"step_ms": 1.0})
    record = build_record([*build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, 8), *ended, alone])
    record = replace(record, expected_trials=20 - count_spared(record.trials, record.arms, 1))
    summary = summarise(record)
    assert summary.sweep.trials == TrialCounts(19, 16, 0, 0, 0, pruned=3)
    assert [arm.trials.missing for arm in summary.arms] == [0, 0]
    times, results = (summary.values_of(metric) for metric in ("step_ms", "val_accuracy"))
    assert times is not None and times.blocks == (*range(9),)
    assert results is not None and results.blocks == (*range(8),)
    assert summary.front.left_out == 0
    assert [gap.missing for gap in summary.gaps] == [((PORTABLE, "pruned"), (XLA, "pruned"))] * 2


def test_rounds_and_blocks_of_several_configs_are_never_pooled() -> None:
    trials = [
        t for t in build_timed_trials({PORTABLE: 1, XLA: 1}, 7, 2) if (t.block, t.repeat) != (3, 1)
    ]
    other = [build_trial(3, arm, 1, config={"units": 1}, step_ms=1e-9) for arm in (PORTABLE, XLA)]
    of_round = match(build_record([*trials, build_trial(3, PORTABLE, 1), other[1]]))
    assert len(of_round.rounds) == 13
    assert (3, 0) in of_round.rounds
    assert of_round.gaps == ()
    (gap,) = match(build_record([*trials, *other])).gaps
    assert gap.missing == ((PORTABLE, "another config"), (XLA, "another config"))


def sweep_with_removed_arms(
    removed: Sequence[Arm] = (UNROLL,), arms: Sequence[Arm] = EVERY
) -> SweepRecord:
    """Return a sweep with six blocks of removed arms and twelve of the others."""
    staying = tuple(arm for arm in arms if arm not in removed)
    made = build_timed_trials({arm: TIMES.get(arm, 10.0) for arm in staying}, 12)
    made += build_timed_trials({arm: TIMES[arm] for arm in removed}, 6)
    return build_record(
        made, arms, current=staying, expected_trials=12 * len(staying) + 6 * len(removed)
    )


def test_current_arms_are_compared_over_every_round_and_removed_ones_keep_theirs() -> None:
    record = sweep_with_removed_arms()
    summary = summarise(record)
    assert (summary.complete_blocks, summary.gaps) == (tuple(range(12)), ())
    assert (summary.sweep.trials.missing, summary.former) == (0, (UNROLL,))
    arms = {arm.arm: (arm.planned, arm.used, arm.trials.missing) for arm in summary.arms}
    assert arms == {PORTABLE: (True, 12, 0), XLA: (True, 12, 0), UNROLL: (False, 6, 0)}
    assert match(build_record(record.trials, EVERY)).blocks == tuple(range(6))  # no arm is removed
    lacking = [t for t in record.trials if (t.arm, t.block) != (XLA, 5)]
    matched = match(build_record(lacking, EVERY, current=(PORTABLE, XLA)))
    assert [len(matched.trials[arm]) for arm in EVERY] == [11, 11, 5]
    assert matched.gaps == (BlockGap(5, ((XLA, "missing"),)),)
    later = Arm("tensorflow/portable", GPU)  # the next start's hardware, without a trial yet
    matched = match(build_record(build_timed_trials(TIMES, 7), (later, *EVERY), current=(later,)))
    assert [len(matched.trials[arm]) for arm in EVERY] == [7, 7, 7]
