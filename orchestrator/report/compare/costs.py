"""Changes of the memory and the compile time of arms.

Peak memory is that of fresh trainers, as a warm one keeps the memory of earlier trials. The compile
time is that of warm ones, as the first trial also pays for the start of the process.
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
from orchestrator.report.compare.matching import MatchedArm, OfSides, mean

NeedVerdict = Literal["same", "more", "less", "inconclusive"]

NEEDS: Mapping[str, str] = {
    "peak_gpu_mib": "GPU memory",
    "peak_rss_mib": "memory",
    "compile_s": "time to compile",
}
"""The metrics that are compared, with their names."""

MEMORY = ("peak_gpu_mib", "peak_rss_mib")

_MEASURES = {measure.metric: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class NeedChange:
    """The change of one need of an arm.

    `ratio` is the geometric mean over configs of the need after divided by that before, with its
    plain 95 % interval: above 1 the arm needs more now. The verdict follows from `corrected`, which
    allows for the same need of the other arms. It is `same` if this interval lies within the
    margin, and `more` or `less` if it excludes 1 and the estimate is beyond the margin.
    """

    metric: str
    ratio: Estimate
    corrected: Estimate | None
    p_value: float | None
    verdict: NeedVerdict


def compare_needs(matched: Sequence[MatchedArm], margin: float) -> list[tuple[NeedChange, ...]]:
    """Compare the needs measured at two configs or more; a need of all arms is judged together."""
    needs: list[list[NeedChange]] = [[] for _ in matched]
    for metric in NEEDS:
        ratios = [_ratios(arm, metric) for arm in matched]
        logs = [list(map(math.log, of_arm)) for of_arm in ratios]
        judged = judge(logs, math.log1p(margin))
        for own, of_arm, judgement in zip(needs, ratios, judged, strict=True):
            ratio = geometric_mean(of_arm)
            if ratio is not None:
                own.append(_change(metric, ratio, judgement, margin))
    return [tuple(own) for own in needs]


def _change(metric: str, ratio: Estimate, judged: Judgement, margin: float) -> NeedChange:
    corrected = exponential(judged.corrected) if judged.corrected else None
    verdict = _verdict(ratio, judged.finding, margin)
    return NeedChange(metric, ratio, corrected, judged.p_value, verdict)


def _verdict(ratio: Estimate, finding: Finding, margin: float) -> NeedVerdict:
    beyond = abs(math.log(ratio.value)) > math.log1p(margin)
    if ratio.n < MIN_BLOCKS or (finding in ("more", "less") and not beyond):
        return "inconclusive"
    return finding


def _ratios(matched: MatchedArm, metric: str) -> list[float]:
    """Return after over before, by config, where comparable trainers measured both sides.

    If all trials had fresh trainers, all are comparable.
    """
    measure = _MEASURES[metric]
    both: OfSides = matched.usual if measure.trainer == "warm" else matched.both
    every = [trial for sides in both.values() for trials in sides for trial in trials]
    alike = all(trial.trainer_trials == 0 for trial in every)
    ratios = []
    for sides in both.values():
        one, other = (
            finite((t for t in trials if alike or measure.counts(t)), metric) for trials in sides
        )
        if one and other and min(*one, *other) > 0:
            ratios.append(mean(other) / mean(one))
    return ratios
