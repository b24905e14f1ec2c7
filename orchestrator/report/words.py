"""The words of verdicts and the phrases of contrasts, wherever they are shown."""

import math
from collections.abc import Mapping

from orchestrator.analysis.contrasts.contrast import Contrast, Qualifier, Scale, Verdict
from orchestrator.analysis.statistics.formatting import (
    difference,
    difference_value,
    ratio,
    ratio_value,
)
from orchestrator.core.disturbance import Disturbance, disturbance_text, load_pct
from workloads.metrics import find_metric

TIME_WORDS: Mapping[Verdict, str] = {
    Verdict.BETTER: "faster",
    Verdict.WORSE: "slower",
    Verdict.SAME: "same",
    Verdict.OPEN: "open",
}
"""How the verdict on a time reads."""

MEMORY_WORDS: Mapping[Verdict, str] = {
    Verdict.BETTER: "smaller",
    Verdict.WORSE: "larger",
    Verdict.SAME: "same",
    Verdict.OPEN: "open",
}
"""How the verdict on a memory reads."""

WORDS: Mapping[Verdict, str] = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.SAME: "same",
    Verdict.OPEN: "open",
}
"""How the verdict on anything else reads."""

QUALIFIERS: Mapping[Qualifier, str] = {
    Qualifier.FEW: "few",
    Qualifier.BUSY: "busy",
    Qualifier.UNLIKE_WORK: "unlike work",
    Qualifier.OTHER_MATHEMATICS: "other mathematics",
}
"""How each qualifier of a verdict reads, in brackets after it."""


def verdict_label(contrast: Contrast) -> str:
    """Return the verdict for a table: `slower`, `slower (busy)`, `open (few)`."""
    word = verdict_word(contrast)
    return f"{word} ({QUALIFIERS[contrast.qualifier]})" if contrast.qualifier else word


def verdict_word(contrast: Contrast) -> str:
    """Return the verdict alone: `faster` of a time, `smaller` of a memory, otherwise `better`."""
    return _words_of(contrast.metric)[contrast.verdict]


def _words_of(metric: str) -> Mapping[Verdict, str]:
    match find_metric(metric).unit:
        case "s" | "ms" | "µs":
            return TIME_WORDS
        case "MiB":
            return MEMORY_WORDS
    return WORDS


def effect_text(contrast: Contrast, *, with_interval: bool = True) -> str:
    """Return how much better: `1.55 × (1.18–2.04)`, below 1 if worse; or `-0.002 (…)`."""
    estimate = contrast.estimate
    if contrast.scale == Scale.DIFFERENCE:
        return difference(estimate) if with_interval else difference_value(estimate)
    return ratio(estimate) if with_interval else ratio_value(estimate)


def range_text(contrast: Contrast) -> str | None:
    """Return the single configs' values: `1.1–2.6 ×`; None for one config."""
    if contrast.blocks < 2 or not all(map(math.isfinite, (contrast.lowest, contrast.highest))):
        return None
    digits = max(0, 1 - math.floor(math.log10(contrast.lowest))) if contrast.lowest > 0 else 1
    low, high = (f"{end:.{min(digits, 3)}f}" for end in (contrast.lowest, contrast.highest))
    return f"{low} ×" if low == high else f"{low}–{high} ×"


def busy_text(disturbance: Disturbance) -> str:
    """Return `other processes took 41 % of the CPUs`, or the causes if no load is known."""
    load = load_pct(disturbance)
    if load is None:
        return disturbance_text(disturbance) or ""
    return f"other processes took {load:.0f} % of the CPUs"
