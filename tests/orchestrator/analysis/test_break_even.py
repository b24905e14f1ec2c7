"""After how many steps a longer compilation pays: on sweeps whose break-even is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from orchestrator.analysis.comparisons.break_even import BreakEven, break_evens
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.estimates import t_interval
from orchestrator.analysis.statistics.stopping_looks import LEVEL
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.render import render, summarise
from tests.orchestrator.analysis.known_sweeps import UNITS, obeying
from tests.orchestrator.sample_records import GPU, PORTABLE, UNROLL, XLA, changed

CONFIGS: list[Config] = [{"units": size} for size in UNITS * 2]


def compiling(
    extra_s: float, saved_ms: float, *, noise: float = 0.01, seed: int = 0, blocks: int = 16
) -> SweepRecord:
    """XLA compiles `extra_s` longer than 1 s, and its steps take `saved_ms` less than 20."""

    def compile_s(arm: Arm, draw: random.Random) -> float:
        return draw.gauss(1 + (extra_s if arm == XLA else 0), 0.05)

    laws = {PORTABLE: lambda _: 20.0, XLA: lambda _: 20.0 - saved_ms}
    return obeying(laws, CONFIGS[:blocks], noise=noise, seed=seed, compile_s=compile_s)


def found(record: SweepRecord) -> BreakEven:
    (pair,) = break_evens(match(record), pick_baseline(record, None))
    return pair


def test_the_known_break_even_is_found_and_said() -> None:
    """3 s longer, 2 ms a step: 1,500 steps."""
    record = compiling(3.0, 2.0)
    pair = found(record)
    assert (pair.arm, pair.baseline, pair.verdict) == (XLA, PORTABLE, "pays")
    assert pair.steps is not None
    assert pair.steps.low < 1500 < pair.steps.high
    assert pair.steps.value == pytest.approx(1500, rel=0.1)
    shown = " ".join(render(summarise(record), "text").split())
    steps = f"{float(f'{pair.steps.value:.3g}'):,.0f}"
    assert f"which pays off after {steps} steps" in shown


def test_the_interval_covers_as_often_as_it_promises() -> None:
    """95 % of 300, within five standard errors of the binomial, and not always."""
    pairs = [found(compiling(3.0, 2.0, noise=0.03, seed=seed)).steps for seed in range(300)]
    covered = sum(steps is not None and steps.low < 1500 < steps.high for steps in pairs)
    assert 266 <= covered < 300


def test_several_pairs_are_corrected_for() -> None:
    """The same numbers beside those of a third arm: as two looks at chance."""
    alone = compiling(3.0, 2.0, noise=0.02)
    unrolled = tuple(changed(each, arm=UNROLL) for each in alone.trials if each.arm == XLA)
    both = replace(alone, trials=alone.trials + unrolled, arms=(*alone.arms, UNROLL))
    pair, twin = break_evens(match(both), pick_baseline(both, None))
    assert pair.blocks == twin.blocks == found(alone).blocks
    saved = [each.saved_step_ms for each in pair.blocks]
    assert found(alone).saved_step_ms == t_interval(saved)
    assert pair.saved_step_ms == twin.saved_step_ms == t_interval(saved, 0.975)
    one, of_two = found(alone).steps, pair.steps
    assert one is not None
    assert of_two is not None
    assert of_two.low < one.low < one.value == of_two.value < one.high < of_two.high


def test_slower_steps_never_pay() -> None:
    pair = found(compiling(3.0, -2.0))
    assert (pair.arm, pair.verdict, pair.steps) == (XLA, "never", None)


def test_the_arm_that_compiles_longer_comes_first() -> None:
    pair = found(compiling(-0.5, -2.0))
    assert (pair.arm, pair.baseline, pair.verdict) == (PORTABLE, XLA, "pays")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (compiling(0.0, 2.0), "a difference of their compile times is not shown"),
        (compiling(3.0, 0.0, noise=0.1), "a difference of their step times is not shown"),
        (compiling(3.0, 2.0, blocks=5), "5 blocks with warm trainers on both"),
    ],
)
def test_it_says_why_it_cannot_tell(record: SweepRecord, reason: str) -> None:
    pair = found(record)
    assert (pair.verdict, pair.steps) == ("inconclusive", None)
    assert reason in (pair.reason or "")


def test_fresh_trainers_count_for_nothing_beside_warm_ones() -> None:
    """They compile a hundred times as long, for their start."""
    record = compiling(3.0, 2.0)
    fresh = [
        changed(each, trainer_trials=0, metrics={**each.metrics, "compile_s": 100.0})
        if each.block < 4
        else each
        for each in record.trials
    ]
    pair = found(replace(record, trials=tuple(fresh)))
    assert [each.block for each in pair.blocks] == list(range(4, 16))
    assert pair.verdict == "pays"


def test_where_all_trainers_are_fresh_they_count() -> None:
    """Peak memory asks for that; all then pay for their start alike: 3 s longer, 2 ms a step."""
    warm = compiling(3.0, 2.0)
    fresh = [
        changed(
            each,
            trainer_trials=0,
            metrics={**each.metrics, "compile_s": each.metrics["compile_s"] + 20},
        )
        for each in warm.trials
    ]
    record = replace(warm, trials=tuple(fresh))
    pair = found(record)
    assert (pair.verdict, pair.trainers, found(warm).trainers) == ("pays", "fresh", "warm")
    assert pair.steps is not None
    assert pair.steps.low < 1500 < pair.steps.high
    shown = " ".join(render(summarise(record), "text").split())
    assert "which pays off after" in shown
    assert "Seconds of compiling in a fresh trainer, including its start" in shown


def disturbed(record: SweepRecord, blocks: int) -> SweepRecord:
    """The first blocks were disturbed, and XLA's steps took five times as long in them."""
    trials = [
        changed(
            each,
            disturbance={"shared_gpu": 1.0},
            metrics={
                **each.metrics,
                "step_ms": each.metrics["step_ms"] * (1 + 4 * (each.arm == XLA)),
            },
        )
        if each.block < blocks
        else each
        for each in record.trials
    ]
    return replace(record, trials=tuple(trials))


def test_disturbed_rounds_do_not_count_where_there_are_quiet_ones_enough() -> None:
    pair = found(disturbed(compiling(3.0, 2.0), 10))
    assert [each.block for each in pair.blocks] == list(range(10, 16))
    assert pair.verdict == "pays"


def test_disturbed_blocks_tell_nothing_where_they_are_too_many() -> None:
    pair = found(disturbed(compiling(3.0, 2.0, blocks=8), 4))
    assert (pair.verdict, pair.steps) == ("inconclusive", None)
    assert "4 of 8 blocks were quiet" in (pair.reason or "")


def test_arms_on_other_hardware_are_no_pair() -> None:
    record = compiling(3.0, 2.0)
    away = Arm(XLA.implementation, GPU)
    trials = tuple(changed(t, arm=away) if t.arm == XLA else t for t in record.trials)
    moved = replace(record, trials=trials, arms=(PORTABLE, away))
    assert break_evens(match(moved), pick_baseline(moved, None)) == ()


def test_a_sweep_that_ended_by_its_intervals_has_wider_ones_here_too() -> None:
    record = replace(
        compiling(3.0, 2.0, noise=0.02), criteria=ReportCriteria(auto_blocks=AutoBlocks())
    )
    (pair,) = summarise(record).break_evens
    saved = [each.saved_step_ms for each in pair.blocks]
    assert pair.saved_step_ms == t_interval(saved, LEVEL)
