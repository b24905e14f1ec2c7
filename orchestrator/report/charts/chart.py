"""A chart: a definition in Vega-Lite, which the page and image files draw alike.

Colours are tokens (`var(--ink)`): CSS variables on the page, the light theme's colours in files.
All texts are data, which Vega draws as they are, without markup.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.look import CHART_CONFIG, DASHES, LIGHT, ROW_NAMES, SYMBOLS, TOKENS
from orchestrator.report.document import Table, visible
from orchestrator.report.names import ArmNames

_COLOURS = [f"var(--style-{i})" for i in range(len(LIGHT))]
_TOKENS = {**TOKENS, **{f"style-{i}": hue for i, hue in enumerate(LIGHT)}}
_LONGEST = 60  # characters of a name; the tables of the report have full names
_WILD = 100.0  # an interval is cut off if it is this many times the range of all values


Styles: TypeAlias = Mapping[Arm, int]
"""The index of each arm in the report: `arm_channels` makes colour, symbol and dashes of it."""

Layer: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one part of the report.

    `key` names its file, and `section` is the key of its part (`PARTS`). `description`
    is the chart in words, `table` has its numbers unless the part has them, and `notes` explain
    it. `layers` are drawn on rows of `data`.
    """

    key: str
    section: str
    title: str
    description: str
    layers: Sequence[Layer]
    data: Mapping[str, Rows]
    height: int
    table: Table | None = None
    notes: tuple[str, ...] = ()

    def specification(self, width: int | str) -> dict[str, Any]:
        """Return the chart in Vega-Lite, with its data, without their missing values."""
        return {
            "layer": self.layers,
            "datasets": {name: [_shown(row) for row in rows] for name, rows in self.data.items()},
            "width": width,
            "height": self.height,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "config": CHART_CONFIG,
        }


ChartBuilder: TypeAlias = Callable[[ReportSummary, ArmNames, Styles], Iterable[Chart]]
"""A function that makes the charts of one kind: none if the sweep has no numbers for them.

It is called once for each page or folder of images, with the summary of the sweep, the names of its
arms and their styles.
"""


def layer(data: str | None, mark: str, look: Mapping[str, Any], **channels: Any) -> Layer:
    """Return a layer of marks, one for each row of the data; of one mark, if `data` is None.

    A channel is a definition in Vega-Lite, or the name of a field: of numbers for axes, else of
    texts.
    """
    return {
        "data": {"name": data} if data else {"values": [{}]},
        "mark": {"type": mark, **look},
        "encoding": {
            channel: _channel(channel, given) if isinstance(given, str) else given
            for channel, given in channels.items()
        },
    }


def _channel(channel: str, field: str) -> dict[str, Any]:
    if channel in ("x2", "y2"):
        return {"field": field}
    return {"field": field, "type": "quantitative" if channel in ("x", "y", "order") else "nominal"}


def axis(
    field: str,
    title: str,
    values: Iterable[float | None],
    ends: Iterable[float] = (),
    *,
    log: bool = False,
) -> dict[str, Any]:
    """Return the channel of a field on an axis with this title, with room for all values.

    The ends of intervals are shown within reason: an interval may be infinite, or so wide that it
    would leave no room for the values.
    """
    core = [v for v in values if v is not None and math.isfinite(v)]
    core = [v for v in core if v > 0 or not log] or [0.5, 2.0]
    low, high = min(core), max(core)
    ends = [end for end in ends if not math.isnan(end)]
    scale: dict[str, Any] = {"nice": False}
    if log:
        room = max(high / low, 2.0) * 4
        core += [min(max(end, low / room), high * room) for end in ends]
        pad = max((max(core) / min(core)) ** 0.06, 1.03)
        scale |= {"type": "log", "domain": [min(core) / pad, max(core) * pad]}
        title = f"{short(title, 80)} (logarithmic)"
    else:
        room = (high - low or abs(high) or 1.0) * _WILD
        core += [end for end in ends if low - room <= end <= high + room]
        pad = (max(core) - min(core) or abs(high) or 1.0) * 0.06
        scale |= {"zero": False, "domain": [min(core) - pad, max(core) + pad]}
    return {"field": field, "type": "quantitative", "title": short(title, 100), "scale": scale}


def arm_channels(styles: Mapping[str, int], **options: Any) -> dict[str, Any]:
    """Return the channels `color`, `shape` and `strokeDash` of named entries with their styles."""
    options = {"field": "name", "type": "nominal", **options}
    if len(styles) == 1:
        options["legend"] = None
    scales: dict[str, Sequence[Any]] = {"color": _COLOURS, "shape": SYMBOLS, "strokeDash": DASHES}
    return {
        channel: {**options, "scale": {"domain": [*map(short, styles)], "range": chosen}}
        for channel, all_looks in scales.items()
        for chosen in [[all_looks[style % len(all_looks)] for style in styles.values()]]
    }


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = ((key, _cell(key, value)) for key, value in row.items())
    return {key: cell for key, cell in cells if cell is not None}


def _cell(key: str, value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return short(value, _LONGEST if key == "name" else 300) if isinstance(value, str) else value


ROW = {"field": "row", "type": "nominal", "sort": None, "axis": None}
"""The position of a row, without an axis: `row_names` names it."""


ROW_HEIGHT = 60
"""The pixels of a row and of the names above it."""


def row_names(data: str) -> list[Layer]:
    """Return the name of each row above it, and its label: at the right, or below if narrow."""
    looks = ROW_NAMES.items()
    return [layer(data, "text", look, text=field, y=ROW) for field, look in looks]


def in_light(specification: str) -> str:
    """Return a specification in JSON with the colours of the light theme for its tokens."""
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda match: _TOKENS[match[1]], specification)


def short(text: str, longest: int = _LONGEST) -> str:
    """Return a text on one line of limited length, as charts show names."""
    line = visible(text)
    if line == "__proto__":  # Vega groups rows in plain objects
        return f"{line}\u00a0"
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def slug(text: str) -> str:
    """Return the text as part of a file name: lower case, letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
