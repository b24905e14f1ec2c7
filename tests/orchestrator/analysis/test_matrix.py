"""Test which blocks and arms the matrix of a metric has, and what its values are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from orchestrator.analysis.contrasts.contrast import Qualifier, Unit, Verdict
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.stopping import PrecisionReached
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from tests.building.arms import CPU, GPU, PORTABLE, UNROLL, XLA
from tests.building.asking import matrix_of, only
from tests.building.hardware import build_timing_use
from tests.building.records import build_paired_record, build_record, disturb_blocks
from tests.building.trials import build_timed_trials, build_trial, change_trial

TIMES = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 5.0}
EVERY = tuple(TIMES)
BASE = Arm("tensorflow/portable", build_timing_use(CPU))
SLICED = Arm("tensorflow/portable+xla", build_timing_use(CPU))
ON_GPU = Arm("tensorflow/portable", build_timing_use(GPU))


def blocks_of(record: SweepRecord, metric: str = "step_ms") -> list[int]:
    return [block for block, _ in matrix_of(record, metric).rows]


def test_values_are_means_over_rounds_and_then_over_blocks() -> None:
    """Times have geometric means, results arithmetic ones."""
    values = {PORTABLE: ((10.0, 0.8), (30.0, 0.9)), XLA: ((5.0, 0.7), (5.0, 0.7))}
    trials = [
        build_trial(block, arm, repeat, step_ms=step_ms, val_accuracy=accuracy)
        for block in range(6)
        for arm, of_arm in values.items()
        for repeat, (step_ms, accuracy) in enumerate(of_arm)
    ]
    record = build_record(trials)
    times, results = matrix_of(record), matrix_of(record, "val_accuracy")
    assert times.values.shape == results.values.shape == (6, 2)
    assert times.mean(PORTABLE) == pytest.approx(math.sqrt(10.0 * 30.0))
    assert results.mean(PORTABLE) == pytest.approx(0.85)
    assert only(record).estimate.value == pytest.approx(math.sqrt(2.0 * 6.0))
    even = only(build_paired_record(8, lambda block: 2.0 if block % 2 else 0.5))
    assert even.estimate.value == pytest.approx(1.0)
    assert (even.lowest, even.highest) == pytest.approx((0.5, 2.0))


@pytest.mark.parametrize("arms", [(PORTABLE, XLA), EVERY], ids=len)
@pytest.mark.parametrize("value", [None, math.nan, 0.0])
def test_a_missing_or_impossible_time_excludes_its_block(
    value: float | None, arms: tuple[Arm, ...]
) -> None:
    trials = build_timed_trials({arm: TIMES[arm] for arm in arms}, 7)
    trials[0] = build_trial(0, PORTABLE, step_ms=value)
    matrix = matrix_of(build_record(trials, arms))
    assert (matrix.arms, [block for block, _ in matrix.rows]) == (arms, [*range(1, 7)])


def sweep_with_former_arms(former: Sequence[Arm]) -> SweepRecord:
    """Return six blocks of the arms of an earlier start, and twelve of the others."""
    staying = tuple(arm for arm in EVERY if arm not in former)
    trials = build_timed_trials({arm: TIMES[arm] for arm in staying}, 12)
    trials += build_timed_trials({arm: TIMES[arm] for arm in former}, 6)
    return build_record(trials, EVERY, current=staying)


@pytest.mark.parametrize(
    ("former", "arms", "blocks"),
    [
        pytest.param((UNROLL,), (PORTABLE, XLA), 12, id="it would exclude six blocks"),
        pytest.param((XLA, UNROLL), EVERY, 6, id="nothing else is left to compare"),
    ],
)
def test_an_arm_of_an_earlier_start_takes_no_block_from_two_others(
    former: Sequence[Arm], arms: tuple[Arm, ...], blocks: int
) -> None:
    matrix = matrix_of(sweep_with_former_arms(former))
    assert (matrix.arms, len(matrix.rows)) == (arms, blocks)
    complete = build_record(build_timed_trials(TIMES, 12), EVERY, current=(PORTABLE, XLA))
    assert matrix_of(complete).arms == EVERY  # it lacks no block


@dataclass(frozen=True)
class Noise:
    """The blocks whose first round is disturbed on an arm, and the blocks that count."""

    name: str
    disturbed: Mapping[Arm, Sequence[int]]
    blocks: int
    counted: Sequence[int]
    busy: Sequence[Arm] = ()
    repeats: int = 1


NOISES = [
    Noise("six of eight blocks are quiet", {XLA: (1,), PORTABLE: (5,)}, 8, (0, 2, 3, 4, 6, 7)),
    Noise("a disturbed block has another quiet round", {XLA: (1,)}, 6, range(6), repeats=2),
    Noise("too few are quiet", {XLA: (1,), PORTABLE: (3,)}, 7, range(7), (PORTABLE, XLA)),
    Noise("one arm is never quiet", {UNROLL: range(5)}, 10, range(10), (UNROLL,)),
]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_times_are_over_quiet_blocks_if_there_are_six_and_results_over_all(noise: Noise) -> None:
    trials = [
        change_trial(trial, disturbance={"low_clocks": 15.0})
        if trial.repeat == 0 and trial.block in noise.disturbed.get(trial.arm, ())
        else trial
        for trial in build_timed_trials(TIMES, noise.blocks, noise.repeats)
    ]
    record = build_record(trials, EVERY)
    matrix = matrix_of(record)
    assert [block for block, _ in matrix.rows] == [*noise.counted]
    assert [arm for arm in EVERY if matrix.disturbed_rows((arm,))] == [*noise.busy]
    assert blocks_of(record, "val_accuracy") == [*range(noise.blocks)]


def test_the_disturbance_is_the_median_over_the_disturbed_cells() -> None:
    shares = (20.0, 90.0, 60.0, 70.0, 80.0, 60.0, 60.0)
    trials = [
        change_trial(trial, disturbance={"other_processes": shares[trial.block]})
        for trial in build_paired_record(7).trials
    ]
    matrix = matrix_of(build_record(trials))
    assert matrix.disturbance((PORTABLE, XLA)) == {"other_processes": 60.0}
    assert [block for block, _ in matrix.disturbed_rows((XLA,))] == [*range(7)]


def watched(trial: FinishedTrial, others_pct: float | None) -> FinishedTrial:
    """Return the trial with other processes of so much, or (None) too short to observe any."""
    seen = {} if others_pct is None else {"others_cpu_pct": others_pct}
    return change_trial(
        trial,
        metrics={**trial.metrics, **seen},
        disturbance={"other_processes": others_pct} if others_pct and others_pct > 15 else {},
        energy_absent="it was too short",
    )


def test_a_trial_too_short_to_observe_counts_as_its_round_on_its_node() -> None:
    """UNROLL alone was observed, and disturbed in five of ten blocks."""
    trials = [
        watched(trial, None if trial.arm != UNROLL else 60.0 if trial.block < 5 else 2.0)
        for trial in build_timed_trials(TIMES, 10)
    ]
    elsewhere = [t if t.arm == UNROLL else change_trial(t, node="another") for t in trials]
    for measured, disturbed in ((trials, range(5)), (elsewhere, ())):
        rows = matrix_of(build_record(measured, EVERY)).disturbed_rows((PORTABLE, XLA))
        assert [block for block, _ in rows] == [*disturbed]


@pytest.mark.parametrize(
    ("repeats", "disturbed", "rows", "verdict", "qualifier"),
    [
        pytest.param(6, (), 6, Verdict.BETTER, None, id="six repeats"),
        pytest.param(5, (), 1, Verdict.OPEN, Qualifier.FEW, id="too few"),
        pytest.param(8, (0, 5), 6, Verdict.BETTER, None, id="six of eight are quiet"),
        pytest.param(7, (0, 5), 7, Verdict.BETTER, Qualifier.BUSY, id="five of seven are quiet"),
    ],
)
def test_repeats_of_the_only_config_decide_about_it(
    repeats: int,
    disturbed: Sequence[int],
    rows: int,
    verdict: Verdict,
    qualifier: Qualifier | None,
) -> None:
    trials = [
        change_trial(t, disturbance={"other_processes": 41.0} if t.repeat in disturbed else {})
        for t in build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, 1, repeats)
    ]
    contrast = only(build_record(trials))
    unit = Unit.REPEAT if repeats >= 6 else Unit.CONFIG
    assert (contrast.unit, contrast.blocks) == (unit, rows)
    assert (contrast.verdict, contrast.qualifier) == (verdict, qualifier)
    several = matrix_of(build_record(build_timed_trials(TIMES, 2, repeats), EVERY))
    assert (several.unit, len(several.rows)) == (Unit.CONFIG, 2)


def test_energies_count_if_they_are_of_known_devices_alone() -> None:
    trials = build_timed_trials(TIMES, 8, energy_j=3.0, energy_scope="gpu")
    mixed = [
        change_trial(trial, energy_scope=None)
        if trial.arm == PORTABLE
        else change_trial(trial, energy_scope="cpu_package")
        if trial.arm == XLA and trial.block < 4
        else trial
        for trial in trials
    ]
    assert matrix_of(build_record(trials, EVERY), "energy_j").arms == EVERY
    assert matrix_of(build_record(mixed, EVERY), "energy_j").arms == (UNROLL,)


@pytest.mark.parametrize("is_fresh", [True, False])
def test_trials_count_by_their_trainer_unless_all_had_one_of_their_own(is_fresh: bool) -> None:
    """A first trial includes the start of its trainer: here in another block of each arm."""
    trials = [
        build_trial(
            block, arm, trainer_trials=int(not is_fresh and block != first), compile_s=2.0**block
        )
        for arm, first in ((PORTABLE, 0), (XLA, 1))
        for block in range(4)
    ]
    matrix = matrix_of(build_record(trials), "compile_s")
    assert [block for block, _ in matrix.rows] == ([0, 1, 2, 3] if is_fresh else [2, 3])


def interleaved_sweep(
    separate_blocks: Sequence[int] = (), arms: Sequence[Arm] = (BASE, SLICED)
) -> SweepRecord:
    """Return a sweep in which later arms are 1.25 times as fast as the first."""
    # In `separate_blocks` they run in a later round, and are 10 times as fast.

    def fields(arm: Arm, block: int) -> dict[str, Any]:
        late = block in separate_blocks and arm != arms[0]
        fast = 1 if arm == arms[0] else 10 if late else 1.25
        wobble = 1 + 0.001 * (block % 3)
        metrics = {"step_ms": 10 * wobble / fast, "compile_s": 1.0 if arm == arms[0] else 2.0}
        metrics["queue_s"] = 40.0  # waiting for the other arm is no phase
        return {"metrics": metrics, "round_id": f"{block}{late}"}

    return build_record(
        [build_trial(b, arm, **fields(arm, b)) for b in range(8) for arm in arms], arms
    )


def test_timed_arms_of_one_machine_count_where_they_took_turns() -> None:
    record = interleaved_sweep((1, 4))
    nodes = tuple(change_trial(t, node="a" if t.arm == BASE else "b") for t in record.trials)
    assert blocks_of(record) == [0, 2, 3, 5, 6, 7]
    assert blocks_of(replace(record, trials=nodes)) == [*range(8)]
    assert blocks_of(interleaved_sweep((1, 4), (ON_GPU, SLICED))) == [*range(8)]
    assert blocks_of(interleaved_sweep((1, 4), (PORTABLE, XLA))) == [*range(8)]  # whole trainings
    alone = summarise(interleaved_sweep(range(8)))
    assert (alone.contrasts, alone.leaders) == ((), ())


@pytest.mark.parametrize(
    ("noisy", "is_busy"),
    [
        pytest.param((), False, id="quiet"),
        pytest.param((2, 3, 4), True, id="three of the seven others are disturbed"),
    ],
)
def test_every_answer_is_over_the_same_blocks(noisy: Sequence[int], is_busy: bool) -> None:
    """Block 1 was not interleaved."""
    record = disturb_blocks(interleaved_sweep((1,)), {SLICED: noisy})
    summary = summarise(record)
    assert match(record).not_interleaved((BASE, SLICED)) == {(1, 0)}
    (values,) = summary.values
    assert (values.blocks, values.disturbed) == ((0, 2, 3, 4, 5, 6, 7), (*noisy,))
    assert {contrast.blocks for contrast in summary.contrasts} == {7}
    assert [pair.blocks for pair in summary.break_evens] == [7]
    speed = summary.contrast(SLICED, BASE, "step_ms")
    assert speed is not None and speed.estimate.value == pytest.approx(1.25)
    assert (speed.verdict, speed.qualifier) == (
        Verdict.BETTER, Qualifier.BUSY if is_busy else None,
    )  # fmt: skip
    assert summary.learning == ()
    assert summary.phases[0].seconds == {"compile_s": 1.0}
    rule = PrecisionReached(AutoBlocks(0.01, 6, 12), (BASE, SLICED), 1)
    assert rule.half_widths(record.trials)[SLICED, BASE] is not None
