"""What an arm needs besides time per step, on both sides: memory, and the time to compile.

Peak memory is that of fresh trainers, as a warm one keeps what came before; the time to compile
that of warm ones, as the first one pays for the start of the process as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.metrics.derived import finite
from orchestrator.analysis.metrics.measures import MEASURES
from orchestrator.analysis.statistics.estimates import (
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
)
from orchestrator.analysis.statistics.verdicts import Finding, Judgement, judge
from orchestrator.report.compare.matching import OfSides, Seen, mean

NeedVerdict = Literal["same", "more", "less", "inconclusive"]

NEEDS: Mapping[str, str] = {
    "peak_gpu_mib": "GPU memory",
    "peak_rss_mib": "memory",
    "compile_s": "time to compile",
}
"""The metrics that are compared, each with what it is a need of."""

MEMORY = ("peak_gpu_mib", "peak_rss_mib")

_MEASURES = {measure.metric: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class NeedChange:
    """What became of one need of an arm.

    `ratio` is the geometric mean over configs of the need after over that before, with its plain
    95 % interval: above 1 it needs more now. The verdict is read from `corrected`, which allows for
    the same need of the other arms: `same` is wholly within the margin, `more` and `less` exclude 1
    and are, by their estimate, beyond it.
    """

    metric: str
    ratio: Estimate
    corrected: Estimate | None
    p_value: float | None
    verdict: NeedVerdict


def compare_needs(seen: Sequence[Seen], margin: float) -> list[tuple[NeedChange, ...]]:
    """The needs of each arm that are known of two configs or more; each judged over all arms."""
    found: list[list[NeedChange]] = [[] for _ in seen]
    for metric in NEEDS:
        ratios = [_ratios(each, metric) for each in seen]
        logs = [list(map(math.log, each)) for each in ratios]
        judged = judge(logs, math.log1p(margin))
        for own, of_arm, judgement in zip(found, ratios, judged, strict=True):
            ratio = geometric_mean(of_arm)
            if ratio is not None:
                own.append(_change(metric, ratio, judgement, margin))
    return [tuple(own) for own in found]


def _change(metric: str, ratio: Estimate, judged: Judgement, margin: float) -> NeedChange:
    corrected = exponential(judged.corrected) if judged.corrected else None
    verdict = _verdict(ratio, judged.finding, margin)
    return NeedChange(metric, ratio, corrected, judged.p_value, verdict)


def _verdict(ratio: Estimate, finding: Finding, margin: float) -> NeedVerdict:
    beyond = abs(math.log(ratio.value)) > math.log1p(margin)
    if ratio.n < MIN_BLOCKS or (finding in ("more", "less") and not beyond):
        return "inconclusive"
    return finding


def _ratios(seen: Seen, metric: str) -> list[float]:
    """After over before, at each config where comparable trainers measured it on both sides.

    Where every trial had a fresh trainer all of them are alike.
    """
    measure = _MEASURES[metric]
    both: OfSides = seen.usual if measure.trainer == "warm" else seen.both
    every = [trial for sides in both.values() for trials in sides for trial in trials]
    alike = all(trial.trainer_trials == 0 for trial in every)
    found = []
    for sides in both.values():
        one, other = (
            finite((t for t in trials if alike or measure.counts(t)), metric) for trials in sides
        )
        if one and other and min(*one, *other) > 0:
            found.append(mean(other) / mean(one))
    return found
