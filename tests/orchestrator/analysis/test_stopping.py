"""Test the stopping rule: it depends on widths alone, and has its nominal coverage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.statistics.estimates import LEVEL
from orchestrator.analysis.stopping import StopDecision, StoppingRule, looks
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import FinishedTrial
from tests.orchestrator.analysis.random_draws import stop_sweeps
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import changed, trial

BASE, FAST, RELU = (
    Arm(name, on_cpu("CPU", 2))
    for name in ("tensorflow/portable", "tensorflow/portable+xla", "tensorflow/portable+relu")
)
SLOW = Arm("tensorflow/portable+unroll", BASE.hardware)


def timed(block: int, arm: Arm, step_ms: float | None, repeat: int = 0) -> FinishedTrial:
    status = "failed" if step_ms is None else "complete"
    return trial(arm, block, repeat, step_ms=step_ms, status=status)


def stopping_rule(
    auto: AutoBlocks, arms: Sequence[Arm] = (BASE, FAST), repeats: int = 1
) -> StoppingRule:
    return StoppingRule(auto, tuple(arms), repeats)


def taken(rule: StoppingRule) -> list[FinishedTrial]:
    return [finished for block in rule._ended.values() for finished in block.values()]


def draws(seed: int, deviation: float, truth: float = 0.1) -> Iterator[float]:
    """Log-ratios of blocks whose own times differ far more than the arms do."""
    rng = np.random.default_rng(seed)
    while True:
        yield truth + deviation * float(rng.standard_normal())


def run(rule: StoppingRule, ratios: Iterator[float], seed: int = 0) -> list[float]:
    """Complete blocks until it is enough; the log-ratios that it took."""
    rng, taken = np.random.default_rng(seed), list[float]()
    while rule.stop_decision is None:
        taken.append(next(ratios))
        base_ms = float(math.exp(rng.normal(3, 1)))
        rule.take(timed(len(taken), BASE, base_ms))
        rule.take(timed(len(taken), FAST, base_ms / math.exp(taken[-1])))
    return taken


def test_a_quiet_sweep_needs_the_fewest_and_a_noisy_one_all() -> None:
    auto = AutoBlocks(0.02, 6, 30)
    assert len(run(stopping_rule(auto), draws(1, 0.001))) == 6
    noisy = stopping_rule(auto)
    assert len(run(noisy, draws(1, 0.5))) == 30
    assert noisy.stop_decision is not None
    assert noisy.stop_decision.blocks == 30
    assert noisy.stop_decision.half_width is not None
    assert noisy.stop_decision.half_width > 0.02
    assert "at_most" in noisy.stop_decision.reason


def test_the_width_is_that_of_the_reports_own_pairs() -> None:
    ratios = [0.1, 0.12, 0.09, 0.11, 0.1, 0.13]
    rule = stopping_rule(AutoBlocks(0.5, 6, 60))
    run(rule, iter(ratios))
    wanted = stats.t.ppf(0.5 + LEVEL / 2, 5) * np.std(ratios, ddof=1) / math.sqrt(6)
    assert rule.stop_decision is not None
    assert rule.stop_decision.blocks == 6
    assert rule.stop_decision.half_width == pytest.approx(math.expm1(wanted))
    assert "± 50 %" in rule.stop_decision.reason


def test_it_never_stops_for_a_verdict() -> None:
    """Two sweeps with the same scatter around unlike truths stop after the same blocks."""
    auto = AutoBlocks(0.03, 6, 60)
    for seed in range(20):
        even = run(stopping_rule(auto), draws(seed, 0.06, truth=0.0))
        apart = run(stopping_rule(auto), draws(seed, 0.06, truth=0.7))
        assert len(even) == len(apart)


def test_it_goes_on_while_too_many_blocks_are_disturbed_for_a_verdict() -> None:
    """Half of the blocks are, evenly slow as they are: at the look after 13 six are quiet."""
    auto = AutoBlocks(0.05, 6, 60)
    rule = stopping_rule(auto)
    for block in range(13):
        assert rule.stop_decision is None
        for arm, step_ms in ((BASE, 10.0 + 0.001 * block), (FAST, 5.0)):
            ended = timed(block, arm, step_ms)
            disturbance = {"slow_canary": 1.5} if block % 2 else {}
            rule.take(changed(ended, disturbance=disturbance))
    assert rule.stop_decision is not None
    assert rule.stop_decision.blocks == 13


def test_every_fair_comparison_counts_and_no_other() -> None:
    auto = AutoBlocks(0.05, 6, 60)
    dead = Arm("tensorflow/cudnn", BASE.hardware)
    rng = np.random.default_rng(3)
    rule = stopping_rule(auto, (BASE, FAST, SLOW, RELU, dead))
    for block in range(6):
        rule.take(timed(block, BASE, 10.0))
        rule.take(timed(block, FAST, 5.0 + 0.001 * block))
        rule.take(timed(block, RELU, float(rng.uniform(1, 100))))
        rule.take(timed(block, dead, None))
        rule.take(timed(block, SLOW, float(rng.uniform(5, 50))))
    assert rule.stop_decision is None, "one fair comparison is not narrow"
    widths = rule.half_widths(taken(rule))
    assert set(widths) == {(FAST, BASE), (SLOW, BASE), (dead, BASE)}
    assert widths[dead, BASE] is None


def failing(most: int, arms: Sequence[Arm], silent: Arm, until: int) -> StoppingRule:
    """All blocks of a sweep of quiet arms, of which one fails in the first so many blocks."""
    rule = stopping_rule(AutoBlocks(0.05, 6, most), arms)
    for block in range(most):
        for number, arm in enumerate(arms, 1):
            took_ms = None if arm == silent and block < until else number * (10 + 0.001 * block)
            rule.take(timed(block, arm, took_ms))
    return rule


@pytest.mark.parametrize("silent", [BASE, FAST])
def test_an_arm_that_fails_so_far_is_still_to_be_compared(silent: Arm) -> None:
    """Six configs that are too large for one arm do not decide on the blocks to come."""
    rule = failing(14, (BASE, FAST), silent, until=6)
    assert rule.stop_decision is not None
    assert rule.stop_decision.blocks == 13, (
        "six fail, and of eight more a look comes at the seventh"
    )
    assert rule.stop_decision.half_width is not None
    assert "± 5 %" in rule.stop_decision.reason


@pytest.mark.parametrize(
    ("arms", "silent"), [((BASE, FAST), BASE), ((BASE, FAST), FAST), ((BASE, FAST, SLOW), SLOW)]
)
def test_the_reason_names_an_arm_that_never_completes(arms: Sequence[Arm], silent: Arm) -> None:
    rule = failing(8, (*arms, RELU), silent, until=8)
    reason = f"8 are the most (blocks.at_most); no trial of {silent} completes"
    assert rule.stop_decision == StopDecision(8, None, reason)


def test_arms_of_other_mathematics_are_nothing_to_wait_for() -> None:
    """It is the same whether their trials complete or fail."""
    for until in (0, 8):
        rule = failing(8, (BASE, RELU), RELU, until)
        assert rule.stop_decision == StopDecision(6, None, "there is nothing to compare")
        alone = failing(8, (BASE,), BASE, until)
        assert alone.stop_decision == StopDecision(6, None, "there is nothing to compare")


def test_a_block_counts_once_all_of_its_rounds_are_in() -> None:
    rule = stopping_rule(AutoBlocks(0.9, 6, 60), repeats=2)
    for block in range(6):
        for repeat in range(2):
            rule.take(timed(block, BASE, 10.0, repeat))
            if (block, repeat) != (5, 1):
                rule.take(timed(block, FAST, 5.0, repeat))
    assert rule.stop_decision is None
    rule.take(timed(9, Arm("tensorflow/gone", on_cpu("CPU", 1)), 1.0))  # of a removed arm
    rule.take(timed(5, FAST, 5.0, 1))
    assert rule.stop_decision is not None


def test_whoever_goes_on_decides_alike() -> None:
    auto = AutoBlocks(0.03, 6, 60)
    before = stopping_rule(auto)
    run(before, draws(7, 0.05))
    second = stopping_rule(auto)
    for outcome in taken(before):
        assert second.stop_decision is None
        second.take(outcome)
    assert second.stop_decision == before.stop_decision


def test_looks_are_few_and_end_with_the_most() -> None:
    assert looks(AutoBlocks()) == (6, 8, 10, 13, 17, 22, 28, 35, 44, 55, 60)
    assert looks(AutoBlocks(least=10, most=10)) == (10,)


@pytest.mark.parametrize("most", [12, 200])
@pytest.mark.parametrize("deviation", [0.5, 1.5, 3.5])
def test_intervals_cover_as_promised_where_the_sweep_stops_and_have_no_bias(
    most: int, deviation: float
) -> None:
    """The rule on draws with known truth: 4,000 sweeps for each deviation over wanted width."""
    sweeps = 4000
    rng = np.random.default_rng(int(10 * deviation) + most)
    ended = stop_sweeps(deviation * rng.standard_normal((sweeps, most)), LEVEL)
    at_least = stats.binom.ppf(0.001, sweeps, 0.95)
    assert ended.covered.sum() >= at_least, "below 95 % beyond chance"
    assert abs(ended.means.mean()) < 4 * ended.means.std() / math.sqrt(sweeps)
