"""Each arm's speed-up over its baseline, its interval, and the margin within which all is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Band, Chart, Series
from orchestrator.report.document import Table
from orchestrator.report.wording.sentences import ArmNames, verdict_sentence

SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""So that a verdict is not told by colour alone."""

_AXIS = "speed-up over the baseline (×, logarithmic)"


def speedups(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """One plot of all comparisons; none where nothing could be compared."""
    found = [each for each in summary.comparisons if each.speedup is not None]
    if not found:
        return []
    margin = found[0].margin
    bands = (
        Band(1 / (1 + margin), 1 + margin, f"same within {100 * margin:g} %"),
        Band(1, 1, "as fast as the baseline"),
    )
    rows = tuple(
        (name(each.arm), name(each.baseline) if each.baseline else "", ratio(each.speedup),
         str(len(each.pairs)), each.verdict)
        for each in found
    )  # fmt: skip
    headers = ("arm", "baseline", "speed-up (95 %)", "blocks", "verdict")
    two = any(read_from(each) != each.speedup for each in found)
    axis = "speed-up (×, logarithmic); thin: corrected" if two else _AXIS
    return [
        Chart(
            key="speedups",
            part="speed",
            title="Speed-up with its 95 % interval",
            told="; ".join(
                f"{name(each.arm)}: {each.verdict}, {ratio(read_from(each))}" for each in found
            )
            + ".",
            at=Axis("", places=tuple(name(each.arm) for each in found)),
            values=Axis(axis, log=True),
            series=tuple(
                series
                for place, each in enumerate(found)
                for series in _row(place, each, name, styles[each.arm])
            ),
            table=Table(headers, rows, frozenset({2, 3})),
            bands=bands,
            sideways=True,
        )
    ]


def read_from(comparison: Comparison) -> Estimate | None:
    """The interval that bears the verdict out, and so the one to stand beside it."""
    return comparison.corrected or comparison.speedup


def _row(place: int, each: Comparison, name: ArmNames, style: int) -> Iterator[Series]:
    """The plain interval at the point, and about it the one from which the verdict is read."""
    assert each.speedup is not None  # only those are drawn
    told = SIGNS[each.verdict] + f" {each.verdict}: {ratio(read_from(each))}"
    if each.corrected is not None:
        yield Series(
            name=name(each.arm),
            style=style,
            drawn="interval",
            at=(place,),
            values=(each.corrected.value,),
            low=(each.corrected.low,),
            high=(each.corrected.high,),
        )
    yield Series(
        name=name(each.arm),
        style=style,
        drawn="points",
        at=(place,),
        values=(each.speedup.value,),
        low=(each.speedup.low,),
        high=(each.speedup.high,),
        labels=(told,),
        hover=(verdict_sentence(each, name),),
        hollow=each.verdict == "inconclusive",
    )
