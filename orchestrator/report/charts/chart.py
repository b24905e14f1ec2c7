"""A chart: a Vega-Lite definition by Altair, which the page and image files draw alike.

Colours are tokens (`var(--ink)`): CSS variables on the page, the light theme's colours in files.
All texts are data, which Vega draws as they are, without markup.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt

from orchestrator.analysis.measures import MEASURES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.trial import Config
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
1.4.11). They repeat after 8 arms, symbols after 9 and dashes after 5: 40 arms differ.
"""
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down",
    "cross", "triangle-left", "triangle-right", "M-1,-1L1,1L0,0L1,-1L-1,1L0,0Z",
)  # fmt: skip
DASHES = ([1, 0], [7, 3], [2, 3], [7, 3, 2, 3], [12, 4])

_COLOURS = [f"var(--style-{i})" for i in range(len(LIGHT))]
_TOKENS = {
    "ink": "#1b2026", "quiet": "#525c69", "rule": "#d7dde4", "paper": "#ffffff",
    "up": "#63c7a6", "down": "#f2a679", **{f"style-{i}": hue for i, hue in enumerate(LIGHT)},
}  # fmt: skip
_CONFIG: dict[str, Any] = {
    "background": "var(--paper)",
    "font": "Liberation Sans, Helvetica, Arial, sans-serif",
    "aria": False,  # the page describes each chart as a whole
    "view": {"stroke": None},
    "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 15},
    "axis": {
        "labelColor": "var(--quiet)", "titleColor": "var(--quiet)", "gridColor": "var(--rule)",
        "domainColor": "var(--quiet)", "tickColor": "var(--quiet)", "labelFontSize": 12,
        "titleFontSize": 13, "titleFontWeight": "normal", "tickCount": 6,
        "labelOverlap": "greedy", "titleLimit": 600,
    },
    "axisQuantitative": {"format": ".6~g"},
    "legend": {
        "labelColor": "var(--ink)", "labelFontSize": 12, "labelLimit": 380, "orient": "bottom",
        "columns": 1, "symbolSize": 90, "symbolOpacity": 1, "title": None,
    },
}  # fmt: skip
_LONGEST = 60  # characters of a name; the tables of the report have full names
_WILD = 100.0  # an interval is cut off if it is this many times the range of all values
_TITLES = {measure.metric: measure.title for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one part of the report.

    `key` names its file. `description` is the chart in words, `table` has its numbers, and `notes`
    explain its lines and areas. `names` are the entries that a reader can hide: rows of the data
    have them in the field `name`, and the name of an arm, if it is another, in `arm`.
    """

    key: str
    part: str
    title: str
    description: str
    table: Table
    drawing: Any
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def specification(self, width: int | str) -> dict[str, Any]:
        """Return the chart in Vega-Lite, with its data."""
        specification: dict[str, Any] = self.drawing.properties(width=width).to_dict()
        del specification["$schema"]  # an address
        fit = {"type": "fit-x", "contains": "padding"}
        return {**specification, "config": _CONFIG, "autosize": fit}


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its title, all values to show, and the ends of intervals to show within reason."""

    title: str
    values: Iterable[float | None]
    ends: Iterable[float] = ()
    log: bool = False

    def on(self, channel: Any) -> Any:
        """Return the channel with this title and scale.

        An interval may be infinite, or so wide that it would leave no room for the values.
        """
        core = [v for v in self.values if v is not None and math.isfinite(v)]
        core = [v for v in core if v > 0 or not self.log] or [0.5, 2.0]
        low, high = min(core), max(core)
        ends = [end for end in self.ends if not math.isnan(end)]
        if self.log:
            room = max(high / low, 2.0) * 4
            core += [min(max(end, low / room), high * room) for end in ends]
            pad = max((max(core) / min(core)) ** 0.06, 1.03)
            scale = alt.Scale(type="log", domain=[min(core) / pad, max(core) * pad], nice=False)
        else:
            room = (high - low or abs(high) or 1.0) * _WILD
            core += [end for end in ends if low - room <= end <= high + room]
            pad = (max(core) - min(core) or abs(high) or 1.0) * 0.06
            scale = alt.Scale(domain=[min(core) - pad, max(core) + pad], nice=False, zero=False)
        suffix = " (logarithmic)" if self.log else ""
        return channel.scale(scale).title(f"{short(self.title, 80)}{suffix}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a chart's entries with their styles: numbers for colour, symbol and dashes."""

    styles: Mapping[str, int]

    def colour(self, **options: Any) -> alt.Color:
        """Return the colours by name."""
        return alt.Color("name:N", scale=self._scale(_COLOURS), **self._legend(options))

    def shape(self, **options: Any) -> alt.Shape:
        """Return the symbols by name."""
        return alt.Shape("name:N", scale=self._scale(SYMBOLS), **self._legend(options))

    def dash(self) -> alt.StrokeDash:
        """Return the dashes by name."""
        return alt.StrokeDash("name:N", scale=self._scale(DASHES), **self._legend({}))

    def _legend(self, options: dict[str, Any]) -> dict[str, Any]:
        return options if len(self.styles) > 1 else {"legend": None}

    def _scale(self, looks: Any) -> alt.Scale:
        chosen = [looks[style % len(looks)] for style in self.styles.values()]
        return alt.Scale(domain=[short(name) for name in self.styles], range=chosen)


def rows(data: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """Begin a layer on rows of data, without their missing values."""
    cells = ([(key, _cell(key, value)) for key, value in row.items()] for row in data)
    values = [{key: cell for key, cell in row if cell is not None} for row in cells]
    return alt.Chart(alt.InlineData(values=values))


def _cell(key: str, value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return short(value, _LONGEST if key == "name" else 300) if isinstance(value, str) else value


def row_names(places: alt.Chart) -> Any:
    """Return the name and the label of each row above it: long names need no margin."""
    text = places.encode(alt.Y("row:N", sort=None, axis=None), x=alt.value(0))
    upper = text.mark_text(align="left", dy=-26, fontWeight="bold", color="var(--ink)", limit=900)
    lower = text.mark_text(align="left", dy=-12, color="var(--ink)", limit=900)
    return alt.layer(upper.encode(text="row:N"), lower.encode(text="label:N"))


def in_light(specification: str) -> str:
    """Return a specification in JSON with the colours of the light theme for its tokens."""
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda match: _TOKENS[match[1]], specification)


def short(text: str, longest: int = _LONGEST) -> str:
    """Return a text on one line of limited length, as charts show names."""
    line = visible(text)
    if line == "__proto__":  # Vega groups rows in plain objects
        return f"{line}\u00a0"
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def metric_title(metric: str) -> str:
    """Return `step (ms)` for a measure of reports, and the name of any other metric."""
    return _TITLES.get(metric, metric)


def config_text(config: Config) -> str:
    """Write a config: `batch_size 32, units 96`."""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)


def slug(text: str) -> str:
    """Return the text as part of a file name: lower case, letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
