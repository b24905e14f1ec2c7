"""Two arms side by side: their times and accuracies, paired block by block."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.report.blocks import Matched, Round
from orchestrator.report.measures import TIMES
from orchestrator.report.records import TrialRecord
from orchestrator.report.statistics import Estimate, geometric_mean, t_interval
from orchestrator.selector import work_of
from orchestrator.trial import Arm

_WHATEVER_WORK = ("step_ms",)
"""Of the times that speed is told by, those that do not grow with the amount of work."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's values of one metric on both sides, each the mean over its shared rounds."""

    block: int
    arm: float
    baseline: float
    rounds: int


def time_metric(matched: Matched) -> str | None:
    """What speed-ups are told by: the first of `TIMES` that at least two arms measured.

    `step_ms` is training time per sample but for the batch size, which the arms of a block
    share, so that the ratio is the same.
    """
    for metric in TIMES:
        measured = [
            any(_positive(t.metrics.get(metric)) for ts in rounds.values() for t in ts)
            for rounds in matched.trials.values()
        ]
        if sum(measured) >= 2:
            return metric
    return None


def measured(
    matched: Matched, arm: Arm, base: Arm, metric: str | None
) -> tuple[tuple[Pair, ...], Estimate | None, Estimate | None]:
    """The blocks' times, and what they and the accuracies add up to.

    Returns:
        The pairs of times; the geometric mean of their ratios, the baseline's time over the
        arm's; the mean difference in val_accuracy, the arm's minus the baseline's. Means are
        None for fewer than two blocks. Between arms that did unlike amounts of work only times per
    step are compared.
    """
    alike = work_of(arm) == work_of(base)
    comparable = metric if alike or metric in _WHATEVER_WORK else None
    times = _pairs(matched, arm, base, comparable, _positive) if comparable else ()
    accuracies = _pairs(matched, arm, base, "val_accuracy", _finite) if alike else ()
    return (
        times,
        geometric_mean([pair.baseline / pair.arm for pair in times]),
        t_interval([pair.arm - pair.baseline for pair in accuracies]),
    )


def _pairs(
    matched: Matched,
    arm: Arm,
    base: Arm,
    metric: str,
    usable: Callable[[float | None], bool],
) -> tuple[Pair, ...]:
    """The blocks in which both arms have the metric, over the rounds in which both have it."""
    ours, theirs = (_by_round(matched.trials.get(side, {}), metric, usable) for side in (arm, base))
    blocks: dict[int, list[Round]] = defaultdict(list)
    for shared in sorted(ours.keys() & theirs.keys()):
        blocks[shared[0]].append(shared)
    return tuple(
        Pair(
            block, _mean([ours[r] for r in rounds]), _mean([theirs[r] for r in rounds]), len(rounds)
        )
        for block, rounds in blocks.items()
    )


def _by_round(
    rounds: dict[Round, list[TrialRecord]], metric: str, usable: Callable[[float | None], bool]
) -> dict[Round, float]:
    values = {
        r: [t.metrics[metric] for t in trials if usable(t.metrics.get(metric))]
        for r, trials in rounds.items()
    }
    return {r: _mean(found) for r, found in values.items() if found}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
