"""What became of each arm's accuracy, config by config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.comparisons.accuracy import AccuracyVerdict, accuracy_verdict
from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate
from orchestrator.analysis.statistics.stepped import Steps, coarse_step, stepped_interval
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.criteria import Margins
from orchestrator.report.compare.matching import Seen
from orchestrator.report.compare.sides import Side

_WHOSE = ("the later", "the earlier")


@dataclass(frozen=True, slots=True)
class AccuracyChange:
    """The mean over configs of val_accuracy after minus before; read from `corrected`.

    `diverged` and `diverged_before` count configs at which the training of that side alone ended in
    numbers that are not finite; `reason` says why nothing can be told, and is empty otherwise.
    """

    difference: Estimate
    corrected: Estimate | None
    verdict: AccuracyVerdict
    margin: float
    diverged: int
    diverged_before: int
    reason: str | None

    @property
    def is_spoilt(self) -> bool:
        """Whether nothing can be told, and one side diverged where the other did not."""
        return bool(self.reason) and (self.diverged > 0 or self.diverged_before > 0)


def compare_accuracies(
    before: Side, after: Side, seen: Sequence[Seen]
) -> list[AccuracyChange | None]:
    """Each arm's accuracies, judged together; None for one of which fewer than two are known."""
    margin = _margin(before, after)
    samples = (*before.validation_samples, *after.validation_samples)
    step = coarse_step(samples, _known(before, after), margin)
    judged = judge([each.accuracies for each in seen], margin, step=step)
    steps = Steps.at(step, 1 - CONFIDENCE)
    changes: list[AccuracyChange | None] = []
    for each, judgement in zip(seen, judged, strict=True):
        difference = stepped_interval(each.accuracies, CONFIDENCE, steps)
        if difference is None:
            changes.append(None)
            continue
        verdict, reason = accuracy_verdict(
            judgement, difference.n, each.diverged, _WHOSE, unit="config"
        )
        corrected = judgement.corrected
        changes.append(
            AccuracyChange(difference, corrected, verdict, margin, *each.diverged, reason)
        )
    return changes


def _known(before: Side, after: Side) -> Iterator[float]:
    for side in (before, after):
        for trial in side.trials:
            value = trial.metrics.get("val_accuracy", math.nan)
            if trial.status == "complete" and math.isfinite(value):
                yield value


def _margin(before: Side, after: Side) -> float:
    """What the sweeps' own specs say, the narrower of the two; else the default."""
    known = [side.accuracy_margin for side in (before, after) if side.accuracy_margin is not None]
    return min(known, default=Margins().accuracy)
