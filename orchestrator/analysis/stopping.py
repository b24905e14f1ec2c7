"""The decision that a sweep needs no more blocks, by the widths of the speed-ups' intervals alone.

It is never made by a verdict, which leaves the estimate without bias (`docs/statistics.md`).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.pairs import pair_arms, pick_baseline, time_metric
from orchestrator.analysis.statistics.estimates import LEVEL, MIN_BLOCKS, t_interval
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

_GROWTH = 1.25


@functools.cache
def looks(auto: AutoBlocks) -> tuple[int, ...]:
    """Return the numbers of blocks at which the sweep may stop: 6, 8, 10, 13, 17, …"""
    counts = [auto.least]
    while counts[-1] < auto.most:
        counts.append(min(auto.most, max(counts[-1] + 2, math.ceil(_GROWTH * counts[-1]))))
    return tuple(counts)


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
    """The complete blocks of a sweep, and the decision that follows from them.

    The looks depend on the outcomes and on their order alone, so that a resumed start decides as
    the one before it did. `auto` is the required precision, and `repeats` the rounds of each block.
    With `accept_provisional` speed-ups count although too few of their rounds were quiet.
    """

    auto: AutoBlocks
    arms: tuple[Arm, ...]
    repeats: int
    baseline: str | None = None
    accept_provisional: bool = False
    stop_decision: StopDecision | None = None
    _ended: dict[int, dict[str, FinishedTrial]] = field(default_factory=dict)

    def take(self, finished: FinishedTrial) -> None:
        """Take an outcome; if it completes a block, decide whether it was the last one needed.

        Trials of other arms or repeats than the blocks have now are ignored.
        """
        trial, size = finished.trial, len(self.arms) * self.repeats
        if trial.arm not in self.arms or trial.repeat >= self.repeats:
            return
        block = self._ended.setdefault(trial.block, {})
        is_new = trial.key not in block
        block[trial.key] = finished
        if is_new and len(block) == size and self.stop_decision is None:
            whole = [own for own in self._ended.values() if len(own) == size]
            if len(whole) in looks(self.auto):
                trials = [one for own in whole for one in own.values()]
                self.stop_decision = self._look(len(whole), trials)

    def stop_arm(self, arm: Arm) -> None:
        """Compare the other arms only; blocks are complete without this one."""
        self.arms = tuple(other for other in self.arms if other != arm)
        if not any(names_arm(self.baseline or "*", other) for other in self.arms):
            self.baseline = None
        for block in self._ended.values():
            for key in [key for key, trial in block.items() if trial.arm == arm]:
                del block[key]

    def _look(self, blocks: int, trials: Sequence[FinishedTrial]) -> StopDecision | None:
        widths = self.half_widths(trials)
        numbers = [width for width in widths.values() if width is not None]
        widest = max(numbers) if len(numbers) == len(widths) and numbers else None
        if not widths:
            return StopDecision(blocks, None, "there is nothing to compare")
        if widest is not None and widest <= self.auto.interval:
            reason = f"every speed-up is known to ± {100 * self.auto.interval:.3g} %"
            return StopDecision(blocks, widest, reason)
        if blocks < self.auto.most:
            return None
        able = {trial.arm for trial in trials if trial.status == "complete"}
        compared = {arm for pair in widths for arm in pair}
        silent = [str(arm) for arm in self.arms if arm in compared - able]
        reason = f"{self.auto.most} are the most (blocks.at_most)"
        reason += f"; no trial of {' or '.join(silent)} completes" if silent else ""
        return StopDecision(blocks, widest, reason)

    def half_widths(
        self, trials: Sequence[FinishedTrial]
    ) -> Mapping[tuple[Arm, Arm], float | None]:
        """Return each pair's half-width, as a share; None for too few blocks, or quiet ones."""
        record = SweepRecord("", arms=self.arms, trials=tuple(trials))
        matched, baseline = match(record), pick_baseline(record, self.baseline)
        metric = time_metric(matched)
        widths: dict[tuple[Arm, Arm], float | None] = {}
        for arm, base in baseline.pairs(self.arms) if baseline else ():
            times = pair_arms(matched, arm, base, metric).times
            counts = len(times.pairs) >= MIN_BLOCKS and (self.accept_provisional or not times.bias)
            interval = t_interval(times.log_ratios, LEVEL) if counts else None
            widths[arm, base] = math.expm1((interval.high - interval.low) / 2) if interval else None
        return widths
