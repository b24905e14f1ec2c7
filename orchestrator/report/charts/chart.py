"""A plot as plain data, before Plotly draws it on the page, or Matplotlib into a file.

All text is raw: whoever draws it escapes names that contain markup or mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.report.document import Table

Mark: TypeAlias = Literal["points", "interval", "line", "marked line", "bars"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. With `categories` it has their names at 0, 1, 2, …, and nothing in between."""

    title: str
    log: bool = False
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Values by position, usually of one arm; `style` is a number for colour, symbol and dashes.

    `low` and `high` are the ends of the values' intervals: bars at points, a band around a line.
    An `interval` is a bar without its point, around the shorter interval of another series. A
    value of None is a gap. `labels` are printed next to the points, and `hover` appears at the
    pointer. `hollow` points have an inconclusive verdict; `faint` ones are the background. Series
    of one name share an entry of the legend.
    """

    name: str
    style: int
    mark: Mark
    positions: tuple[float, ...]
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
    """A range of an axis with a meaning (`same within 2 %`); a line if it has only one value."""

    low: float
    high: float
    name: str
    axis: Literal["values", "positions"] = "values"


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot of values by position; with `sideways` the values are on the horizontal axis.

    `key` names its file, and `part` is the part of the report to which it belongs. `description`
    is the plot in words, and `table` has its numbers.
    """

    key: str
    part: str
    title: str
    description: str
    positions: Axis
    values: Axis
    series: tuple[Series, ...]
    table: Table
    bands: tuple[Band, ...] = ()
    sideways: bool = False


@dataclass(frozen=True, slots=True)
class Heat:
    """A matrix with a number, a verdict and a shade in its cells, which may be empty.

    `shades` are 0 for no difference, and -1 or 1 at the ends of the scale.
    """

    key: str
    part: str
    title: str
    description: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    verdicts: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float | None, ...], ...]


Plot: TypeAlias = Chart | Heat
