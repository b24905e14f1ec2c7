"""The decision that a sweep needs no more blocks, by the widths of the speed-ups' intervals alone.

It is never made by a verdict: a sweep that stops as soon as a difference shows finds differences
too often, and too large ones. The width of an interval does not depend on where it lies, so that
the estimate has no bias.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.comparisons.speed import difference_of
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.pairs import arm_values
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, t_interval
from orchestrator.analysis.statistics.stopping_looks import confidence_for, looks
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class StopDecision:
    """The number of complete blocks after which a sweep needs no more, and the reason.

    `half_width` is that of the widest interval, as a share; None if there was no interval.
    """

    blocks: int
    half_width: float | None
    reason: str


@dataclass(slots=True)
class StoppingRule:
    """The complete blocks of a sweep, in their order, and the decision that follows from them.

    The looks depend on the outcomes and on their order alone, so that a resumed start decides as
    the one before it did.

    Args:
        auto: the required precision, and the bounds of the number of blocks.
        arms: the arms of every block.
        repeats: rounds of each block.
        baseline: the spec's choice.
    """

    auto: AutoBlocks
    arms: tuple[Arm, ...]
    repeats: int
    baseline: str | None = None
    stop_decision: StopDecision | None = None
    _outcomes: dict[str, FinishedTrial] = field(default_factory=dict)
    _ended: Counter[int] = field(default_factory=Counter)
    _complete: list[int] = field(default_factory=list)

    def take(self, finished: FinishedTrial) -> None:
        """Take an outcome; if it completes a block, decide whether that was the last one needed.

        Trials of other arms or repeats than the blocks have now are ignored.
        """
        trial = finished.trial
        if trial.arm not in self.arms or trial.repeat >= self.repeats:
            return
        if trial.key not in self._outcomes:
            self._ended[trial.block] += 1
        self._outcomes[trial.key] = finished
        whole = self._ended[trial.block] == len(self.arms) * self.repeats
        if whole and trial.block not in self._complete:
            self._complete.append(trial.block)
            self._look()

    def _look(self) -> None:
        blocks = len(self._complete)
        if self.stop_decision is not None or blocks not in looks(self.auto):
            return
        trials = [
            finished
            for finished in self._outcomes.values()
            if finished.trial.block in self._complete
        ]
        widths = half_widths(trials, self.arms, self.auto, self.baseline).values()
        numbers = [width for width in widths if width is not None]
        widest = max(numbers) if len(numbers) == len(widths) and numbers else None
        if not widths:
            self.stop_decision = StopDecision(blocks, None, "there is nothing to compare")
        elif widest is not None and widest <= self.auto.interval:
            reason = f"every speed-up is known to ± {100 * self.auto.interval:.3g} %"
            self.stop_decision = StopDecision(blocks, widest, reason)
        elif blocks >= self.auto.most:
            reason = f"{self.auto.most} are the most (blocks.at_most)"
            reason += self._never_complete(trials)
            self.stop_decision = StopDecision(blocks, widest, reason)

    def _never_complete(self, trials: Iterable[FinishedTrial]) -> str:
        """Return a clause that names the arms of fair pairs without a complete trial, if any."""
        able = {trial.trial.arm for trial in trials if trial.outcome.status == "complete"}
        paired = {arm for pair in fair_pairs(self.arms, self.baseline) for arm in pair}
        silent = [str(arm) for arm in self.arms if arm in paired - able]
        return f"; no trial of {' or '.join(silent)} completes" if silent else ""


def half_widths(
    trials: Iterable[FinishedTrial],
    arms: Sequence[Arm],
    auto: AutoBlocks,
    baseline: str | None,
) -> Mapping[Arm, float | None]:
    """Return the half-width of each fair pair's interval, as a share, by its arm.

    None for too few blocks in which both arms are complete: more may come.
    """
    record = _record(trials, arms)
    values = arm_values(match(record))
    widths: dict[Arm, float | None] = {}
    for arm, base in fair_pairs(arms, baseline):
        ratios = values.pair(arm, base).times.verdict_log_ratios
        interval = t_interval(ratios, confidence_for(auto)) if len(ratios) >= MIN_BLOCKS else None
        widths[arm] = math.expm1((interval.high - interval.low) / 2) if interval else None
    return widths


def fair_pairs(arms: Sequence[Arm], baseline: str | None) -> tuple[tuple[Arm, Arm], ...]:
    """Return each arm with the one that it is compared with, as in the report.

    Arms without a baseline, and arms of other mathematics than their baseline, are left out.
    """
    against = pick_baseline(_record((), arms), baseline)
    sides = [(arm, against.of.get(arm)) for arm in arms] if against else []
    return tuple(
        (arm, base)
        for arm, base in sides
        if base is not None and arm != base and not difference_of(arm, base)
    )


def _record(trials: Iterable[FinishedTrial], arms: Sequence[Arm]) -> SweepRecord:
    records = tuple(trials)
    blocks = len({record.block for record in records})
    return SweepRecord(
        name="", generation=1, run_id="", workload="", objectives={}, arms=tuple(arms),
        impossible=(), blocks=blocks, repeats=1, expected_trials=len(records), trials=records,
    )  # fmt: skip
