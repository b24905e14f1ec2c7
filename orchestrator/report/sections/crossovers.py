"""The section on what changes along a size, and on what compiling pays for."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.statistics.formatting import joined, number, ratio_interval
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section
from orchestrator.report.wording.answers import break_even_sentence
from orchestrator.report.wording.crossovers import (
    aside,
    crossover_sentence,
    not_allowed_for,
    other_size,
    plural,
)
from orchestrator.report.wording.sentences import ArmNames

_METHOD = (
    "A regression of the log of the blocks' speed-ups on the log of the param, the other params "
    "that varied beside it (but for those that a sentence names), with its 95 % band; a crossing's "
    "interval are the values at which the band holds 1 (Fieller). Only between the sizes tried; "
    "what holds at sizes in between is the curve's word, not a block's."
)
_SENTENCES = 24
"""More are in the JSON format."""


def crossovers(summary: ReportSummary, name: ArmNames) -> Section | None:
    """A sentence for each arm and param along which something changes; crossings first."""
    if not summary.crossovers:
        return None
    found = summary.crossovers
    told = [each for kind in ("crosses", "partly") for each in found if each.verdict == kind]
    told += [each for each in found if _grows(each)]
    bullets = tuple(("crosses", crossover_sentence(each, name)) for each in told[:_SENTENCES])
    notes = [*_throughout(found, name), *_unmoved(found, name)]
    if bullets or notes:
        notes.append(_METHOD)
    if len(told) > _SENTENCES:
        notes.append(f"{len(told) - _SENTENCES} more are in the JSON format.")
    rest = [each for each in found if each.verdict == "inconclusive" and each.growth is None]
    if rest:
        notes.append(f"Cannot tell: {_untold(rest, name)}.")
    return Section("Along the sizes", bullets, paragraphs=tuple(notes))


_ALL = {"faster": "Faster than", "slower": "Slower than", "same": "As fast as"}


def _throughout(found: Sequence[Crossover], name: ArmNames) -> list[str]:
    """`Faster at all layers (1–3) tried: …`, for each verdict, param and what is left out."""
    arms: dict[tuple[str, str, str], list[str]] = {}
    for each in found:
        which, _, rest = each.verdict.partition(" ")
        if rest == "throughout":
            tried = f"{plural(each.param)} ({number(each.low)}–{number(each.high)})"
            but = f" ({told})" if (told := not_allowed_for(each)) else ""
            arms.setdefault((which, tried, but), []).append(name(each.arm))
    return [
        f"{_ALL[which]} the baseline at all {tried} tried{but}: {', '.join(own)}."
        for (which, tried, but), own in arms.items()
    ]


def _grows(found: Crossover) -> bool:
    """Whether the speed-up is known to differ between the only two values."""
    growth = found.growth
    return growth is not None and not growth.low <= 1 <= growth.high


def _unmoved(found: Sequence[Crossover], name: ArmNames) -> list[str]:
    """`With 2 layers instead of 1 the speed-up is not shown to change: A (0.97–1.05 ×), …`."""
    arms: dict[str, list[str]] = {}
    for each in found:
        if each.growth is not None and not _grows(each):
            told = f"{name(each.arm)} ({ratio_interval(each.growth)} ×)"
            arms.setdefault(other_size(each) + aside(each), []).append(told)
    return [
        f"With {which}, the speed-up is not shown to change: {', '.join(own)}."
        for which, own in arms.items()
    ]


def _untold(crossovers: list[Crossover], name: ArmNames) -> str:
    """`by layers and units (only 5 blocks …): tensorflow/cudnn, …`, for each reason."""
    arms: dict[tuple[str, str], list[str]] = {}
    for each in crossovers:
        arms.setdefault((each.reason, each.param), []).append(name(each.arm))
    params: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, param), own in arms.items():
        params.setdefault((reason, tuple(own)), []).append(param)
    return "; ".join(
        f"by {joined(by)} ({reason}): {', '.join(own)}" for (reason, own), by in params.items()
    )


def compiling(summary: ReportSummary, name: ArmNames) -> Section | None:
    """After how many steps a longer compilation has paid for itself."""
    if not summary.break_evens:
        return None
    bullets = tuple((each.verdict, break_even_sentence(each, name)) for each in summary.break_evens)
    fresh = summary.break_evens[0].trainers == "fresh"
    trainer = "fresh trainer, its start included" if fresh else "warm trainer"
    notes = (
        f"Seconds of compiling in a {trainer}, against milliseconds that a step is shorter: the "
        "ratio of their means over the matched blocks, with Fieller's 95 % interval"
        + (", all of them together (Bonferroni)." if len(bullets) > 1 else "."),
    )
    return Section("Does compiling pay", bullets, paragraphs=notes)
