"""Test which rounds are compared (complete, of one config, quiet, interleaved), and with what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from orchestrator.analysis.arms.arm_summary import TrialCounts
from orchestrator.analysis.comparisons.ranking import rankings
from orchestrator.analysis.pairing.complete_rounds import BlockGap, match
from orchestrator.analysis.pairing.baselines import (
    BaselineError,
    pick_baseline,
    pick_runnable_baseline,
)
from orchestrator.analysis.stopping import PrecisionReached
from orchestrator.core.arms import Arm, HardwareUse, RequestedArm, Usage
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, ImpossibleArm, count_spared
from orchestrator.report.render import summarise
from tests.building.arms import ARMS_OF_CELLS, CPU, GPU, GRU, LSTM, PORTABLE, UNROLL, XLA
from tests.building.hardware import build_gpu_use, build_timing_use
from tests.building.records import build_paired_record, build_record, disturb_blocks
from tests.building.trials import build_timed_trials, build_trial, change_trial

TIMES = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 5.0}
EVERY = tuple(TIMES)
BASE = Arm("tensorflow/portable", build_timing_use(CPU))
SLICED = Arm("tensorflow/portable+xla", build_timing_use(CPU))
ON_GPU = Arm("tensorflow/portable", build_timing_use(GPU))


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
    (compared,) = summary.comparisons
    assert ([pair.block for pair in compared.pairs], compared.verdict) == ([*range(9)], "faster")
    assert compared.result is not None and compared.result.verdict == "equal"
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


def test_removed_arms_are_compared_over_their_rounds_and_current_ones_over_every_round() -> None:
    record = sweep_with_removed_arms()
    summary = summarise(record)
    assert [len(comparison.pairs) for comparison in summary.comparisons] == [12, 6]
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


def test_a_ranking_of_current_arms_keeps_all_blocks() -> None:
    (ranking,) = rankings(match(sweep_with_removed_arms()), "step_ms", 0.02)
    assert (ranking.leader, ranking.blocks, len(ranking.behind)) == (XLA, 12, 1)
    assert ranking.left_out == (UNROLL,)  # the fastest, but with six of twelve blocks
    (alone,) = rankings(match(sweep_with_removed_arms(removed=(XLA, UNROLL))), "step_ms", 0.02)
    assert (alone.leader, alone.blocks, len(alone.behind)) == (UNROLL, 6, 2)
    complete = match(build_record(build_timed_trials(TIMES, 12), EVERY, current=(PORTABLE, XLA)))
    assert rankings(complete, "step_ms", 0.02)[0].leader == UNROLL  # it lacks no block


@dataclass(frozen=True)
class Noise:
    """The blocks whose first round is disturbed on an arm, and the rounds that are compared."""

    name: str
    disturbed: Mapping[Arm, Sequence[int]]
    blocks: int
    compared: Mapping[int, int] | None
    """The number of rounds by block; None if all rounds are compared, quiet or not."""

    repeats: int = 1


NOISES = [
    Noise(
        "six of eight blocks are quiet",
        {XLA: (1,), PORTABLE: (5,)},
        blocks=8,
        compared={0: 1, 2: 1, 3: 1, 4: 1, 6: 1, 7: 1},
    ),
    Noise(
        "a disturbed block has another quiet round",
        {XLA: (1,)},
        blocks=6,
        repeats=2,
        compared={0: 2, 1: 1, 2: 2, 3: 2, 4: 2, 5: 2},
    ),
    Noise("too few blocks are quiet", {XLA: (1,), PORTABLE: (3,)}, blocks=7, compared=None),
    Noise(
        "an arm that is not compared",
        {UNROLL: range(5)},
        blocks=10,
        compared=dict.fromkeys(range(10), 1),
    ),
]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_disturbed_rounds_are_excluded_if_six_blocks_have_a_quiet_one(noise: Noise) -> None:
    trials = build_timed_trials(TIMES, noise.blocks, noise.repeats)
    first_rounds = build_record([trial for trial in trials if trial.repeat == 0], EVERY)
    noisy = disturb_blocks(first_rounds, noise.disturbed).trials
    matched = match(build_record([*noisy, *(trial for trial in trials if trial.repeat)], EVERY))
    selection = matched.select(matched.rounds, (PORTABLE, XLA))
    compared = {block: len(rounds) for block, rounds in selection.by_block.items()}
    assert compared == (noise.compared or dict.fromkeys(range(noise.blocks), noise.repeats))
    assert selection.quiet_only == (noise.compared is not None)
    assert set(selection.disturbed_numbers) == {
        *noise.disturbed.get(XLA, ()),
        *noise.disturbed.get(PORTABLE, ()),
    }
    assert selection.qualifier == ("busy" if noise.compared is None else None)


def watched(trial: FinishedTrial, others_pct: float | None) -> FinishedTrial:
    """Return the trial with other work of so much, or (None) too short to observe any."""
    seen = {} if others_pct is None else {"others_cpu_pct": others_pct}
    return change_trial(
        trial,
        metrics={**trial.metrics, **seen},
        disturbance={"other_processes": others_pct} if others_pct and others_pct > 15 else {},
        energy_absent="it was too short",
    )


def test_a_trial_too_short_to_observe_counts_as_its_round_on_its_node() -> None:
    """UNROLL alone was observed: other work disturbed it in five of ten blocks."""
    trials = [
        watched(trial, None if trial.arm != UNROLL else 60.0 if trial.block < 5 else 2.0)
        for trial in build_timed_trials(TIMES, 10)
    ]
    elsewhere = [t if t.arm == UNROLL else change_trial(t, node="another") for t in trials]
    for measured, disturbed in ((trials, range(5)), (elsewhere, ())):
        matched = match(build_record(measured, EVERY))
        selection = matched.select(matched.rounds, (PORTABLE, XLA))
        assert selection.disturbed_numbers == tuple(disturbed)
        assert selection.qualifier == ("busy" if disturbed else None)


@pytest.mark.parametrize("ratio", [1.25, 1.0])
def test_a_busy_machine_qualifies_verdicts_and_changes_none(ratio: float) -> None:
    """What others took of the CPUs is no part of the judgement."""
    quiet = build_paired_record(8, lambda block: ratio + 0.002 * (block % 3))
    busy = tuple(change_trial(t, disturbance={"other_processes": 97.0}) for t in quiet.trials)
    (usual,), (beside,) = (
        summarise(record).comparisons for record in (quiet, replace(quiet, trials=busy))
    )
    assert (usual.verdict, usual.qualifier) == ("faster" if ratio > 1 else "same", None)
    assert beside.label == f"{usual.verdict} (busy)"
    assert beside.corrected == usual.corrected


REPEATS = [
    pytest.param(6, (), 6, "faster", None, id="six repeats"),
    pytest.param(5, (), 1, "inconclusive", "few configs", id="too few"),
    pytest.param(8, (0, 5), 6, "faster", None, id="six of eight are quiet"),
    pytest.param(7, (0, 5), 7, "faster", "busy", id="five of seven are quiet"),
]


@pytest.mark.parametrize(("repeats", "disturbed", "units", "verdict", "qualifier"), REPEATS)
def test_repeats_of_the_only_config_decide_about_it(
    repeats: int, disturbed: Sequence[int], units: int, verdict: str, qualifier: str | None
) -> None:
    trials = [
        change_trial(t, disturbance={"other_processes": 41.0} if t.repeat in disturbed else {})
        for t in build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, 1, repeats)
    ]
    summary = summarise(build_record(trials))
    (comparison,), (ranking,) = summary.comparisons, summary.rankings
    unit = "repeat" if repeats >= 6 else "config"
    for compared, count in ((comparison, len(comparison.pairs)), (ranking, ranking.blocks)):
        assert (compared.unit, count, compared.qualifier) == (unit, units, qualifier)
    assert (comparison.verdict, ranking.sole) == (verdict, verdict == "faster")
    assert comparison.disturbed == tuple(disturbed)
    (result,) = comparison.results if unit == "repeat" else (None,)
    assert result is None or (result.difference.n, result.verdict) == (repeats, "equal")


def test_repeats_are_averaged_where_there_are_several_configs() -> None:
    record = build_record(build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, 2, 6))
    (comparison,) = summarise(record).comparisons
    assert (comparison.unit, len(comparison.pairs)) == ("config", 2)


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


def test_other_hardware_and_other_nodes_have_interleaved_rounds_of_their_own() -> None:
    record = interleaved_sweep((1, 4))
    assert match(record).not_interleaved((BASE, SLICED)) == {(1, 0), (4, 0)}
    assert match(interleaved_sweep()).not_interleaved((BASE, SLICED)) == set()
    away = match(interleaved_sweep((1, 4), (ON_GPU, SLICED)))
    assert away.not_interleaved((ON_GPU, SLICED)) == set()
    alone = summarise(interleaved_sweep(range(8)))
    assert (alone.comparisons[0].pairs, alone.rankings) == ((), ())
    whole = interleaved_sweep((1, 4), (PORTABLE, XLA))
    assert match(whole).not_interleaved((PORTABLE, XLA)) == set(), "an arm was added later"
    nodes = tuple(change_trial(t, node="a" if t.arm == BASE else "b") for t in record.trials)
    assert match(replace(record, trials=nodes)).not_interleaved((BASE, SLICED)) == set()


@dataclass(frozen=True)
class DisturbedSweep:
    """A sweep with arms in slices whose block 1 was not interleaved, with other work in `noisy`.

    Three of the other seven blocks are too many to leave out: verdicts are busy.
    """

    noisy: Sequence[int]
    is_busy: bool

    @property
    def record(self) -> SweepRecord:
        return disturb_blocks(interleaved_sweep((1,)), {SLICED: self.noisy})

    @property
    def blocks(self) -> list[int]:
        """The blocks that comparisons are over."""
        left_out = {1} if self.is_busy else {1, *self.noisy}
        return [block for block in range(8) if block not in left_out]


@pytest.fixture(
    params=[
        pytest.param(DisturbedSweep((), is_busy=False), id="quiet"),
        pytest.param(DisturbedSweep((2, 3, 4), is_busy=True), id="three blocks disturbed"),
    ]
)
def disturbed(request: pytest.FixtureRequest) -> DisturbedSweep:
    case: DisturbedSweep = request.param
    return case


def test_a_comparison_is_over_quiet_interleaved_rounds_and_busy_with_few_of_them(
    disturbed: DisturbedSweep,
) -> None:
    (comparison,) = summarise(disturbed.record).comparisons
    assert [pair.block for pair in comparison.pairs] == disturbed.blocks
    assert comparison.speedup is not None and comparison.speedup.value == pytest.approx(1.25)
    assert comparison.label == ("faster (busy)" if disturbed.is_busy else "faster")
    assert comparison.not_interleaved_rounds == 1
    assert comparison.quiet_only == (not disturbed.is_busy)
    assert comparison.disturbed == tuple(disturbed.noisy)


def test_break_evens_and_crossovers_are_over_the_rounds_of_the_comparison(
    disturbed: DisturbedSweep,
) -> None:
    summary = summarise(disturbed.record)
    (pair,) = summary.break_evens
    assert [costs.block for costs in pair.blocks] == disturbed.blocks
    assert (pair.verdict, pair.qualifier) == ("pays", "busy" if disturbed.is_busy else None)
    for crossover in summary.crossovers:
        assert (crossover.verdict, crossover.effect.qualifier) == ("faster", pair.qualifier)


def test_arms_in_slices_have_no_curves_and_no_phase_for_the_wait_between_slices(
    disturbed: DisturbedSweep,
) -> None:
    summary = summarise(disturbed.record)
    assert summary.learning == ()
    assert summary.phases[0].seconds == {"compile_s": 1.0}


def test_intervals_on_a_busy_machine_end_a_sweep_as_others_do(disturbed: DisturbedSweep) -> None:
    rule = PrecisionReached(AutoBlocks(0.01, 6, 12), (BASE, SLICED), 1)
    assert rule.half_widths(disturbed.record.trials)[SLICED, BASE] is not None


def test_the_disturbance_of_a_comparison_is_the_median_over_its_blocks() -> None:
    """The first block is the least disturbed one."""
    record = build_paired_record(7)
    shares = (20.0, 90.0, 60.0, 70.0, 80.0, 60.0, 60.0)
    trials = [
        change_trial(trial, disturbance={"other_processes": shares[trial.block]})
        for trial in record.trials
    ]
    summary = summarise(replace(record, trials=tuple(trials)))
    assert summary.comparisons[0].disturbance == {"other_processes": 60.0}
    assert summary.rankings[0].disturbance == {"other_processes": 60.0}


H200, SMALL = build_gpu_use("NVIDIA H200"), Arm("tensorflow/portable", build_gpu_use("NVIDIA T4"))
CUDNN = Arm("tensorflow/cudnn", SMALL.hardware)
ON_CLASSES = (PORTABLE, Arm("tensorflow/portable", H200), SMALL, CUDNN)
THREADS = tuple(
    Arm("torch/fused", HardwareUse(CPU.hardware_class, Usage(threads=count)), cell)
    for count in (1, 2)
    for cell in (LSTM, GRU)
)


@pytest.mark.parametrize(
    ("arms", "asked", "scope", "baselines"),
    [
        (ON_CLASSES, None, "arm", [0, 0, 0, 0]),  # the first arm
        (ON_CLASSES, f"tensorflow/portable on {H200}", "arm", [1, 1, 1, 1]),
        (ON_CLASSES, "tensorflow/cudnn", "arm", [3, 3, 3, 3]),
        (ON_CLASSES, "tensorflow/portable", "same hardware", [0, 1, 2, 2]),
        (ON_CLASSES, "tensorflow/portable on gpu", "same hardware", [None, 1, 2, 2]),
        # Another variant is compared on its own implementation, if it is there.
        *((ARMS_OF_CELLS, asked, None, [0, 0, 0, 2]) for asked in (None, "lstm")),
        (ARMS_OF_CELLS, "torch/fused", None, [2, 0, 2, 2]),
        (ARMS_OF_CELLS, "gru: torch/fused", None, [1, 3, 3, 3]),
        # A value of another factor: each arm is compared with the one that is otherwise the same.
        (THREADS, "1 thread", "arm", [0, 1, 0, 1]),
        # An arm with its hardware is the baseline of all, whatever they differ in.
        (THREADS, "lstm: torch/fused on 2 threads", "arm", [2, 2, 2, 2]),
    ],
)
def test_a_baseline_is_an_arm_or_an_implementation_in_each_class_and_variant(
    arms: Sequence[Arm], asked: str | None, scope: str | None, baselines: list[int | None]
) -> None:
    baseline = pick_baseline(build_record([], arms=arms), asked)
    assert baseline is not None and scope in (None, baseline.scope)
    expected = [None if place is None else arms[place] for place in baselines]
    assert [baseline.of.get(arm) for arm in arms] == expected


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (f"tensorflow/cudnn on {H200}", "is not an arm of sweep 'quickstart'"),
        ("torch/fused", "cannot run: on cpu, not installed; on gpu, no GPU found"),
    ],
)
def test_an_unknown_baseline_is_refused_with_the_choices(asked: str, problem: str) -> None:
    impossible = (
        ImpossibleArm(RequestedArm("tensorflow/cudnn", "cpu"), "needs a GPU"),
        ImpossibleArm(RequestedArm("torch/fused", "cpu"), "not installed"),
        ImpossibleArm(RequestedArm("torch/fused", "gpu"), "no GPU found"),
    )
    with pytest.raises(BaselineError) as refused:
        pick_baseline(build_record([], impossible=impossible), asked)
    replaced = pick_runnable_baseline(build_record([], impossible=impossible), "torch/fused")
    assert replaced is not None
    assert replaced.name == f"tensorflow/portable on {CPU}"
    assert "torch/fused cannot run: not installed; no GPU found" in replaced.instead_of
    with pytest.raises(BaselineError, match="is not an arm"):
        pick_runnable_baseline(build_record([], impossible=impossible), "torch/unknown")
    assert str(refused.value) == (
        f"baseline {asked!r} {problem}; choose one of: "
        "tensorflow/portable; tensorflow/portable+xla; "
        f"tensorflow/portable on {CPU}; tensorflow/portable+xla on {CPU}"
    )
    with pytest.raises(BaselineError, match="nothing to choose from"):
        pick_baseline(build_record([], arms=(), impossible=impossible), asked)
    assert pick_baseline(build_record([], arms=()), None) is None
