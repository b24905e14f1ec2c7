"""The section on crossovers: the sizes from which on one arm is faster than another."""

import math
from collections import Counter
from collections.abc import Iterator

from orchestrator.analysis.comparisons.effects import Crossover, Region
from orchestrator.analysis.comparisons.speed import Verdict
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.statistics.regression import CurvePoint
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.document import Bullet, Kind, Section
from orchestrator.report.sections.effects import sized
from orchestrator.report.verdicts import INCONCLUSIVE, WORDS, qualified, throughout_phrase
from orchestrator.report.wording import ArmNames, absent_arms, config_phrase, grouped

_SENTENCES = 24
"""The most crossovers that have a sentence; the JSON format has the rest."""

_ROUNDING = 1e-9
"""Relative tolerance within which a size counts as whole."""

_DECIDED: tuple[Verdict, ...] = ("faster", "slower", "same")

_EXPLANATION = (
    "A straight line in the log of the param (of up to three values a level each), fitted to the "
    "log of the blocks' speed-ups and adjusted for the other params that varied. Its band has 95 % "
    "for all curves together (Bonferroni). A crossing's interval is the range in which the band "
    "includes 1 (Fieller). Nothing is extrapolated; between measured sizes this is interpolation."
)


def crossovers_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a sentence for each arm and param along which something changes; crossings first."""
    curves = summary.crossovers
    if not curves:
        return None
    changes = [c for kind in ("crosses", "partly") for c in curves if c.verdict == kind]
    has_fit = changes or any(c.verdict in _DECIDED for c in curves)
    bullets = (Bullet(Kind.CROSSES, crossover_sentence(c, name)) for c in changes[:_SENTENCES])
    return Section(
        "Crossovers",
        bullets=tuple(bullets),
        paragraphs=(
            *_notes(summary, name, len(changes) - _SENTENCES),
            *absent_arms(summary, name, {a for c in curves for a in (c.effect.arm, c.baseline)}),
        ),
        explanations=(_EXPLANATION,) if has_fit else (),
    )


def _notes(summary: ReportSummary, name: ArmNames, more: int) -> Iterator[str]:
    """Write what holds at all sizes, and what is inconclusive."""
    throughout = grouped(
        ((c.verdict, f"{_plural(c.effect.param)} ({_span(c)})"), name(c.effect.arm))
        for c in summary.crossovers
        if c.verdict in _DECIDED
    )
    for (verdict, sizes), arms in throughout.items():
        phrase = throughout_phrase(verdict).capitalize()
        yield f"{phrase} the baseline at all {sizes} tried: {', '.join(arms)}."
    if more > 0:
        yield f"{more} more are in the page and in the JSON format."
    unclear = Counter(c.effect.param for c in summary.crossovers if c.verdict == "inconclusive")
    for param, count in unclear.items():
        arms_text = counted(count, "arm")
        yield f"By {param.replace('_', ' ')}, {arms_text} {is_or_are(count)} {INCONCLUSIVE}."


def crossover_sentence(crossover: Crossover, name: ArmNames) -> str:
    """Write `from 96 units on (70–130), A is faster than B`, or another result along the param."""
    return qualified(_sentence(crossover, name), crossover.effect.qualifier)


def _sentence(crossover: Crossover, name: ArmNames) -> str:
    effect, verdict = crossover.effect, crossover.verdict
    arm, base = name(effect.arm), name(crossover.baseline)
    held = config_phrase(effect.held)
    aside = f" (at {held})" if held else ""
    if crossover.crossing:
        where, beyond = _sides(crossover, crossover.crossing)
        faster, slower = WORDS["faster"], WORDS["slower"]
        return f"{where}, {arm} is {faster} than {base}, and {slower} {beyond}{aside}"
    if verdict in ("faster", "slower", "same"):
        if verdict == "same":
            figures = _span(crossover)
        else:
            figures = ", ".join(map(_factor, (effect.curve[0], effect.curve[-1])))
        sizes = f"at all {_plural(effect.param)} tried ({figures})"
        return f"{arm} is {throughout_phrase(verdict)} {base} {sizes}{aside}"
    if verdict == "partly":
        param = effect.param.replace("_", " ")
        regions = joined(list(filter(None, (_region(r, crossover) for r in crossover.regions))))
        return f"{arm} compared with {base}, by {param}: {regions}{aside}"
    return f"{INCONCLUSIVE}: where {arm} overtakes {base} by {effect.param} ({crossover.reason})"


def _factor(point: CurvePoint) -> str:
    """Write `1.4 × at 16`: how many times as fast the faster arm is at a size."""
    return f"{number(max(point.value, 1 / point.value))} × at {number(float(point.at))}"


def _sides(crossover: Crossover, crossing: Estimate) -> tuple[str, str]:
    """Write `From 96 units on (70–130)` and `below 70`; the interval itself is undecided."""
    # If only whole sizes were tried, these are the first (or last) whole sizes at which the arm is
    # faster: there are no 1.41 layers.
    ends = (crossing.value, crossing.low, crossing.high)
    is_above = crossover.faster == "above"
    if any(float(point.at) % 1 for point in crossover.effect.points):
        value, low, high = map(number, ends)
    elif is_above:
        value, low, high = (str(math.ceil(end * (1 - _ROUNDING))) for end in ends)
    else:
        value, low, high = (str(math.floor(end * (1 + _ROUNDING))) for end in ends)
    within = f" ({low}–{high})" if low != high else ""
    at = sized(crossover.effect.param, value)
    if is_above:
        return f"From {at} on{within}", f"below {low}"
    return f"Up to {at}{within}", f"above {high}"


def _region(region: Region, crossover: Crossover) -> str:
    """Write the verdict of a range with the sizes tried in it; empty if none was tried."""
    at = {float(point.at) for point in crossover.effect.points}
    sizes = sorted(size for size in at if region.low <= size <= region.high)
    if not sizes:
        return ""
    ends = number(sizes[0]) if len(sizes) == 1 else f"{number(sizes[0])}–{number(sizes[-1])}"
    word = "as fast" if region.verdict == "same" else WORDS[region.verdict]
    return f"{word} at {ends}"


def _plural(param: str) -> str:
    """Write the plural of a param: `units`, `batch sizes`."""
    return param.replace("_", " ") + ("" if param.endswith("s") else "s")


def _span(crossover: Crossover) -> str:
    """Write the sizes tried: `16–192`; empty if there is no line."""
    regions = crossover.regions
    return f"{number(regions[0].low)}–{number(regions[-1].high)}" if regions else ""
