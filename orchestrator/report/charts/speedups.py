"""The plot of speed-ups over the baseline, with intervals and the margin of sameness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Band, Chart, Series
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames, verdict_sentence

SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""The signs of verdicts, so that colour is not their only mark."""

_AXIS = "speed-up over the baseline (×, logarithmic)"


def speedups(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a plot of all comparisons; an empty list if nothing could be compared."""
    compared = [comparison for comparison in summary.comparisons if comparison.speedup is not None]
    if not compared:
        return []
    margin = compared[0].margin
    bands = (
        Band(1 / (1 + margin), 1 + margin, f"same within {100 * margin:g} %"),
        Band(1, 1, "as fast as the baseline"),
    )
    rows = tuple(
        (
            name(comparison.arm),
            name(comparison.baseline) if comparison.baseline else "",
            ratio(comparison.speedup),
            str(len(comparison.pairs)),
            comparison.verdict,
        )
        for comparison in compared
    )
    headers = ("arm", "baseline", "speed-up (95 %)", "blocks", "verdict")
    has_corrected = any(
        deciding_interval(comparison) != comparison.speedup for comparison in compared
    )
    axis = "speed-up (×, logarithmic); thin: corrected" if has_corrected else _AXIS
    return [
        Chart(
            key="speedups",
            part="speed",
            title="Speed-up with its 95 % interval",
            description="; ".join(_description(comparison, name) for comparison in compared) + ".",
            positions=Axis("", categories=tuple(name(comparison.arm) for comparison in compared)),
            values=Axis(axis, log=True),
            series=tuple(
                series
                for place, comparison in enumerate(compared)
                for series in _row(place, comparison, name, styles[comparison.arm])
            ),
            table=Table(headers, rows, frozenset({2, 3})),
            bands=bands,
            sideways=True,
        )
    ]


def _description(comparison: Comparison, name: ArmNames) -> str:
    shown = ratio(deciding_interval(comparison))
    return f"{name(comparison.arm)}: {comparison.verdict}, {shown}"


def deciding_interval(comparison: Comparison) -> Estimate | None:
    """Return the interval that decides the verdict: the corrected one, if there is one."""
    return comparison.corrected or comparison.speedup


def _row(place: int, comparison: Comparison, name: ArmNames, style: int) -> Iterator[Series]:
    """Draw the plain interval at the point, and around it the one that decides the verdict."""
    assert comparison.speedup is not None  # only those are drawn
    label = (
        SIGNS[comparison.verdict] + f" {comparison.verdict}: {ratio(deciding_interval(comparison))}"
    )
    if comparison.corrected is not None:
        yield Series(
            name=name(comparison.arm),
            style=style,
            mark="interval",
            positions=(place,),
            values=(comparison.corrected.value,),
            low=(comparison.corrected.low,),
            high=(comparison.corrected.high,),
        )
    yield Series(
        name=name(comparison.arm),
        style=style,
        mark="points",
        positions=(place,),
        values=(comparison.speedup.value,),
        low=(comparison.speedup.low,),
        high=(comparison.speedup.high,),
        labels=(label,),
        hover=(verdict_sentence(comparison, name),),
        hollow=comparison.verdict == "inconclusive",
    )
