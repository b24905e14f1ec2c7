"""A chart as a Plotly figure: traces and a layout; the theme of the page adds the colours."""

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

_MOST_MARKS = 24  # on one line: a few symbols identify it, more would hide it
_MODES = {
    "points": "markers", "interval": "markers", "line": "lines", "marked line": "lines+markers",
}  # fmt: skip
_POINT_PX, _FAINT_PX = 10, 7


_BRIEF = 36  # characters of a name, for narrow screens


def figure(chart: Chart) -> dict[str, Any]:
    """Return `data` and `layout` for Plotly, and `rows`, the names of the axis' categories.

    The `meta` of a trace has its style, its mark, and its legend entry (`group`).
    """
    groups = {name: i for i, name in enumerate(legend_names(chart))}
    low, high = reach(chart, chart.values)
    data = [
        trace
        for series in chart.series
        for trace in _traces(chart, _within(series, low, high), groups[series.name])
    ]
    across, up = chart.positions, chart.values
    if chart.sideways:
        across, up = up, across
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
    """Return the legend entries of a chart: one for all series of a name."""
    return list(dict.fromkeys(series.name for series in chart.series))


def _traces(chart: Chart, series: Series, group: int) -> Iterator[dict[str, Any]]:
    meta = {"style": series.style, "group": group, "mark": series.mark, "faint": series.faint}
    if series.low and "line" in series.mark:
        yield {
            **_xy(
                chart,
                [*series.positions, *series.positions[::-1]],
                [*series.high, *series.low[::-1]],
            ),
            "type": "scatter",
            "mode": "lines",
            "fill": "toself",
            "hoverinfo": "skip",
            "line": {"width": 0},
            "meta": {**meta, "mark": "band"},
        }
    trace = {
        **_xy(chart, list(series.positions), list(series.values)),
        "name": plotly_text(series.name),
        "meta": meta,
        "hovertext": [plotly_lines(text) for text in series.hover or _hover(series)],
        "hoverinfo": "skip" if series.mark == "interval" else "text",
    }
    if series.mark == "bars":
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
    size = _FAINT_PX if series.faint or "line" in series.mark else _POINT_PX
    marks: dict[str, Any] = {
        "mode": _MODES[series.mark],
        "marker": {"symbol": symbol, "size": size, "maxdisplayed": _shown_marks(series)},
        "line": {
            "dash": palette.dash(series.style),
            "width": 2,
            "shape": "hv" if series.stepped else "linear",
        },
    }
    if series.mark == "interval":
        marks["marker"] = {"opacity": 0, "size": 1}
    if series.low and "line" not in series.mark:
        wide = series.mark == "interval"
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
    """Return the most symbols to draw on a line of many points; otherwise 0, which means all."""
    many = series.mark == "marked line" and len(series.positions) > _MOST_MARKS
    return _MOST_MARKS if many else 0


def _within(series: Series, low: float, high: float) -> Series:
    """Return the series with its intervals cut off at the ends of the axis: some are infinite."""

    def cut(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(min(max(value, low), high) for value in values)

    return replace(series, low=cut(series.low), high=cut(series.high))


def _less(one: float | None, other: float | None) -> float:
    return max(0.0, one - other) if one is not None and other is not None else 0.0


def _hover(series: Series) -> list[str]:
    return [
        f"{series.name}: {number(value)} at {number(at)}" if value is not None else ""
        for at, value in zip(series.positions, series.values, strict=True)
    ]


def _xy(chart: Chart, at: list[Any], values: list[Any]) -> dict[str, Any]:
    return {"x": values, "y": at} if chart.sideways else {"x": at, "y": values}


def _axis(chart: Chart, axis: Axis) -> dict[str, Any]:
    low, high = reach(chart, axis)
    if axis.categories:
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
    """Return the names of the categories, with the labels of their points."""
    labels = {
        int(position): label
        for series in chart.series
        for position, label in zip(series.positions, series.labels, strict=False)
    }
    return [
        {
            "name": plotly_text(name),
            "brief": plotly_text(name, _BRIEF),
            "label": plotly_text(labels.get(i, ""), 80),
        }
        for i, name in enumerate(chart.positions.categories)
    ]


def _shape(chart: Chart, band: Band) -> dict[str, Any]:
    """Return a band across the plot, or a line if it has no width."""
    axis = "x" if chart.sideways == (band.axis == "values") else "y"
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
