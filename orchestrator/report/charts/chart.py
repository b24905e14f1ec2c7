"""A plot as plain data, before it is drawn: by Plotly on the page, by Matplotlib into files.

All text is raw: whoever draws it sees to it that no name is markup or mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.report.document import Table

Drawn: TypeAlias = Literal["points", "interval", "line", "marked line", "bars"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. With `places` it has a name at each of 0, 1, 2, … and nothing between them."""

    title: str
    log: bool = False
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Values along an axis, of one arm as a rule, told apart by `style`: colour, symbol, dashes.

    `low` and `high` are the ends of each value's interval: bars at points (and alone where an
    `interval` is drawn: a wider one about a point's own), a band at a line. A
    value of None is a gap. `labels` stand beside the points, `hover` is told of each on demand.
    `hollow` points claim nothing; `faint` ones are the background of others. Series of one name
    belong together: they have one legend.
    """

    name: str
    style: int
    drawn: Drawn
    at: tuple[float, ...]
    values: tuple[float | None, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    hover: tuple[str, ...] = ()
    hollow: bool = False
    faint: bool = False
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A range of values that means something (`within the margin`), or of one value, a line."""

    low: float
    high: float
    name: str
    along: Literal["values", "at"] = "values"


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot: `at` against `values`, which lie sideways where `sideways` says so.

    `key` names its file; `part` the part of a report to which it belongs; `told` says in words
    what is to be seen; `table` are its numbers.
    """

    key: str
    part: str
    title: str
    told: str
    at: Axis
    values: Axis
    series: tuple[Series, ...]
    table: Table
    bands: tuple[Band, ...] = ()
    sideways: bool = False


@dataclass(frozen=True, slots=True)
class Heat:
    """A matrix: a number, a verdict on it and a shade for each row and column; empty where none is.

    `shades` are 0 for no difference, and -1 or 1 at the ends of the scale.
    """

    key: str
    part: str
    title: str
    told: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    verdicts: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float | None, ...], ...]


Plot: TypeAlias = Chart | Heat
