"""The rule of `search.configs: auto`: a sweep stops once every speed-up is known precisely enough.

It looks at the widths of the intervals alone. It never looks at a verdict, which leaves the
estimates without bias (`docs/trust.md`).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from orchestrator.analysis.arms.mathematics import different_arms
from orchestrator.analysis.contrasts.answers import time_metric_of
from orchestrator.analysis.contrasts.matrix import build_matrix
from orchestrator.analysis.measures import measure_of
from orchestrator.analysis.pairing.baselines import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.estimates import LEVEL, MIN_BLOCKS, t_interval
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.selectors import names_arm
from orchestrator.core.stop_decision import EarlierDecision, StopDecision, StoppingRule
from orchestrator.core.trial import FinishedTrial
from workloads.metrics import find_metric

_GROWTH = 1.25


@functools.cache
def looks(auto: AutoBlocks) -> tuple[int, ...]:
    """Return the numbers of blocks at which the sweep may stop: 6, 8, 10, 13, 17, …"""
    counts = [auto.least]
    while counts[-1] < auto.most:
        counts.append(min(auto.most, max(counts[-1] + 2, math.ceil(_GROWTH * counts[-1]))))
    return tuple(counts)


@dataclass(slots=True)
class PrecisionReached(StoppingRule):
    """The rule that every speed-up is to be known to within ± `auto.interval`.

    It looks at a few numbers of complete blocks only (`looks`). `repeats` are the rounds of each
    block. While the sweep `awaits_arms`, it decides nothing: a part of the arms is not the sweep.

    The `figure` of a decision is the half-width of the widest interval, as a share: infinite if
    the interval of some pair is not known, and None if there is nothing to compare.
    """

    name: ClassVar[str] = "blocks"  # its key in 0.1.0, whose journals have it

    auto: AutoBlocks
    arms: tuple[Arm, ...]
    repeats: int
    baseline: str | None = None
    awaits_arms: bool = False
    _ended: dict[int, dict[str, FinishedTrial]] = field(default_factory=dict)
    _stopped: set[Arm] = field(default_factory=set)

    @property
    def running_arms(self) -> tuple[Arm, ...]:
        """The arms that are compared: those that were not stopped."""
        return tuple(arm for arm in self.arms if arm not in self._stopped)

    def add_outcome(self, finished: FinishedTrial) -> StopDecision | None:
        """Take an outcome; if it completes a block, decide whether it was the last one needed.

        Trials of other arms or repeats than the blocks have now are ignored.
        """
        trial, arms = finished.trial, self.running_arms
        size = len(arms) * self.repeats
        if trial.arm not in arms or trial.repeat >= self.repeats:
            return None
        block = self._ended.setdefault(trial.block, {})
        is_new = trial.key not in block
        block[trial.key] = finished
        if not is_new or len(block) < size or self.awaits_arms:
            return None
        complete = [trials for trials in self._ended.values() if len(trials) == size]
        if len(complete) not in looks(self.auto):
            return None
        return self._decide(
            [trial for trials in complete for trial in trials.values()], len(complete)
        )

    def stop_arm(self, arm: Arm) -> None:
        """Compare the other arms only; blocks are complete without this one."""
        self._stopped.add(arm)
        for block in self._ended.values():
            for key in [key for key, trial in block.items() if trial.arm == arm]:
                del block[key]

    def still_holds(self, earlier: EarlierDecision) -> bool:
        """Return whether what that start reached is what this spec asks for.

        It may have had nodes that are not there now: a complete sweep stays complete.
        """
        reached = earlier.decision
        has_other_arms = not set(self.arms) <= set(earlier.arms)
        if has_other_arms or earlier.baseline != self.baseline or reached.blocks < self.auto.least:
            return False
        if reached.blocks >= self.auto.most:
            return True
        if reached.figure is None:  # nothing to compare, unless the awaited arms bring something
            return not self.awaits_arms
        return reached.figure <= self.auto.interval

    def _decide(self, trials: Sequence[FinishedTrial], blocks: int) -> StopDecision | None:
        """Decide by the trials of this number of complete blocks."""
        widths = self.half_widths(trials)
        if not widths:
            return StopDecision("there is nothing to compare", None, blocks)
        widest = max(math.inf if width is None else width for width in widths.values())
        if widest <= self.auto.interval:
            reason = f"every speed-up is known to ± {100 * self.auto.interval:.3g} %"
            return StopDecision(reason, widest, blocks)
        if blocks < self.auto.most:
            return None
        able = {trial.arm for trial in trials if trial.status == "complete"}
        compared = {arm for pair in widths for arm in pair}
        silent = [str(arm) for arm in self.running_arms if arm in compared - able]
        reason = f"the limit is {self.auto.most} (search.configs.at_most)"
        reason += f"; no trial of {' or '.join(silent)} is complete" if silent else ""
        return StopDecision(reason, widest, blocks)

    def half_widths(
        self, trials: Sequence[FinishedTrial]
    ) -> Mapping[tuple[Arm, Arm], float | None]:
        """Return each pair's half-width, as a share; None for too few blocks.

        Arms of different mathematics get no verdict of speed, so no block is run for them.
        """
        arms, chosen = self.running_arms, self.baseline
        if not any(names_arm(chosen or "*", arm) for arm in arms):
            chosen = None  # the spec's baseline is stopped
        record = SweepRecord("", arms=arms, trials=tuple(trials))
        matched, baseline = match(record), pick_baseline(record, chosen)
        metric = time_metric_of(matched)
        different = different_arms(trials, baseline)
        pairs = [
            (arm, base)
            for arm, base in (baseline.pairs(arms) if baseline else ())
            if not {arm, base} & different
        ]
        if metric is None:
            return dict.fromkeys(pairs)
        matrix = build_matrix(matched, measure_of(find_metric(metric)))
        widths: dict[tuple[Arm, Arm], float | None] = {}
        for arm, base in pairs:
            is_compared = {arm, base} <= set(matrix.arms) and len(matrix.rows) >= MIN_BLOCKS
            log_ratios = matrix.combined({base: 1.0, arm: -1.0}) if is_compared else []
            interval = t_interval(log_ratios, LEVEL)
            widths[arm, base] = math.expm1((interval.high - interval.low) / 2) if interval else None
        return widths
