"""Numbers as text: three significant digits, or fewer if their spread does not support them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.analysis.statistics.estimates import Estimate, Spread

ABSENT = "–"
_FIGURES = 3
_MANY = 1e9  # from here on, powers of ten are easier to read
_HOPELESS = 10_000  # between the ends of a ratio's interval: decimals would only look exact


def quartiles(spread: Spread, centre: float | None = None) -> str:
    """Format the median, or another `centre`, and quartiles: `70.6 (69.8–74.0)`."""
    middle = spread.median if centre is None else centre
    low, high = spread.lower_quartile, spread.upper_quartile
    if low is None or high is None:
        return number(middle)
    digits = max(_FIGURES - 1 - _magnitude(middle), -_magnitude(low))
    return f"{_fixed(middle, digits)} ({_fixed(low, digits)}–{_fixed(high, digits)})"


def ratio(estimate: Estimate | None) -> str:
    """Format `1.31 × (1.22–1.40)`, with enough digits to show that the interval excludes 1.

    A hopelessly wide interval has two figures: `0.2 × (2.6e-07–1.5e+05)`. A ratio without an
    interval is `1.31 ×`.
    """
    if estimate is None:
        return ABSENT
    value = ratio_value(estimate)
    return value if estimate.high == math.inf else f"{value} ({ratio_interval(estimate)})"


def ratio_value(estimate: Estimate) -> str:
    """Format a ratio as `ratio` does, without its interval: `1.31 ×`."""
    value = number(estimate.value) if estimate.high == math.inf else _ratio_parts(estimate)[0]
    return f"{value} ×"


def ratio_interval(estimate: Estimate | None) -> str:
    """Format the ends of a ratio's interval as `ratio` does: `1.22–1.40`."""
    return "–".join(_ratio_parts(estimate)[1:]) if estimate else ABSENT


def natural(estimate: Estimate) -> Estimate:
    """Return a ratio of speeds, or the ratio of times if it is below 1 (and not as good as 1)."""
    if estimate.value >= 1 or 0.99 < estimate.value < 1 <= estimate.high:
        return estimate
    return inverse(estimate)


def inverse(estimate: Estimate) -> Estimate:
    """Return the ratio with its sides exchanged."""
    value, high, low = (
        1 / end if end else math.inf for end in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high)


def inverse_difference(estimate: Estimate) -> Estimate:
    """Return the difference with its sides exchanged."""
    return replace(estimate, value=-estimate.value, low=-estimate.high, high=-estimate.low)


def difference(estimate: Estimate | None) -> str:
    """Format a mean difference and its interval with signs: `-0.0012 (-0.0061 to +0.0037)`."""
    if estimate is None:
        return ABSENT
    value = difference_value(estimate)
    return value if estimate.high == math.inf else f"{value} ({difference_interval(estimate)})"


def difference_value(estimate: Estimate, *, sign: bool = True) -> str:
    """Format a mean difference as `difference` does, without its interval: `-0.0012`."""
    if estimate.high == math.inf and estimate.value:
        return f"{estimate.value:{'+' if sign else ''}.3g}"
    return _fixed(estimate.value, _difference_decimals(estimate), sign=sign)


def difference_interval(estimate: Estimate | None, *, sign: bool = True) -> str:
    """Format the ends of a difference's interval as `difference` does: `-0.0061 to +0.0037`."""
    if estimate is None:
        return ABSENT
    digits = _difference_decimals(estimate)
    return " to ".join(_fixed(end, digits, sign=sign) for end in (estimate.low, estimate.high))


def _difference_decimals(estimate: Estimate) -> int:
    return _decimals(estimate.value, estimate.high - estimate.low)


def share(value: float) -> str:
    """Format a share as a percentage: `2 %` for 0.02."""
    return f"{100 * value:.3g} %"


def number(value: float) -> str:
    """Format one number without a spread: `0.910`, `26.7`, `5,200`; short ones stay as they are."""
    if not math.isfinite(value):
        return str(value)
    rounded, is_whole = float(f"{value:.{_FIGURES}g}"), value == int(value)
    if (is_whole or abs(rounded) >= 10 ** (_FIGURES - 1)) and abs(value) < _MANY:
        return f"{value if is_whole else rounded:,.0f}"
    return f"{value:{'' if rounded == value else '#'}.{_FIGURES}g}"


def plain(value: float) -> str:
    """Format an amount of money as `number` does, but never with a power of ten: `0.0000123`."""
    is_small = math.isfinite(value) and 0 < abs(value) < 1
    return _fixed(value, _FIGURES - 1 - _magnitude(value)) if is_small else number(value)


def _ratio_parts(estimate: Estimate) -> tuple[str, str, str]:
    value, low, high = estimate.value, estimate.low, estimate.high
    if low < 0.1 and high > max(10, _HOPELESS * low):
        return _rough(value), _rough(low), _rough(high)
    digits = max(_decimals(value, high - low), -_magnitude(low))
    while (low > 1 or high < 1) and digits < 9 and 1 in (round(low, digits), round(high, digits)):
        digits += 1
    return _fixed(value, digits), _fixed(low, digits), _fixed(high, digits)


def _decimals(value: float, width: float) -> int:
    """Return the decimals that show two significant figures of the width, at most three in all."""
    most = _FIGURES - 1 - _magnitude(value)
    if not math.isfinite(width) or width <= 1e-9 * abs(value):  # rounding error only
        return max(0, most)
    return min(1 - _magnitude(width), max(0, most))


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
    return f"{rounded:{'+' if sign and rounded else ''},.{max(0, digits)}f}"
