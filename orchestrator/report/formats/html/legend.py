"""The legends of the page's plots: an entry for each name, with its symbol, dashes or hatching."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.charts import palette
from orchestrator.report.charts.chart import Chart
from orchestrator.report.formats.html.figure import legend_names

_SYMBOLS = {
    "circle": "M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0Z",
    "square": "M-4.5 -4.5H4.5V4.5H-4.5Z",
    "diamond": "M0 -6L6 0L0 6L-6 0Z",
    "triangle-up": "M0 -5.5L5.8 4.5H-5.8Z",
    "triangle-down": "M0 5.5L5.8 -4.5H-5.8Z",
    "cross": "M-2 -5.5H2V-2H5.5V2H2V5.5H-2V2H-5.5V-2H-2Z",
    "x": "M-5.5 -3L-3 -5.5L0 -2.5L3 -5.5L5.5 -3L2.5 0L5.5 3L3 5.5L0 2.5L-3 5.5L-5.5 3L-2.5 0Z",
    "star": "M0 -6L1.5 -2H5.7L2.3 .6L3.5 5L0 2.4L-3.5 5L-2.3 .6L-5.7 -2H-1.5Z",
    "pentagon": "M0 -6L5.7 -1.9L3.5 4.9H-3.5L-5.7 -1.9Z",
    "hexagram": "M0 -6L1.7 -3H5.2L3.5 0L5.2 3H1.7L0 6L-1.7 3H-5.2L-3.5 0L-5.2 -3H-1.7Z",
}
_DASHES = {"solid": "", "dash": "7 3", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4"}
_HATCHES = {
    "": "", "/": "M0 6L6 0", "\\": "M0 0L6 6", "x": "M0 0L6 6M0 6L6 0", "-": "M0 3H6",
    "|": "M3 0V6", "+": "M0 3H6M3 0V6", ".": "M2 3H4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A legend entry with SVG paths; `dash` is set for lines, and `hatch` for bars."""

    id: str
    name: str
    colour: int
    symbol: str
    hollow: bool
    dash: str | None
    hatch: str | None


def entries(chart: Chart) -> list[LegendEntry]:
    """Return the legend of a chart, in the order of its series."""
    return [_entry(chart, i, name) for i, name in enumerate(legend_names(chart))]


def _entry(chart: Chart, place: int, name: str) -> LegendEntry:
    own = [series for series in chart.series if series.name == name]
    style, marks = own[0].style, {series.mark for series in own}
    lines = marks & {"line", "marked line"}
    return LegendEntry(
        id=f"hatch-{chart.key}-{place}",
        name=name,
        colour=style % len(palette.LIGHT),
        symbol="" if marks <= {"line", "bars"} else _SYMBOLS[palette.symbol(style)],
        hollow=any(series.hollow for series in own),
        dash=_DASHES[palette.dash(style)] if lines else None,
        hatch=_HATCHES[palette.hatch(style)] if "bars" in marks else None,
    )
