"""Test after how many steps a longer compilation pays, on sweeps with a known break-even."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from orchestrator.analysis.comparisons.break_even import BreakEven, break_evens
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.estimates import LEVEL, t_interval
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import fewest_by_chance
from tests.orchestrator.analysis.known_sweeps import UNITS, obeying
from tests.orchestrator.sample_records import GPU, PORTABLE, UNROLL, XLA, changed
from tests.profiles import draws

CONFIGS: list[Config] = [{"units": size} for size in UNITS * 2]


def compiling_sweep(
    extra_s: float, saved_ms: float, *, noise: float = 0.01, seed: int = 0, blocks: int = 16
) -> SweepRecord:
    """Return a sweep in which XLA compiles 1 s + `extra_s`, with steps of 20 - `saved_ms` ms."""

    def compile_s(arm: Arm, draw: random.Random) -> float:
        return draw.gauss(1 + (extra_s if arm == XLA else 0), 0.05)

    laws = {PORTABLE: lambda _: 20.0, XLA: lambda _: 20.0 - saved_ms}
    return obeying(laws, CONFIGS[:blocks], noise=noise, seed=seed, compile_s=compile_s)


def break_even_of(record: SweepRecord) -> BreakEven:
    (pair,) = break_evens(match(record), pick_baseline(record, None))
    return pair


def test_the_known_break_even_is_estimated() -> None:
    """XLA compiles 3 s longer and saves 2 ms a step, which pays after 1,500 steps."""
    record = compiling_sweep(3.0, 2.0)
    pair = break_even_of(record)
    assert (pair.arm, pair.baseline, pair.verdict) == (XLA, PORTABLE, "pays")
    assert pair.steps is not None
    assert pair.steps.low < 1500 < pair.steps.high
    assert pair.steps.value == pytest.approx(1500, rel=0.1)


def test_the_interval_has_its_nominal_coverage() -> None:
    sweeps = draws(100, 400)
    records = (compiling_sweep(3.0, 2.0, noise=0.03, seed=seed) for seed in range(sweeps))
    pairs = [break_even_of(record).steps for record in records]
    covered = sum(steps is not None and steps.low < 1500 < steps.high for steps in pairs)
    assert fewest_by_chance(sweeps, 0.95) <= covered < sweeps


def test_several_pairs_are_corrected_for() -> None:
    """A third arm adds a second pair, which widens the intervals of the first."""
    alone = compiling_sweep(3.0, 2.0, noise=0.02)
    unrolled = tuple(changed(t, arm=UNROLL) for t in alone.trials if t.arm == XLA)
    both = replace(alone, trials=alone.trials + unrolled, arms=(*alone.arms, UNROLL))
    pair, twin = break_evens(match(both), pick_baseline(both, None))
    assert pair.blocks == twin.blocks == break_even_of(alone).blocks
    saved = [block.saved_step_ms for block in pair.blocks]
    assert break_even_of(alone).saved_step_ms == t_interval(saved)
    assert pair.saved_step_ms == twin.saved_step_ms == t_interval(saved, 0.975)
    one, of_two = break_even_of(alone).steps, pair.steps
    assert one is not None
    assert of_two is not None
    assert of_two.low < one.low < one.value == of_two.value < one.high < of_two.high


@pytest.mark.parametrize(
    ("extra_s", "saved_ms", "expected"),
    [(3.0, -2.0, (XLA, "never")), (-0.5, -2.0, (PORTABLE, "pays"))],
)
def test_the_arm_that_compiles_longer_comes_first_and_may_never_pay(
    extra_s: float, saved_ms: float, expected: tuple[Arm, str]
) -> None:
    pair = break_even_of(compiling_sweep(extra_s, saved_ms))
    assert (pair.arm, pair.verdict) == expected


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (compiling_sweep(0.0, 2.0), "a difference of their compile times is not shown"),
        (compiling_sweep(3.0, 0.0, noise=0.1), "a difference of their step times is not shown"),
        (compiling_sweep(3.0, 2.0, blocks=5), "5 blocks with warm trainers on both"),
    ],
)
def test_an_inconclusive_break_even_has_a_reason(record: SweepRecord, reason: str) -> None:
    pair = break_even_of(record)
    assert (pair.verdict, pair.steps) == ("inconclusive", None)
    assert reason in (pair.reason or "")


@pytest.mark.parametrize(
    ("fresh_blocks", "trainers", "blocks"), [(4, "warm", range(4, 16)), (16, "fresh", range(16))]
)
def test_fresh_trainers_are_excluded_unless_all_are_fresh(
    fresh_blocks: int, trainers: str, blocks: range
) -> None:
    """The start of a fresh trainer adds the same seconds to the compilation on every arm."""
    record = compiling_sweep(3.0, 2.0)
    trials = [
        changed(
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


def test_arms_on_different_hardware_are_no_pair() -> None:
    record = compiling_sweep(3.0, 2.0)
    away = Arm(XLA.implementation, GPU)
    trials = tuple(changed(t, arm=away) if t.arm == XLA else t for t in record.trials)
    moved = replace(record, trials=trials, arms=(PORTABLE, away))
    assert break_evens(match(moved), pick_baseline(moved, None)) == ()


def test_a_sweep_that_its_intervals_stopped_has_wider_intervals() -> None:
    record = replace(
        compiling_sweep(3.0, 2.0, noise=0.02), criteria=ReportCriteria(auto_blocks=AutoBlocks())
    )
    (pair,) = summarise(record).break_evens
    saved = [block.saved_step_ms for block in pair.blocks]
    assert pair.saved_step_ms == t_interval(saved, LEVEL)
