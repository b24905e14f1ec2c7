"""Numbers as a reader wants them: no more digits than their spread bears out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.analysis.statistics.estimates import Estimate, Spread

ABSENT = "–"
_LONE_FIGURES = 4  # significant figures of a number that has no spread
_HOPELESS = 10_000  # between the ends of a ratio's interval: decimals would only look exact


def quartiles(found: Spread | None) -> str:
    """`70.6 (69.8–74.0)`: median and quartiles."""
    if found is None:
        return ABSENT
    low, high = found.lower_quartile, found.upper_quartile
    if low is None or high is None:
        return number(found.median)
    digits = _decimals(found.median, high - low)
    if low > 0:
        digits = max(digits, _decimals(low, low))
    return f"{_fixed(found.median, digits)} ({_fixed(low, digits)}–{_fixed(high, digits)})"


def ratio(estimate: Estimate | None) -> str:
    """`1.31 × (1.22–1.40)`, with digits enough to show that the interval excludes 1, if it does.

    An interval that is wide enough to say nothing has two figures: `0.2 × (2.6e-07–1.5e+05)`.
    """
    if estimate is None:
        return ABSENT
    value, low, high = _ratio_parts(estimate)
    return f"{value} × ({low}–{high})"


def ratio_interval(estimate: Estimate | None) -> str:
    """`1.22–1.40`: the ends of a ratio's interval, as `ratio` writes them."""
    return "–".join(_ratio_parts(estimate)[1:]) if estimate else ABSENT


def difference(estimate: Estimate | None) -> str:
    """`-0.0012 (-0.0061 to +0.0037)`: a mean difference and its interval, signs told."""
    if estimate is None:
        return ABSENT
    digits = _decimals(estimate.value, estimate.high - estimate.low)
    return f"{_fixed(estimate.value, digits, sign=True)} ({difference_interval(estimate)})"


def difference_interval(estimate: Estimate | None) -> str:
    """`-0.0061 to +0.0037`: the ends of a difference's interval, as `difference` writes them."""
    if estimate is None:
        return ABSENT
    digits = _decimals(estimate.value, estimate.high - estimate.low)
    return " to ".join(_fixed(end, digits, sign=True) for end in (estimate.low, estimate.high))


def share(value: float) -> str:
    """`2 %` of 0.02."""
    return f"{100 * value:.3g} %"


def number(value: float) -> str:
    """One number without a spread: four significant figures, whole numbers whole."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.{_LONE_FIGURES}g}"


def joined(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def count(n: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _ratio_parts(estimate: Estimate) -> tuple[str, str, str]:
    value, low, high = estimate.value, estimate.low, estimate.high
    if low < 0.1 and high > max(10, _HOPELESS * low):
        return _rough(value), _rough(low), _rough(high)
    digits = max(_decimals(value, high - low), _decimals(low, low), 2)
    while digits < 9 and any(end != 1 and round(end, digits) == 1 for end in (low, high)):
        digits += 1
    return _fixed(value, digits), _fixed(low, digits), _fixed(high, digits)


def _decimals(value: float, width: float) -> int:
    """Decimals that show two significant figures of the width, at most seven of the value."""
    if not math.isfinite(width) or width <= 1e-9 * abs(value):  # none but arithmetic's own
        return max(0, _LONE_FIGURES - 1 - _magnitude(value))
    return min(1 - _magnitude(width), max(0, 6 - _magnitude(value)))


def _rough(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    rounded = float(f"{value:.2g}")
    return f"{rounded:.0f}" if 100 <= rounded < _HOPELESS else f"{rounded:.2g}"


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _fixed(value: float, digits: int, *, sign: bool = False) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else str(value)
    rounded = round(value, digits) + 0.0  # + 0.0: no negative zero
    return f"{rounded:{'+' if sign and rounded else ''}.{max(0, digits)}f}"
