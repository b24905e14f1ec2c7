"""Changes of the accuracies of arms, config by config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.comparisons.accuracy import (
    AccuracyVerdict,
    accuracy_verdict,
    coarse_step,
)
from orchestrator.analysis.statistics.estimates import Estimate, t_interval
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.criteria import Margins
from orchestrator.report.compare.matching import MatchedArm
from orchestrator.report.compare.sides import Side

_SIDES = ("the later", "the earlier")


@dataclass(frozen=True, slots=True)
class AccuracyChange:
    """The mean over configs of val_accuracy after minus before; `corrected` decides the verdict.

    `diverged` and `diverged_before` count configs at which only the training of that side ended in
    numbers that are not finite. `reason` explains an inconclusive verdict, and is None otherwise.
    """

    difference: Estimate
    corrected: Estimate | None
    verdict: AccuracyVerdict
    margin: float
    diverged: int
    diverged_before: int
    reason: str | None

    @property
    def has_one_sided_divergence(self) -> bool:
        """The verdict is inconclusive, and only one side diverged at some config."""
        return bool(self.reason) and (self.diverged > 0 or self.diverged_before > 0)


def compare_accuracies(
    before: Side, after: Side, matched: Sequence[MatchedArm]
) -> list[AccuracyChange | None]:
    """Compare the accuracies of all arms together; None for an arm with fewer than two pairs."""
    margin = _margin(before, after)
    samples = (*before.validation_samples, *after.validation_samples)
    margin = coarse_step(samples, _recorded(before, after), margin) or margin
    judged = judge([arm.accuracies for arm in matched], margin)
    changes: list[AccuracyChange | None] = []
    for arm, judgement in zip(matched, judged, strict=True):
        difference = t_interval(arm.accuracies)
        if difference is None:
            changes.append(None)
            continue
        verdict, reason = accuracy_verdict(
            judgement, difference.n, arm.diverged, _SIDES, unit="config"
        )
        corrected = judgement.corrected
        changes.append(
            AccuracyChange(difference, corrected, verdict, margin, *arm.diverged, reason)
        )
    return changes


def _recorded(before: Side, after: Side) -> Iterator[float]:
    for side in (before, after):
        for trial in side.trials:
            value = trial.metrics.get("val_accuracy", math.nan)
            if trial.status == "complete" and math.isfinite(value):
                yield value


def _margin(before: Side, after: Side) -> float:
    """Return the narrower margin of the two specs, else the default."""
    given = [side.accuracy_margin for side in (before, after) if side.accuracy_margin is not None]
    return min(given, default=Margins().accuracy)
