"""The sections on crossovers along a size, and on when compiling pays off."""

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
    other_size,
    plural,
)
from orchestrator.report.wording.sentences import ArmNames

_METHOD = (
    "A straight line in the log of the param, fitted to the log of the blocks' speed-ups and "
    "adjusted for the other params that varied. Its band has 95 % for all curves together "
    "(Bonferroni). A crossing's interval is the range in which the band includes 1 (Fieller). "
    "Nothing is extrapolated; between measured sizes this is interpolation."
)
_SENTENCES = 24
"""The JSON format has the rest."""


def crossovers(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a sentence for each arm and param along which something changes; crossings first."""
    if not summary.crossovers:
        return None
    curves = summary.crossovers
    changes = [
        crossover
        for kind in ("crosses", "partly")
        for crossover in curves
        if crossover.verdict == kind
    ]
    changes += [crossover for crossover in curves if _grows(crossover)]
    bullets = tuple(
        ("crosses", crossover_sentence(crossover, name)) for crossover in changes[:_SENTENCES]
    )
    notes = [*_throughout(curves, name), *_unchanged(curves, name)]
    if bullets or notes:
        notes.append(_METHOD)
    if len(changes) > _SENTENCES:
        notes.append(f"{len(changes) - _SENTENCES} more are in the JSON format.")
    rest = [
        crossover
        for crossover in curves
        if crossover.verdict == "inconclusive" and crossover.growth is None
    ]
    if rest:
        notes.append(f"Inconclusive: {_inconclusive(rest, name)}.")
    return Section("Crossovers", bullets, paragraphs=tuple(notes))


_ALL = {"faster": "Faster than", "slower": "Slower than", "same": "As fast as"}


def _throughout(crossovers: Sequence[Crossover], name: ArmNames) -> list[str]:
    """Make `Faster than the baseline at all layers (1–3) tried: …`, a line for each verdict."""
    arms: dict[tuple[str, str], list[str]] = {}
    for crossover in crossovers:
        if crossover.throughout is not None:
            sizes = f"({number(crossover.low)}–{number(crossover.high)})"
            key = (crossover.throughout, f"{plural(crossover.param)} {sizes}")
            arms.setdefault(key, []).append(name(crossover.arm))
    return [
        f"{_ALL[verdict]} the baseline at all {tried} tried: {', '.join(own)}."
        for (verdict, tried), own in arms.items()
    ]


def _grows(crossover: Crossover) -> bool:
    """Check that the speed-up differs between the only two values."""
    growth = crossover.growth
    return growth is not None and not growth.low <= 1 <= growth.high


def _unchanged(crossovers: Sequence[Crossover], name: ArmNames) -> list[str]:
    """Make `With 2 layers instead of 1, no change of the speed-up is shown: A (0.97–1.05 ×), …`."""
    arms: dict[str, list[str]] = {}
    for crossover in crossovers:
        if crossover.growth is not None and not _grows(crossover):
            text = f"{name(crossover.arm)} ({ratio_interval(crossover.growth)} ×)"
            arms.setdefault(other_size(crossover) + aside(crossover), []).append(text)
    return [
        f"With {which}, no change of the speed-up is shown: {', '.join(own)}."
        for which, own in arms.items()
    ]


def _inconclusive(crossovers: list[Crossover], name: ArmNames) -> str:
    """Make `by layers and units (only 5 blocks …): tensorflow/cudnn, …`, for each reason."""
    arms: dict[tuple[str, str], list[str]] = {}
    for crossover in crossovers:
        key = (crossover.reason or "", crossover.param)
        arms.setdefault(key, []).append(name(crossover.arm))
    params: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, param), own in arms.items():
        params.setdefault((reason, tuple(own)), []).append(param)
    return "; ".join(
        f"by {joined(by)} ({reason}): {', '.join(own)}" for (reason, own), by in params.items()
    )


def compiling(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Report after how many steps a longer compilation pays off."""
    if not summary.break_evens:
        return None
    bullets = tuple(
        (point.verdict, break_even_sentence(point, name)) for point in summary.break_evens
    )
    fresh = summary.break_evens[0].trainers == "fresh"
    trainer = "fresh trainer, including its start" if fresh else "warm trainer"
    notes = (
        f"Seconds of compiling in a {trainer}, against milliseconds saved per step: the "
        "ratio of their means over the matched blocks, with Fieller's 95 % interval"
        + (", all of them together (Bonferroni)." if len(bullets) > 1 else "."),
    )
    return Section("Break-even of compiling", bullets, paragraphs=notes)
