"""Test the stopping rule: it depends on widths alone."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.statistics.estimates import LEVEL
from orchestrator.analysis.stopping import PrecisionReached, looks
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.stop_decision import EarlierDecision, StopDecision
from orchestrator.core.trial import FinishedTrial
from tests.building.arms import PORTABLE, UNROLL, XLA
from tests.building.trials import build_trial


def timed(block: int, arm: Arm, step_ms: float | None, repeat: int = 0) -> FinishedTrial:
    status = "failed" if step_ms is None else "complete"
    return build_trial(block, arm, repeat, step_ms=step_ms, status=status)


def first_decision(rule: PrecisionReached, trials: Iterable[FinishedTrial]) -> StopDecision | None:
    """Give a rule outcomes until it decides, as the ledger does."""
    return next((made for trial in trials if (made := rule.add_outcome(trial)) is not None), None)


def run(rule: PrecisionReached, log_ratios: Sequence[float]) -> StopDecision:
    """Take blocks, whose own times differ far more than the arms, until it stops."""
    rng = np.random.default_rng(0)
    trials = list[FinishedTrial]()
    for block, log_ratio in enumerate(log_ratios):
        base_ms = float(math.exp(rng.normal(3, 1)))
        trials += [
            timed(block, PORTABLE, base_ms),
            timed(block, XLA, base_ms / math.exp(log_ratio)),
        ]
    decision = first_decision(rule, trials)
    assert decision is not None, "it does not stop"
    return decision


def scattered(deviation: float, seed: int = 1, truth: float = 0.1) -> list[float]:
    return (truth + deviation * np.random.default_rng(seed).standard_normal(60)).tolist()


def test_a_quiet_sweep_needs_the_fewest_blocks_and_a_noisy_one_all() -> None:
    ratios = [0.1, 0.12, 0.09, 0.11, 0.1, 0.13]
    half_width = stats.t.ppf(0.5 + LEVEL / 2, 5) * np.std(ratios, ddof=1) / math.sqrt(6)
    quiet = run(PrecisionReached(AutoBlocks(0.5, 6, 60), (PORTABLE, XLA), 1), ratios)
    assert quiet.blocks == 6
    assert quiet.figure == pytest.approx(math.expm1(half_width))
    assert quiet.reason == "every speed-up is known to ± 50 %"
    noisy = run(PrecisionReached(AutoBlocks(0.02, 6, 30), (PORTABLE, XLA), 1), scattered(0.5))
    assert noisy.blocks == 30
    assert (noisy.figure or 0) > 0.02
    assert noisy.reason == "the limit is 30 (search.configs.at_most)"


def test_it_never_stops_for_a_verdict() -> None:
    equal, unlike = (
        [
            run(
                PrecisionReached(AutoBlocks(0.03), (PORTABLE, XLA), 1), scattered(0.06, seed, truth)
            ).blocks
            for seed in range(20)
        ]
        for truth in (0.0, 0.7)
    )
    assert equal == unlike
    assert len(set(equal)) > 3


ENOUGH, NOTHING = "every speed-up is known to ± 5 %", "there is nothing to compare"
NEVER = "the limit is 8 (search.configs.at_most); no trial of {} is complete"


@dataclass(frozen=True)
class Silent:
    """A sweep of quiet arms, of which one fails in the first blocks, and the decision expected."""

    name: str
    arms: tuple[Arm, ...]
    failing: Arm
    failing_blocks: int
    most_blocks: int
    blocks: int
    reason: str

    def decision(self) -> StopDecision | None:
        """Return the decision over all blocks."""
        rule = PrecisionReached(AutoBlocks(0.05, 6, self.most_blocks), self.arms, 1)
        trials = list[FinishedTrial]()
        for block in range(self.most_blocks):
            for number, arm in enumerate(self.arms, 1):
                fails = arm == self.failing and block < self.failing_blocks
                took_ms = None if fails else number * (10 + 0.001 * block)
                trials.append(timed(block, arm, took_ms))
        return first_decision(rule, trials)


SILENT = [
    Silent(
        "six configs too large for the baseline decide nothing about the blocks to come",
        (PORTABLE, XLA),
        failing=PORTABLE,
        failing_blocks=6,
        most_blocks=14,
        blocks=13,
        reason=ENOUGH,
    ),
    Silent(
        "one of three arms always fails",
        (PORTABLE, XLA, UNROLL),
        failing=UNROLL,
        failing_blocks=8,
        most_blocks=8,
        blocks=8,
        reason=NEVER,
    ),
    Silent(
        "the only arm always fails",
        (PORTABLE,),
        failing=PORTABLE,
        failing_blocks=8,
        most_blocks=8,
        blocks=6,
        reason=NOTHING,
    ),
]


@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.name)
def test_the_decision_depends_on_the_pairs_that_can_complete(case: Silent) -> None:
    decision = case.decision()
    assert decision is not None
    assert (decision.blocks, decision.reason) == (case.blocks, case.reason.format(case.failing))
    assert decision.figure is not None or case.reason == NOTHING
    assert (decision.figure == math.inf) == (case.reason == NEVER)


def test_a_block_counts_once_all_of_its_rounds_are_complete() -> None:
    rule = PrecisionReached(AutoBlocks(0.9, 6, 60), (PORTABLE, XLA), 2)
    trials = list[FinishedTrial]()
    for block in range(6):
        for repeat in range(2):
            trials.append(timed(block, PORTABLE, 10.0, repeat))
            if (block, repeat) != (5, 1):
                trials.append(timed(block, XLA, 5.0, repeat))
    trials.append(timed(5, XLA, 5.0))  # once more
    trials.append(timed(5, UNROLL, 1.0, 1))  # of a removed arm
    trials.append(timed(5, XLA, 5.0, 2))
    assert first_decision(rule, trials) is None
    assert rule.add_outcome(timed(5, XLA, 5.0, 1)) is not None


def test_a_retried_trial_is_no_new_look() -> None:
    rule = PrecisionReached(AutoBlocks(0.5, 6, 60), (PORTABLE, XLA), 1)
    trials = list[FinishedTrial]()
    for block in range(6):
        trials.append(timed(block, PORTABLE, 10.0))
        trials.append(timed(block, XLA, 5.0 if block else None))
    trials.append(timed(0, XLA, 5.0))
    assert first_decision(rule, trials) is None


def test_blocks_are_complete_without_an_arm_that_was_stopped() -> None:
    auto, arms = AutoBlocks(0.5, 6, 60), (PORTABLE, XLA, UNROLL)
    rule = PrecisionReached(auto, arms, 1, UNROLL.implementation)
    rule.add_outcome(timed(0, UNROLL, None))
    decision = None
    for block in range(6):
        rule.add_outcome(timed(block, PORTABLE, 10.0))
        if block == 3:
            rule.stop_arm(UNROLL)
        decision = rule.add_outcome(timed(block, XLA, 5.0))
    assert decision is not None and decision.reason.startswith("every")


@dataclass(frozen=True)
class Earlier:
    """A decision of an earlier start, what differs now, and whether the decision still holds."""

    name: str
    holds: bool
    figure: float | None = 0.04
    blocks: int = 7
    most: int = 20
    least: int = 6
    arms: tuple[Arm, ...] = (PORTABLE, XLA)
    baseline: str | None = None
    awaits_arms: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Earlier("a part of its nodes is there", True, arms=(PORTABLE,), awaits_arms=True),
        Earlier("less precise than asked now", False, figure=0.06),
        Earlier("fewer blocks than asked now", False, least=8),
        Earlier("another baseline", False, baseline="tensorflow/xla"),
        Earlier("some interval was never known", False, figure=math.inf),
        Earlier("these are the most blocks", True, math.inf, most=7),
        Earlier("nothing to compare, and arms may come", False, figure=None, awaits_arms=True),
    ],
    ids=lambda case: case.name,
)
def test_a_recorded_decision_holds_as_long_as_it_is_what_the_spec_asks_for(case: Earlier) -> None:
    auto = AutoBlocks(0.05, case.least, case.most)
    rule = PrecisionReached(auto, case.arms, 1, case.baseline, awaits_arms=case.awaits_arms)
    decision = StopDecision("as it was", case.figure, case.blocks, rule.name)
    assert rule.still_holds(EarlierDecision(decision, (PORTABLE, XLA), None)) == case.holds


def test_looks_are_few_and_end_with_the_most() -> None:
    assert looks(AutoBlocks()) == (6, 8, 10, 13, 17, 22, 28, 35, 44, 55, 60)
    assert looks(AutoBlocks(least=10, most=10)) == (10,)
