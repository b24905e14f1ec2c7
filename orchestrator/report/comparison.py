"""Each arm against its baseline, block by block."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.report.baseline import Baseline
from orchestrator.report.blocks import Matched, Round
from orchestrator.report.measures import TIMES
from orchestrator.report.records import SweepRecord, TrialRecord
from orchestrator.report.statistics import (
    MIN_BLOCKS,
    Estimate,
    Verdict,
    geometric_mean,
    t_interval,
    verdict,
)
from orchestrator.trial import Arm


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's values of one metric on both sides, each the mean over its shared rounds."""

    block: int
    arm: float
    baseline: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against its baseline.

    `speedup` is the geometric mean of the blocks' ratios, baseline time over the arm's time:
    above 1 the arm is faster. `accuracy_difference` is the mean of the blocks' differences,
    the arm's val_accuracy minus the baseline's. Both are None for fewer than two blocks.
    `reason` says why a verdict is `cannot tell`, and is empty otherwise.
    """

    arm: Arm
    baseline: Arm | None
    metric: str | None
    pairs: tuple[Pair, ...]
    speedup: Estimate | None
    verdict: Verdict
    reason: str
    accuracy_difference: Estimate | None


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


def compare(record: SweepRecord, matched: Matched, baseline: Baseline) -> tuple[Comparison, ...]:
    """Every arm but the baseline itself, in the order of the spec."""
    metric = time_metric(matched)
    return tuple(
        _compare(matched, arm, baseline.of.get(arm), metric)
        for arm in record.arms
        if baseline.of.get(arm) != arm
    )


def _compare(matched: Matched, arm: Arm, base: Arm | None, metric: str | None) -> Comparison:
    if base is None:
        reason = "the baseline cannot run on this hardware"
        return Comparison(arm, None, metric, (), None, "cannot tell", reason, None)
    times = _pairs(matched, arm, base, metric, _positive) if metric else ()
    speedup = geometric_mean([pair.baseline / pair.arm for pair in times])
    accuracies = _pairs(matched, arm, base, "val_accuracy", _finite)
    judged = verdict(speedup)
    reason = (
        _doubt(matched, arm, base, metric, speedup, len(times)) if judged == "cannot tell" else ""
    )
    difference = t_interval([pair.arm - pair.baseline for pair in accuracies])
    return Comparison(arm, base, metric, times, speedup, judged, reason, difference)


def _doubt(
    matched: Matched,
    arm: Arm,
    base: Arm,
    metric: str | None,
    speedup: Estimate | None,
    blocks: int,
) -> str:
    """Why nothing can be told."""
    for side in (arm, base):
        if side in matched.set_aside:
            return f"no trial of {side} is complete"
    if metric is None and matched.rounds:
        return f"neither {' nor '.join(TIMES)} was recorded on two arms"
    if speedup is None or blocks < MIN_BLOCKS:
        number = f"{blocks} block{'' if blocks == 1 else 's'}" if blocks else "no complete block"
        return f"{number}; at least {MIN_BLOCKS} are needed"
    return "the interval includes 1"


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
