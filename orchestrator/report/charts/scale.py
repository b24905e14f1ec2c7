"""The range and the ticks of an axis: the same on the page and in image files."""

from __future__ import annotations

import math
from collections.abc import Iterable

from orchestrator.report.charts.chart import Axis, Chart

_PADDING = 0.06  # of the axis, at either end
_WILD = 100.0  # an interval is cut off if it is this many times the range of all values
_TICKS = 7
_EVEN = 2.5  # an axis that spans less has evenly spaced ticks, logarithmic or not
_DIGITS: tuple[tuple[float, ...], ...] = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


def reach(chart: Chart, axis: Axis) -> tuple[float, float]:
    """Return the lowest and the highest value that the axis shows; the rest is cut off."""
    if axis.categories:
        return -0.5, len(axis.categories) - 0.5
    field = "positions" if axis is chart.positions else "values"
    sums = _stacked(chart) if field == "values" else []
    core = [*sums, *_finite(_of(chart, field), axis.log)]
    core += [end for b in chart.bands if b.axis == field for end in (b.low, b.high)]
    if not core:
        return (0.5, 2.0) if axis.log else (0.0, 1.0)
    ends = _ends(chart, axis.log) if field == "values" else []
    return _padded([*core, *_tame(core, ends, axis.log)], axis.log, from_zero=bool(sums))


def ticks(low: float, high: float, *, log: bool) -> tuple[float, ...]:
    """Return round numbers between the two, by decades if a logarithmic axis spans several."""
    if log and high / low > _EVEN:
        for digits in _DIGITS:
            if len(places := _by_decade(low, high, digits)) <= _TICKS + 1:
                return places
        return places[:: -(-len(places) // _TICKS)]
    raw = (high - low) / _TICKS
    if raw <= 0:
        return (low,)
    decade = 10.0 ** math.floor(math.log10(raw))
    step = next((m * decade for m in (1, 2, 5) if m * decade >= raw), 10 * decade)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(i * step, 12) for i in range(first, last + 1))


def _by_decade(low: float, high: float, digits: tuple[float, ...]) -> tuple[float, ...]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = (digit * 10.0**decade for decade in decades for digit in digits)
    return tuple(round(value, 12) for value in every if low <= value <= high)


def _of(chart: Chart, field: str) -> Iterable[float | None]:
    for series in chart.series:
        if series.mark != "bars" or field == "positions":
            yield from series.positions if field == "positions" else series.values


def _ends(chart: Chart, log: bool) -> list[float]:
    every = (end for series in chart.series for end in (*series.low, *series.high))
    return _finite(every, log)


def _stacked(chart: Chart) -> list[float]:
    """Return the heights of stacked bars, and 0, where they begin."""
    bars = [series.values for series in chart.series if series.mark == "bars"]
    sums = [math.fsum(v or 0 for v in place) for place in zip(*bars, strict=True)]
    return [0.0, *sums] if sums else []


def _finite(values: Iterable[float | None], log: bool) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]


def _tame(core: list[float], ends: list[float], log: bool) -> list[float]:
    """Return the ends of intervals, without those that would leave no room for the values."""
    low, high = min(core), max(core)
    if log:
        room = max(high / low, 2.0) * 4
        return [min(max(end, low / room), high * room) for end in ends]
    room = (high - low or abs(high) or 1.0) * _WILD
    return [end for end in ends if low - room <= end <= high + room]


def _padded(values: list[float], log: bool, *, from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        low, high = math.log(low), math.log(high)
    pad = (high - low or (math.log(1.5) if log else abs(high) or 1.0)) * _PADDING
    low, high = (low if from_zero else low - pad), high + pad
    return (math.exp(low), math.exp(high)) if log else (low, high)
