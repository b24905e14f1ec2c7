"""A chart as a Plotly figure: traces and a layout without colours, which the page's theme gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from orchestrator.analysis.statistics.formatting import number
from orchestrator.report.charts import palette
from orchestrator.report.charts.chart import Axis, Band, Chart, Series
from orchestrator.report.charts.scale import reach, ticks
from orchestrator.report.formats.html.escaping import plotly_lines, plotly_text

_MOST_MARKS = 24  # on one line: its symbols tell it apart, more of them hide it
_MODES = {
    "points": "markers", "interval": "markers", "line": "lines", "marked line": "lines+markers",
}  # fmt: skip
_POINT_PX, _FAINT_PX = 10, 7


_BRIEF = 36  # signs of a name, for narrow screens


def figure(chart: Chart) -> dict[str, Any]:
    """`data` and `layout` for Plotly; `rows` are the names over each place of the axis.

    A trace's `meta` has its style, how it is drawn, and the legend entry (`group`) it goes with.
    """
    groups = {name: i for i, name in enumerate(legend_names(chart))}
    low, high = reach(chart, chart.values)
    data = [
        trace
        for series in chart.series
        for trace in _traces(chart, _within(series, low, high), groups[series.name])
    ]
    across, up = (chart.values, chart.at) if chart.sideways else (chart.at, chart.values)
    layout = {
        "xaxis": _axis(chart, across),
        "yaxis": _axis(chart, up),
        "shapes": [_shape(chart, band) for band in chart.bands],
        "barmode": "stack",
        "hovermode": "closest",
        "showlegend": False,
    }
    return {"key": chart.key, "data": data, "layout": layout, "rows": _rows(chart)}


def legend_names(chart: Chart) -> list[str]:
    """The chart's legend entries: one for all series of a name."""
    return list(dict.fromkeys(series.name for series in chart.series))


def _traces(chart: Chart, series: Series, group: int) -> Iterator[dict[str, Any]]:
    meta = {"style": series.style, "group": group, "drawn": series.drawn, "faint": series.faint}
    if series.low and "line" in series.drawn:
        yield {
            **_xy(chart, [*series.at, *series.at[::-1]], [*series.high, *series.low[::-1]]),
            "type": "scatter",
            "mode": "lines",
            "fill": "toself",
            "hoverinfo": "skip",
            "line": {"width": 0},
            "meta": {**meta, "drawn": "band"},
        }
    trace = {
        **_xy(chart, list(series.at), list(series.values)),
        "name": plotly_text(series.name),
        "meta": meta,
        "hovertext": [plotly_lines(text) for text in series.hover or _told(series)],
        "hoverinfo": "skip" if series.drawn == "interval" else "text",
    }
    if series.drawn == "bars":
        pattern = {"shape": palette.hatch(series.style), "size": 7, "solidity": 0.25}
        yield {
            **trace,
            "type": "bar",
            "orientation": "h" if chart.sideways else "v",
            "width": 0.42,
            "marker": {"pattern": pattern},
        }
        return
    yield {**trace, "type": "scatter", "cliponaxis": False, **_marks(chart, series)}


def _marks(chart: Chart, series: Series) -> dict[str, Any]:
    symbol = palette.symbol(series.style) + ("-open" if series.hollow else "")
    size = _FAINT_PX if series.faint or "line" in series.drawn else _POINT_PX
    marks: dict[str, Any] = {
        "mode": _MODES[series.drawn],
        "marker": {"symbol": symbol, "size": size, "maxdisplayed": _shown_marks(series)},
        "line": {
            "dash": palette.dash(series.style),
            "width": 2,
            "shape": "hv" if series.stepped else "linear",
        },
    }
    if series.drawn == "interval":
        marks["marker"] = {"opacity": 0, "size": 1}
    if series.low and "line" not in series.drawn:
        wide = series.drawn == "interval"
        over = [_less(h, v) for h, v in zip(series.high, series.values, strict=True)]
        under = [_less(v, low) for low, v in zip(series.low, series.values, strict=True)]
        marks[f"error_{'x' if chart.sideways else 'y'}"] = {
            "type": "data",
            "symmetric": False,
            "array": over,
            "arrayminus": under,
            "thickness": 1.5 if wide else 4,
            "width": 6 if wide else 0,
        }
    return marks


def _shown_marks(series: Series) -> int:
    """0, which is all, unless it is a line of many points."""
    many = series.drawn == "marked line" and len(series.at) > _MOST_MARKS
    return _MOST_MARKS if many else 0


def _within(series: Series, low: float, high: float) -> Series:
    """The series with its intervals cut off where the axis ends: some are endless."""

    def cut(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(min(max(value, low), high) for value in values)

    return replace(series, low=cut(series.low), high=cut(series.high))


def _less(one: float | None, other: float | None) -> float:
    return max(0.0, one - other) if one is not None and other is not None else 0.0


def _told(series: Series) -> list[str]:
    return [
        f"{series.name}: {number(value)} at {number(at)}" if value is not None else ""
        for at, value in zip(series.at, series.values, strict=True)
    ]


def _xy(chart: Chart, at: list[Any], values: list[Any]) -> dict[str, Any]:
    return {"x": values, "y": at} if chart.sideways else {"x": at, "y": values}


def _axis(chart: Chart, axis: Axis) -> dict[str, Any]:
    low, high = reach(chart, axis)
    if axis.places:
        return {"range": [high, low], "tickvals": [], "zeroline": False, "title": {"text": ""}}
    places = ticks(low, high, log=axis.log)
    ends = [math.log10(low), math.log10(high)] if axis.log else [low, high]
    return {
        "type": "log" if axis.log else "linear",
        "range": ends,
        "title": {"text": plotly_text(axis.title, 80)},
        "tickvals": list(places),
        "ticktext": [number(place) for place in places],
        "zeroline": False,
    }


def _rows(chart: Chart) -> list[dict[str, str]]:
    """The name of each place, and what stands beside its points."""
    labels = {
        int(at): label for s in chart.series for at, label in zip(s.at, s.labels, strict=False)
    }
    return [
        {
            "name": plotly_text(name),
            "brief": plotly_text(name, _BRIEF),
            "label": plotly_text(labels.get(i, ""), 80),
        }
        for i, name in enumerate(chart.at.places)
    ]


def _shape(chart: Chart, band: Band) -> dict[str, Any]:
    """A band across the plot, or a line where it has no width."""
    axis = "x" if chart.sideways == (band.along == "values") else "y"
    other = "y" if axis == "x" else "x"
    return {
        "type": "line" if band.low == band.high else "rect",
        "layer": "below",
        f"{axis}ref": axis,
        f"{axis}0": band.low,
        f"{axis}1": band.high,
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
    }
