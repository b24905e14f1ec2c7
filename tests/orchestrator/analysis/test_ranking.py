"""Who is first: on sweeps in which that is known, and in which nobody is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from orchestrator.analysis.comparisons.ranking import Ranking, rankings
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.formatting import ratio_interval
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import Margins
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, FinishedTrial
from orchestrator.report.render import render, summarise
from orchestrator.report.wording.answers import NAMED
from tests.orchestrator.analysis.known_sweeps import UNITS, obeying
from tests.orchestrator.report.large_sweep import large
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, UNROLL, XLA, changed, sweep

CONFIGS: list[Config] = [{"units": size} for size in UNITS]


def timed(times: Sequence[float], noise: float = 0.01, seed: int = 0) -> SweepRecord:
    """PORTABLE, XLA and UNROLL with these times of a step."""
    arms = (PORTABLE, XLA, UNROLL)
    laws = {arm: lambda _, ms=ms: ms for arm, ms in zip(arms, times, strict=True)}
    return obeying(laws, CONFIGS, noise=noise, seed=seed)


def ranked(record: SweepRecord, margin: float = 0.02) -> list[Ranking]:
    return list(rankings(match(record), "step_ms", margin, {}))


def said(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


def test_a_rivals_interval_says_what_it_is_of() -> None:
    record = timed((12, 10, 10.5), noise=0.2)
    (ranking,) = ranked(record)
    rival = next(each for each in ranking.behind if each.standing == "inconclusive")
    assert f"{rival.arm.implementation} ({ratio_interval(rival.ratio)} × its time)" in said(record)


def test_the_fastest_is_first() -> None:
    record = timed((12, 10, 15))
    (ranking,) = ranked(record)
    assert (ranking.leader, ranking.sole, ranking.blocks) == (XLA, True, 8)
    assert [each.arm for each in ranking.behind] == [PORTABLE, UNROLL]
    ratio = ranking.behind[0].ratio
    assert ratio is not None
    assert ratio.low < 1.2 < ratio.high
    assert (
        f"on {CPU}: tensorflow/portable+xla is the fastest; the next is tensorflow/portable, over "
        "8 blocks; 1 other further behind"
    ) in said(record)


def test_a_pair_has_one_interval() -> None:
    """The baseline's is that of its comparison; of two groups the first tells the other pairs'."""
    slow = Arm("tensorflow/portable", GPU)
    times = {PORTABLE: 15.0, XLA: 10.0, UNROLL: 12.0, slow: 30.0}
    laws = {arm: lambda _, ms=ms: ms for arm, ms in times.items()}
    told = said(obeying(laws, CONFIGS, noise=0.01))
    assert "is the fastest; the next, tensorflow/portable+unroll, takes 1.2" in told
    assert f"of all arms: {XLA} is the fastest; the next is {UNROLL}, over 8 blocks" in told


def test_a_rival_that_is_compared_has_its_interval_there() -> None:
    told = said(timed((10.2, 10, 15), noise=0.1, seed=1))
    assert "leads, and tensorflow/portable may be as good, over 8 blocks" in told


def test_a_leader_by_chance_is_not_believed() -> None:
    """Of 200 sweeps of three equal arms at most 5 % may name a first: 21 is three errors more."""
    sole = [ranked(timed((10, 10, 10), 0.1, seed), 0.0)[0].sole for seed in range(200)]
    assert sum(sole) <= 21
    assert "which is the fastest is inconclusive" in said(timed((10, 10, 10), 0.1))


def test_arms_within_the_margin_are_equal() -> None:
    record = replace(
        timed((10, 10.02, 15), 0.001),
        criteria=replace(timed((1, 1, 1)).criteria, margins=Margins(0.02)),
    )
    assert "tensorflow/portable is the fastest, and equal within 2 % to" in said(record)
    (ranking,) = ranked(record)
    assert [each.standing for each in ranking.behind] == ["same", "worse"]


def test_too_few_blocks_name_nobody() -> None:
    record = timed((12, 10, 15))
    few = replace(record, trials=tuple(t for t in record.trials if t.block < 5), blocks=5)
    assert not ranked(few)[0].sole
    assert (
        "which is the fastest is inconclusive: tensorflow/portable+xla leads over 5 blocks"
        in said(few)
    )


def test_two_arms_are_left_to_their_comparison() -> None:
    record = obeying({PORTABLE: lambda _: 12.0, XLA: lambda _: 10.0}, CONFIGS)
    assert "is the fastest" not in said(record)


def test_each_question_has_its_group() -> None:
    found = summarise(large(blocks=8, kernels=3)).rankings
    steps = [(each.among, each.within) for each in found if each.metric == "step_ms"]
    assert steps == [
        ("implementations", str(CPU)),
        ("implementations", str(GPU)),
        ("hardware", "tensorflow/portable"),
        ("hardware", "tensorflow/portable+xla"),
        ("hardware", "tensorflow/portable+unroll"),
        ("arms", ""),
    ]


def test_energies_of_unlike_scopes_are_in_no_group() -> None:
    """The CPUs' energy is that of the packages, the GPUs' their own."""
    record = large(blocks=8, kernels=3)
    assert energy_groups(record) == [("implementations", str(CPU)), ("implementations", str(GPU))]


@pytest.mark.parametrize("scope", ["cpu_package and gpu", None])
def test_an_energy_of_mixed_or_unknown_scope_is_in_no_group(scope: str | None) -> None:
    """Else the arms of which nobody knows would be held against one another, across hardware."""
    record = large(blocks=8, kernels=3)
    hit = (0, 1, 2, 3) if scope else range(8)  # in half of the trials, or unknown in all
    trials = [
        changed(t, energy_scope=scope)
        if t.block in hit and t.arm.implementation != "tensorflow/portable+unroll"
        else t
        for t in record.trials
    ]
    assert energy_groups(replace(record, trials=tuple(trials))) == []


def energy_groups(record: SweepRecord) -> list[tuple[str, str]]:
    found = summarise(record).rankings
    return [(r.among, r.within) for r in found if r.metric == "energy_per_sample_j"]


def test_timed_and_trained_arms_are_in_no_group() -> None:
    sliced = Arm("tensorflow/portable+xla", in_slices(CPU))
    record = obeying({PORTABLE: lambda _: 12.0, sliced: lambda _: 10.0}, CONFIGS)
    assert ranked(record) == []


def test_disturbed_rounds_count_only_for_want_of_quiet_ones() -> None:
    """In two of eight blocks UNROLL was slowed down a hundredfold: it leads in the other six."""
    record = timed((12, 10, 9))
    noisy = [
        changed(t, disturbance={"other_processes": 90.0}, metrics={"step_ms": 900.0})
        if t.arm == UNROLL and t.block < 2
        else t
        for t in record.trials
    ]
    (ranking,) = ranked(replace(record, trials=tuple(noisy)))
    assert (ranking.leader, ranking.sole, ranking.blocks) == (UNROLL, True, 6)
    assert ranking.disturbed == 0


def test_disturbed_rounds_are_told_where_they_count() -> None:
    record = disturbed(timed((12, 10, 15)).trials[:21], {UNROLL: (0, 1)})  # seven blocks
    (ranking,) = ranked(record)
    assert (ranking.blocks, ranking.disturbed, ranking.reason) == (7, 2, None)
    assert ranking.sole
    assert "over 7 blocks, 2 of them disturbed" in said(record)


def test_where_more_than_a_third_are_disturbed_nobody_is_first() -> None:
    record = disturbed(timed((12, 10, 15)).trials, {XLA: (0, 1, 2)})
    (ranking,) = ranked(record)
    assert (ranking.blocks, ranking.disturbed, ranking.sole) == (8, 3, False)
    assert {each.standing for each in ranking.behind} == {"inconclusive"}
    ratio = ranking.behind[0].ratio
    assert ratio is not None and ratio.n == 8
    assert (
        "which is the fastest is inconclusive: tensorflow/portable+xla leads over 8 blocks, 3 "
        "of them disturbed; 5 of 8 blocks were quiet, and 6 are needed where more than a third "
        "are disturbed: run with disturbed: rerun, or on a quieter node"
    ) in said(record)


def test_what_disturbed_other_arms_is_nothing_to_a_group() -> None:
    gpu = [Arm(arm.implementation, GPU) for arm in (PORTABLE, XLA)]
    times = dict(zip((PORTABLE, XLA, *gpu), (12.0, 10.0, 6.0, 5.0), strict=True))
    laws = {arm: lambda _, ms=ms: ms for arm, ms in times.items()}
    quiet = obeying(laws, CONFIGS, noise=0.01)
    record = disturbed(quiet.trials, dict.fromkeys((PORTABLE, XLA), range(4)))
    found = {each.within: each for each in ranked(record)}
    on_cpus, on_gpus = found[str(CPU)], found[str(GPU)]
    assert (on_cpus.disturbed, on_cpus.sole, on_cpus.blocks) == (
        4,
        False,
        8,
    )
    assert (on_gpus.disturbed, on_gpus.sole, on_gpus.blocks) == (0, True, 8)


def disturbed(trials: Sequence[FinishedTrial], hit: Mapping[Arm, Sequence[int]]) -> SweepRecord:
    """Their sweep, in which something else was at work beside some arms in some blocks."""
    noisy = {"slow_canary": 1.5}
    told = [changed(t, disturbance=noisy) if t.block in hit.get(t.arm, ()) else t for t in trials]
    return sweep(told, tuple(dict.fromkeys(t.arm for t in trials)))


def test_many_are_counted() -> None:
    shown = said(large(blocks=8, kernels=6))
    assert f"{GPU} is the fastest for 6 of 6 implementations" in shown
    assert "of 11 arms compared with tensorflow/portable on" in shown
    assert NAMED < 11
