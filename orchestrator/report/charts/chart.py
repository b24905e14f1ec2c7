"""A chart: a Vega-Lite definition by Altair, which the page and image files draw alike.

Colours are tokens (`var(--ink)`), which are CSS variables on the page and the light theme's colours
in files. All texts are data: Vega draws them as they are, without markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from orchestrator.report.document import Table, visible

LIGHT = (
    "#0067b1", "#c8500a", "#00795c", "#a8478f", "#8a6800", "#2585b4", "#4f5661", "#a3213b",
)  # fmt: skip
DARK = (
    "#5ab4f0", "#ff9d5c", "#3dcfa6", "#e29bd0", "#e3c043", "#9fdcf5", "#c3cad4", "#ff8a94",
)  # fmt: skip
"""Colours that distinguish arms on white and on black.

The hues follow Okabe and Ito's palette for colour-blind readers ("Color universal design", 2008),
darker on white and lighter on black so that each has a contrast of 3 to 1 at least (WCAG 2.2,
1.4.11). They repeat after 8 arms, symbols after 10 and dashes after 5: 40 arms differ.
"""
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down",
    "cross", "triangle-left", "triangle-right", "M-1,-1L1,1M1,-1L-1,1", "M0,-1V1M-1,0H1",
)  # fmt: skip
DASHES = ([1, 0], [7, 3], [2, 3], [7, 3, 2, 3], [12, 4])

_TOKENS = {
    "ink": "#1b2026", "quiet": "#525c69", "rule": "#d7dde4", "paper": "#ffffff",
    "up": "#63c7a6", "down": "#f2a679", **{f"style-{i}": hue for i, hue in enumerate(LIGHT)},
}  # fmt: skip
_CONFIG = {
    "background": "var(--paper)",
    "font": "Liberation Sans, Helvetica, Arial, sans-serif",
    "aria": False,  # the page describes each chart as a whole
    "view": {"stroke": None},
    "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 15},
    "axis": {
        "labelColor": "var(--quiet)", "titleColor": "var(--quiet)", "gridColor": "var(--rule)",
        "domainColor": "var(--quiet)", "tickColor": "var(--quiet)", "labelFontSize": 12,
        "titleFontSize": 13, "titleFontWeight": "normal", "tickCount": 6, "format": "~g",
        "labelOverlap": "greedy", "titleLimit": 600,
    },
    "legend": {
        "labelColor": "var(--ink)", "labelFontSize": 12, "labelLimit": 380, "orient": "bottom",
        "columns": 2, "symbolSize": 90,
    },
}  # fmt: skip
_LONGEST = 60  # characters of a name; the tables of the report have full names
_WILD = 100.0  # an interval is cut off if it is this many times the range of all values


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one part of the report.

    `key` names its file. `description` is the chart in words, `table` has its numbers, and `notes`
    explain its lines and areas. `names` are the entries that a reader can hide; rows of data have
    them in the field `name`, and the arm, if it is another text, in `arm`.
    """

    key: str
    part: str
    title: str
    description: str
    table: Table
    drawing: alt.LayerChart
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def specification(self, width: int | str) -> dict[str, Any]:
        """Return the chart in Vega-Lite, with its data."""
        drawn = self.drawing.properties(width=width).configure(**_CONFIG)
        specification: dict[str, Any] = drawn.to_dict()
        del specification["$schema"]  # an address
        return specification


def in_light(specification: str) -> str:
    """Return a specification in JSON with the colours of the light theme for its tokens."""
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda match: _TOKENS[match[1]], specification)


def short(text: str, longest: int = _LONGEST) -> str:
    """Return a text on one line of limited length, as charts show names."""
    line = visible(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def rows(data: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """Begin a layer on rows of data; names become short, numbers that are not finite null."""
    return alt.Chart(alt.Data(values=[{key: _value(v) for key, v in row.items()} for row in data]))


def styled(styles: Mapping[str, int], *, legend: bool = True) -> dict[str, Any]:
    """Return the channels that distinguish names by colour and symbol, with one legend."""
    names, places = [short(name) for name in styles], list(styles.values())
    shown = alt.Legend(title=None) if legend and len(names) > 1 else None

    def scale(values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=[values[place % len(values)] for place in places])

    return {
        "color": alt.Color("name:N", scale=scale(COLOURS), legend=shown),
        "shape": alt.Shape("name:N", scale=scale(SYMBOLS), legend=shown),
    }


def dashed(styles: Mapping[str, int], *, legend: bool = True) -> dict[str, Any]:
    """Return the channels that distinguish lines by colour and dashes."""
    names = [short(name) for name in styles]
    dashes = [DASHES[place % len(DASHES)] for place in styles.values()]
    shown = alt.Legend(title=None) if legend and len(names) > 1 else None
    channel = alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=shown)
    return {"color": styled(styles, legend=legend)["color"], "strokeDash": channel}


def scale(values: Iterable[float | None], ends: Iterable[float] = (), *, log: bool) -> alt.Scale:
    """Return the scale of an axis that shows all values, and the ends of intervals within reason.

    An interval may be infinite, or so wide that it would leave no room for the values.
    """
    core = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]
    if not core:
        return alt.Scale(type="log" if log else "linear", domain=[0.5, 2.0])
    low, high = min(core), max(core)
    tame = [end for end in ends if not math.isnan(end)]
    if log:
        room = max(high / low, 2.0) * 4
        core += [min(max(end, low / room), high * room) for end in tame]
        pad = (max(core) / min(core)) ** 0.06 if max(core) > min(core) else 1.03
        return alt.Scale(type="log", domain=[min(core) / pad, max(core) * pad], nice=False)
    room = (high - low or abs(high) or 1.0) * _WILD
    core += [end for end in tame if low - room <= end <= high + room]
    margin = (max(core) - min(core) or abs(high) or 1.0) * 0.06
    return alt.Scale(domain=[min(core) - margin, max(core) + margin], nice=False, zero=False)


def row_names(places: alt.Chart) -> alt.LayerChart:
    """Return the name of each row, and its label, above the row: long names need no margin."""
    text = places.encode(y=alt.Y("row:N", sort=None, axis=None), x=alt.value(0))
    return alt.layer(
        text.mark_text(align="left", dy=-26, fontWeight="bold", color="var(--ink)").encode(
            text="row:N"
        ),
        text.mark_text(align="left", dy=-12, color="var(--ink)").encode(text="label:N"),
    )


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return short(value, 300) if isinstance(value, str) else value


COLOURS = tuple(f"var(--style-{i})" for i in range(len(LIGHT)))
