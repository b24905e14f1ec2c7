"""Test the stopping rule: it depends on widths alone."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.statistics.estimates import LEVEL
from orchestrator.analysis.stopping import StoppingRule, looks
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.trial import FinishedTrial
from tests.orchestrator.sample_records import PORTABLE, UNROLL, XLA, trial


def timed(block: int, arm: Arm, step_ms: float | None, repeat: int = 0) -> FinishedTrial:
    status = "failed" if step_ms is None else "complete"
    return trial(arm, block, repeat, step_ms=step_ms, status=status)


def run(rule: StoppingRule, log_ratios: Sequence[float]) -> int:
    """Take blocks, whose own times differ far more than the arms, until it stops; count them."""
    rng = np.random.default_rng(0)
    for block, log_ratio in enumerate(log_ratios):
        base_ms = float(math.exp(rng.normal(3, 1)))
        rule.take(timed(block, PORTABLE, base_ms))
        rule.take(timed(block, XLA, base_ms / math.exp(log_ratio)))
        if rule.stop_decision is not None:
            return block + 1
    raise AssertionError("it does not stop")


def scattered(deviation: float, seed: int = 1, truth: float = 0.1) -> list[float]:
    return (truth + deviation * np.random.default_rng(seed).standard_normal(60)).tolist()


def test_a_quiet_sweep_needs_the_fewest_blocks_and_a_noisy_one_all() -> None:
    ratios = [0.1, 0.12, 0.09, 0.11, 0.1, 0.13]
    half_width = stats.t.ppf(0.5 + LEVEL / 2, 5) * np.std(ratios, ddof=1) / math.sqrt(6)
    quiet = StoppingRule(AutoBlocks(0.5, 6, 60), (PORTABLE, XLA), 1)
    assert run(quiet, ratios) == 6
    assert quiet.stop_decision is not None
    assert quiet.stop_decision.half_width == pytest.approx(math.expm1(half_width))
    assert quiet.stop_decision.reason == "every speed-up is known to ± 50 %"
    noisy = StoppingRule(AutoBlocks(0.02, 6, 30), (PORTABLE, XLA), 1)
    assert run(noisy, scattered(0.5)) == 30
    assert noisy.stop_decision is not None and (noisy.stop_decision.half_width or 0) > 0.02
    assert noisy.stop_decision.reason == "30 are the most (blocks.at_most)"


def test_it_never_stops_for_a_verdict() -> None:
    equal, unlike = (
        [
            run(StoppingRule(AutoBlocks(0.03), (PORTABLE, XLA), 1), scattered(0.06, seed, truth))
            for seed in range(20)
        ]
        for truth in (0.0, 0.7)
    )
    assert equal == unlike
    assert len(set(equal)) > 3


def after(blocks: int, arms: Sequence[Arm], silent: Arm, until: int) -> StoppingRule:
    """Return the rule after blocks of quiet arms, of which one fails in the first so many."""
    rule = StoppingRule(AutoBlocks(0.05, 6, blocks), tuple(arms), 1)
    for block in range(blocks):
        for number, arm in enumerate(arms, 1):
            took_ms = None if arm == silent and block < until else number * (10 + 0.001 * block)
            rule.take(timed(block, arm, took_ms))
    return rule


ENOUGH, NOTHING = "every speed-up is known to ± 5 %", "there is nothing to compare"
NEVER = "8 are the most (blocks.at_most); no trial of {} completes"


@pytest.mark.parametrize(
    ("arms", "silent", "until", "planned", "blocks", "reason"),
    [
        # Six configs that are too large for one arm do not decide on the blocks to come.
        ((PORTABLE, XLA), PORTABLE, 6, 14, 13, ENOUGH),
        ((PORTABLE, XLA), XLA, 6, 14, 13, ENOUGH),
        ((PORTABLE, XLA), PORTABLE, 8, 8, 8, NEVER),
        ((PORTABLE, XLA, UNROLL), UNROLL, 8, 8, 8, NEVER),
        ((PORTABLE,), PORTABLE, 8, 8, 6, NOTHING),
    ],
)
def test_the_decision_depends_on_the_pairs_that_can_complete(
    arms: Sequence[Arm], silent: Arm, until: int, planned: int, blocks: int, reason: str
) -> None:
    decision = after(planned, arms, silent, until).stop_decision
    assert decision is not None
    assert (decision.blocks, decision.reason) == (blocks, reason.format(silent))
    assert (decision.half_width is None) == (reason != ENOUGH)


def test_a_block_counts_once_all_of_its_rounds_are_complete() -> None:
    rule = StoppingRule(AutoBlocks(0.9, 6, 60), (PORTABLE, XLA), 2)
    for block in range(6):
        for repeat in range(2):
            rule.take(timed(block, PORTABLE, 10.0, repeat))
            if (block, repeat) != (5, 1):
                rule.take(timed(block, XLA, 5.0, repeat))
    rule.take(timed(5, XLA, 5.0))  # once more
    rule.take(timed(5, UNROLL, 1.0, 1))  # of a removed arm
    rule.take(timed(5, XLA, 5.0, 2))
    assert rule.stop_decision is None
    rule.take(timed(5, XLA, 5.0, 1))
    assert rule.stop_decision is not None


def test_a_retried_trial_is_no_new_look() -> None:
    rule = StoppingRule(AutoBlocks(0.5, 6, 60), (PORTABLE, XLA), 1)
    for block in range(6):
        rule.take(timed(block, PORTABLE, 10.0))
        rule.take(timed(block, XLA, 5.0 if block else None))
    rule.take(timed(0, XLA, 5.0))
    assert rule.stop_decision is None


@pytest.mark.parametrize("baseline", [None, UNROLL.implementation])
def test_blocks_are_complete_without_an_arm_that_was_stopped(baseline: str | None) -> None:
    rule = StoppingRule(AutoBlocks(0.5, 6, 60), (PORTABLE, XLA, UNROLL), 1, baseline)
    rule.take(timed(0, UNROLL, None))
    for block in range(6):
        rule.take(timed(block, PORTABLE, 10.0))
        if block == 3:
            rule.stop_arm(UNROLL)
        rule.take(timed(block, XLA, 5.0))
    assert rule.stop_decision is not None and rule.stop_decision.reason.startswith("every")


def test_looks_are_few_and_end_with_the_most() -> None:
    assert looks(AutoBlocks()) == (6, 8, 10, 13, 17, 22, 28, 35, 44, 55, 60)
    assert looks(AutoBlocks(least=10, most=10)) == (10,)
