"""Test when a longer compilation pays off, on sweeps whose truth is known."""

import random
from dataclasses import replace

import pytest

from orchestrator.analysis.contrasts.break_even import BreakEven
from orchestrator.analysis.statistics.estimates import LEVEL, t_interval
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from tests.building.arms import GPU, PORTABLE, UNROLL, XLA
from tests.building.chance import fewest_by_chance
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.trials import change_trial
from tests.profiles import draws

CONFIGS: list[Config] = [{"units": size} for size in UNITS * 2]
SWEEPS = draws(100, 200)


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


def only(record: SweepRecord) -> BreakEven:
    (pair,) = summarise(record).break_evens
    return pair


@pytest.mark.parametrize(
    ("record", "arm", "pays"),
    [
        (compiling_sweep(), XLA, True),
        (compiling_sweep(-0.5, -2.0), PORTABLE, True),  # it compiles longer
        (compiling_sweep(3.0, -2.0), XLA, False),  # its steps are longer, too
        (compiling_sweep(0.0), None, False),
        (compiling_sweep(3.0, 0.0, 0.1), XLA, False),
    ],
)
def test_the_arm_that_compiles_longer_comes_first_and_may_never_pay(
    record: SweepRecord, arm: Arm | None, pays: bool
) -> None:
    pair = only(record)
    assert arm in (None, pair.arm)
    assert {pair.arm, pair.baseline} == {PORTABLE, XLA}
    assert (pair.steps is not None) == pays


def test_the_interval_of_a_break_even_has_its_nominal_coverage() -> None:
    """XLA compiles 3 s longer and saves 2 ms a step, which pays after 1,500 steps."""
    steps = [only(compiling_sweep(noise=0.03, seed=seed)).steps for seed in range(SWEEPS)]
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
    times = {(t.arm, t.block): t.metrics["step_ms"] for t in alone.trials}
    saved = [times[PORTABLE, block] - times[XLA, block] for block in range(16)]
    one, (pair, twin), looked = only(alone), summarise(both).break_evens, only(stopped)
    for found, level in ((one, 0.95), (pair, 0.975), (twin, 0.975), (looked, LEVEL)):
        interval = t_interval(saved, level)
        assert interval is not None
        assert found.saved_step_ms.low == pytest.approx(interval.low)
        assert found.saved_step_ms.value == pytest.approx(interval.value)
    assert one.steps is not None and pair.steps is not None
    assert pair.steps.low < one.steps.low < pair.steps.value < one.steps.high < pair.steps.high


def test_pairs_are_of_one_hardware_class_and_of_enough_blocks() -> None:
    alone, away = compiling_sweep(), Arm(XLA.implementation, GPU)
    trials = tuple(change_trial(t, arm=away) if t.arm == XLA else t for t in alone.trials)
    assert summarise(replace(alone, trials=trials, arms=(PORTABLE, away))).break_evens == ()
    assert summarise(compiling_sweep(blocks=5)).break_evens == ()


@pytest.mark.parametrize(("fresh_blocks", "blocks"), [(4, 12), (16, 16)])
def test_fresh_trainers_are_excluded_unless_all_are_fresh(fresh_blocks: int, blocks: int) -> None:
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
    pair = only(replace(record, trials=tuple(trials)))
    assert pair.blocks == blocks
    assert pair.steps is not None and pair.steps.low < 1500 < pair.steps.high


def test_repeats_of_one_config_have_a_break_even_of_that_config() -> None:
    record = compiling_sweep()
    trials = tuple(
        change_trial(t, block=0, repeat=t.block, config={"units": 16}) for t in record.trials
    )
    pair = only(replace(record, trials=trials, blocks=1, repeats=16))
    assert (pair.blocks, pair.steps) == (16, only(record).steps)
