"""Test rankings and break-evens of compiling, on sweeps whose truth is known."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from orchestrator.analysis.comparisons.ranking import BreakEven, Ranking, break_evens, rankings
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.baselines import pick_baseline
from orchestrator.analysis.statistics.estimates import LEVEL, t_interval
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.render import summarise
from tests.building.arms import CPU, GPU, PORTABLE, UNROLL, XLA
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.hardware import build_timing_use
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.large_records import build_large_record
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial
from tests.profiles import draws

CONFIGS: list[Config] = [{"units": size} for size in UNITS * 2]
SWEEPS = draws(100, 200)
THREE = {PORTABLE: 12.0, XLA: 10.0, UNROLL: 15.0}


def timed_sweep(
    times: Mapping[Arm, float], noise: float = 0.01, seed: int = 0, blocks: int = 8
) -> SweepRecord:
    laws = {arm: lambda _, ms=ms: ms for arm, ms in times.items()}
    return build_record_by_laws(laws, CONFIGS[:blocks], noise=noise, seed=seed)


def ranking_of(record: SweepRecord, margin: float = 0.02) -> Ranking:
    (ranking,) = rankings(match(record), "step_ms", margin)
    return ranking


def test_the_fastest_is_first_and_arms_within_the_margin_are_equal() -> None:
    ranking = ranking_of(timed_sweep({PORTABLE: 10, XLA: 10.02, UNROLL: 15}, 0.001))
    assert (ranking.leader, ranking.sole, ranking.blocks) == (PORTABLE, False, 8)
    assert [(row.arm, row.standing) for row in ranking.behind] == [(XLA, "same"), (UNROLL, "worse")]
    alone = ranking_of(timed_sweep(THREE))
    assert (alone.leader, alone.sole) == (XLA, True)
    ratio = alone.behind[0].ratio
    assert ratio is not None and ratio.low < 1.2 < ratio.high
    few = ranking_of(timed_sweep(THREE, blocks=5))
    assert (few.leader, few.sole, few.reason) == (XLA, False, "at least 6 are needed")


@pytest.mark.parametrize(("hardware", "is_fresh"), [(CPU, True), (CPU, False), (GPU, True)])
def test_memory_is_ranked_if_every_trainer_was_fresh(hardware: HardwareUse, is_fresh: bool) -> None:
    """On a GPU the memory of the host does not count."""
    used = {replace(PORTABLE, hardware=hardware): 900.0, replace(XLA, hardware=hardware): 600.0}
    trials = [
        build_trial(block, arm, peak_rss_mib=mib + block, trainer_trials=block * (not is_fresh))
        for block in range(6)
        for arm, mib in used.items()
    ]
    ranked = rankings(match(build_record(trials, (*used,))), None, 0.02)
    assert [(r.metric, r.leader.implementation, r.sole) for r in ranked] == (
        [("peak_rss_mib", XLA.implementation, True)] if is_fresh and hardware == CPU else []
    )


def test_equal_arms_seldom_have_a_sole_leader() -> None:
    records = (timed_sweep(dict.fromkeys(THREE, 10), 0.1, seed) for seed in range(SWEEPS))
    assert sum(ranking_of(record, 0.0).sole for record in records) <= most_by_chance(SWEEPS, 0.05)


def groups_of(record: SweepRecord) -> dict[str, list[tuple[str, str]]]:
    groups = rankings(match(record), "step_ms", 0.02)
    return {
        metric: [(group.among, group.within) for group in groups if group.metric == metric]
        for metric in ("step_ms", "energy_per_sample_j")
    }


def test_each_question_has_its_group() -> None:
    """Energies of unlike, mixed or unknown scope are not compared, nor timed and trained arms."""
    record = build_large_record(blocks=8, kernels=2)
    on_hardware = [("implementations", str(CPU)), ("implementations", str(GPU))]
    of_names = [("hardware", PORTABLE.implementation), ("hardware", XLA.implementation)]
    groups = groups_of(record)
    assert groups["step_ms"] == [*on_hardware, *of_names, ("arms", "")]
    assert groups["energy_per_sample_j"] == on_hardware
    for scope, blocks in (("cpu_package and gpu", 4), (None, 8)):
        trials = [
            change_trial(t, energy_scope=scope) if t.block < blocks else t for t in record.trials
        ]
        assert groups_of(replace(record, trials=tuple(trials)))["energy_per_sample_j"] == []
    sliced = Arm(XLA.implementation, build_timing_use(CPU))
    assert groups_of(timed_sweep({PORTABLE: 12.0, sliced: 10.0}))["step_ms"] == []


def compiling_sweep(
    extra_s: float = 3.0,
    saved_ms: float = 2.0,
    noise: float = 0.01,
    seed: int = 0,
    blocks: int = 16,
) -> SweepRecord:
    """Return a sweep in which XLA compiles 1 s + `extra_s`, with steps of 20 - `saved_ms` ms."""

    def compile_s(arm: Arm, draw: random.Random) -> float:
        return draw.gauss(1 + (extra_s if arm == XLA else 0), 0.05)

    laws = {PORTABLE: lambda _: 20.0, XLA: lambda _: 20.0 - saved_ms}
    return build_record_by_laws(laws, CONFIGS[:blocks], noise=noise, seed=seed, compile_s=compile_s)


def break_even_of(record: SweepRecord) -> BreakEven:
    (pair,) = break_evens(match(record), pick_baseline(record, None))
    return pair


@pytest.mark.parametrize(
    ("record", "arm", "verdict", "reason"),
    [
        (compiling_sweep(), XLA, "pays", ""),
        (compiling_sweep(-0.5, -2.0), PORTABLE, "pays", ""),  # it compiles longer
        (compiling_sweep(3.0, -2.0), XLA, "never", "its steps are not shorter"),
        (compiling_sweep(0.0), XLA, "inconclusive", "difference of their compile times is not"),
        (compiling_sweep(3.0, 0.0, 0.1), XLA, "inconclusive", "difference of their step times is"),
        (compiling_sweep(blocks=5), XLA, "inconclusive", "5 blocks with warm trainers on both"),
    ],
)
def test_the_arm_that_compiles_longer_comes_first_and_may_never_pay(
    record: SweepRecord, arm: Arm, verdict: str, reason: str
) -> None:
    pair = break_even_of(record)
    assert pair.verdict == verdict
    assert verdict == "inconclusive" or pair.arm == arm
    assert (pair.steps is None) == (verdict != "pays") == bool(pair.reason)
    assert reason in (pair.reason or "")


def test_the_interval_of_a_break_even_has_its_nominal_coverage() -> None:
    """XLA compiles 3 s longer and saves 2 ms a step, which pays after 1,500 steps."""
    records = (compiling_sweep(noise=0.03, seed=seed) for seed in range(SWEEPS))
    steps = [break_even_of(record).steps for record in records]
    covered = sum(
        interval is not None and interval.low < 1500 < interval.high for interval in steps
    )
    assert fewest_by_chance(SWEEPS, 0.95) <= covered < SWEEPS


def test_the_level_allows_for_several_pairs_and_for_stopping() -> None:
    """A third arm adds a second pair, which widens the intervals of the first."""
    alone = compiling_sweep(noise=0.02)
    unrolled = tuple(change_trial(t, arm=UNROLL) for t in alone.trials if t.arm == XLA)
    both = replace(alone, trials=alone.trials + unrolled, arms=(*alone.arms, UNROLL))
    stopped = replace(alone, criteria=ReportCriteria(auto_blocks=AutoBlocks()))
    one, (pair, twin) = break_even_of(alone), summarise(both).break_evens
    saved = [block.saved_step_ms for block in one.blocks]
    assert one.saved_step_ms == t_interval(saved)
    assert pair.saved_step_ms == twin.saved_step_ms == t_interval(saved, 0.975)
    assert summarise(stopped).break_evens[0].saved_step_ms == t_interval(saved, LEVEL)
    assert one.steps is not None and pair.steps is not None
    assert pair.steps.low < one.steps.low < pair.steps.value < one.steps.high < pair.steps.high
    away = Arm(XLA.implementation, GPU)  # arms on different hardware are no pair
    trials = tuple(change_trial(t, arm=away) if t.arm == XLA else t for t in alone.trials)
    moved = replace(alone, trials=trials, arms=(PORTABLE, away))
    assert break_evens(match(moved), pick_baseline(moved, None)) == ()


@pytest.mark.parametrize(
    ("fresh_blocks", "trainers", "blocks"), [(4, "warm", range(4, 16)), (16, "fresh", range(16))]
)
def test_fresh_trainers_are_excluded_unless_all_are_fresh(
    fresh_blocks: int, trainers: str, blocks: range
) -> None:
    """The start of a fresh trainer adds the same seconds to the compilation on every arm."""
    record = compiling_sweep()
    trials = [
        change_trial(
            t, trainer_trials=0, metrics={**t.metrics, "compile_s": t.metrics["compile_s"] + 20}
        )
        if t.block < fresh_blocks
        else t
        for t in record.trials
    ]
    pair = break_even_of(replace(record, trials=tuple(trials)))
    assert [costs.block for costs in pair.blocks] == list(blocks)
    assert (pair.verdict, pair.trainers) == ("pays", trainers)
    assert pair.steps is not None
    assert pair.steps.low < 1500 < pair.steps.high
