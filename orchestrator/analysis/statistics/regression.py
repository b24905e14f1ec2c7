"""Least squares of one number a block on the blocks' configs, for all arms and metrics alike.

All params that varied are fitted together, so that the effect of each is adjusted for the others. A
param with at least four numbers has a line, of sizes and rates in their logarithm. With fewer
values a line cannot be checked: such a param has a level for each value, and so has any other one.

NumPy solves it, once for all arms and metrics that have the same blocks (`Design`). SciPy's least
squares have no intervals and do not say which params cannot be told apart. `OLS` of statsmodels has
both, and the tests compare with it, but its import would take each report another second.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, MIN_VALUES, Estimate
from orchestrator.core.text import joined
from orchestrator.core.trial import Config, ConfigValue, Scalar, is_number, value_text

Numbers: TypeAlias = NDArray[np.float64]
DesignOf: TypeAlias = "Callable[[tuple[int, ...]], Design]"
"""The design of these blocks."""

_MIN_FREEDOM = 3
"""Residual degrees of freedom that an interval needs."""
_ABSENT = "absent"
"""The value at which a param is held that most configs do not have."""
_TIED = 1e-6  # a share of a coefficient that other coefficients can replace
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """One block: its value of a param and its number, raw and adjusted for the other params."""

    block: int
    at: Scalar
    value: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The fitted number at one value of a param, with its interval, all other params held."""

    at: Scalar
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of changing a param from one value to another, or of doubling it (both None).

    With `is_whole_range` the two values are the ends of the range that was tried.
    """

    of: Scalar | None
    to: Scalar | None
    effect: Estimate
    is_whole_range: bool = False


@dataclass(frozen=True, slots=True)
class Param:
    """A param of a design: its value in each block (None: absent), and its columns.

    A line has one column, and `levels` have one for each of these values. All are 0 at `zero`, and
    where the param is absent.
    """

    values: tuple[Scalar | None, ...]
    scale: Literal["log", "linear", "levels"]
    zero: Scalar
    levels: tuple[Scalar, ...] = ()

    @property
    def held(self) -> Scalar:
        """The value while another param changes."""
        return _ABSENT if 2 * self.values.count(None) >= len(self.values) else self.zero

    @property
    def is_size(self) -> bool:
        """True for a positive number in every block."""
        return all(_is_finite(value) and value > 0 for value in self.values)

    def spaced(self, count: int) -> list[Scalar]:
        """Return `count` numbers from the lowest to the highest one of a line, or the levels."""
        if self.scale == "levels":
            return [self.zero, *self.levels]
        numbers = [float(value) for value in self.values if value is not None]
        space = np.geomspace if self.scale == "log" else np.linspace
        return list(space(min(numbers), max(numbers), count).tolist())

    def has_interval(self, value: Scalar) -> bool:
        """Return True for a value on a line, and for a level that enough blocks have."""
        return self.scale != "levels" or self.values.count(value) >= MIN_VALUES

    def coded(self, value: Scalar | None) -> list[float]:
        """Return the entries of the columns for a value."""
        if self.scale == "levels":
            return [float(value == level) for level in self.levels]
        if value is None:
            return [0.0]
        number, zero = float(value), float(self.zero)
        return [math.log(number / zero) if self.scale == "log" else number - zero]


class Design:
    """The configs of blocks as a linear model: a constant, and the columns of each varied param.

    The constant is the number where every param is held; `columns_of` has the columns of each.
    `solution` is the pseudo-inverse: its product with the numbers of the blocks is the coefficients
    of least squares, the shortest ones where columns depend on each other. `inverse` is the inverse
    of the normal equations, from which the variances follow. `freedom` is the residual degrees of
    freedom.
    """

    def __init__(self, configs: Sequence[Config]) -> None:
        """Make the columns of at least one block."""
        values = {
            name: tuple(_level(config[name]) if name in config else None for config in configs)
            for name in sorted(set().union(*configs))
        }
        self.params = {
            name: _param(of_blocks) for name, of_blocks in values.items() if len(set(of_blocks)) > 1
        }
        self.blocks = len(configs)
        columns: list[Sequence[float]] = [[1.0] * self.blocks]
        self.columns_of: dict[str, list[int]] = {}
        for name, param in self.params.items():
            columns_of_param = list(zip(*map(param.coded, param.values), strict=True))
            first = len(columns)
            columns += columns_of_param
            self.columns_of[name] = list(range(first, len(columns)))
        for param in self.params.values():
            usual = float(param.held != _ABSENT)
            is_there = [float(value is not None) - usual for value in param.values]
            # another param may decide which configs have this one, as a cell does
            if len(set(is_there)) > 1 and _rank([*columns, is_there]) > _rank(columns):
                columns.append(is_there)
        self.matrix: Numbers = np.array(columns).T
        tolerance = max(self.matrix.shape) * np.finfo(np.float64).eps  # as `matrix_rank` has it
        solution = np.linalg.pinv(self.matrix, rtol=tolerance)
        self.solution: Numbers = solution.astype(np.float64)
        self.inverse: Numbers = self.solution @ self.solution.T
        self._tied: NDArray[np.bool_] = np.asarray(
            np.abs(np.eye(len(columns)) - self.solution @ self.matrix) > _TIED
        )
        self.freedom = self.blocks - _rank(columns)

    def refusal(self, name: str) -> str | None:
        """Return why the effect of a param cannot be estimated; None if it can."""
        other_params = [param for param in self.params if param != name]
        tied = np.asarray(self._tied[self.columns_of[name]].any(axis=0))
        if self.blocks < MIN_BLOCKS:
            return f"at least {MIN_BLOCKS} blocks are needed"
        if together := [param for param in other_params if tied[self.columns_of[param]].any()]:
            return f"it varied only together with {joined(together)}"
        if self.freedom < _MIN_FREEDOM:
            rest = f" to adjust for {joined(other_params)}" if other_params else ""
            return f"too few blocks ({self.blocks}){rest}"
        return None

    def rows(self, name: str, values: Sequence[Scalar | None]) -> Numbers:
        """Return the row of the model for each value of a param, all other params held."""
        rows = np.zeros((len(values), self.matrix.shape[1]))
        rows[:, 0] = 1.0
        rows[:, self.columns_of[name]] = [self.params[name].coded(value) for value in values]
        return rows


class Fit:
    """One number a block, fitted to a design, with intervals of one level.

    Of a ratio the logarithm is fitted. All results are in units of the numbers.
    """

    def __init__(
        self, design: Design, values: Mapping[int, float], confidence: float, *, is_ratio: bool
    ) -> None:
        """Fit the numbers of the design's blocks."""
        self.design, self.confidence, self.is_ratio = design, confidence, is_ratio
        self._values = values
        numbers = np.array(list(values.values()))
        numbers = np.log(numbers) if is_ratio else numbers
        self._unscaled: Callable[[Any], Numbers] = np.exp if is_ratio else np.array
        self._coefficients = design.solution @ numbers
        self._residuals = numbers - design.matrix @ self._coefficients
        if np.ptp(numbers) <= _ROUNDING * np.abs(numbers).max():  # arithmetic's own noise
            self._coefficients[1:] = self._residuals[:] = 0.0
        self._variance = float(self._residuals @ self._residuals) / max(1, design.freedom)
        self.quantile = float(stdtrit(max(1, design.freedom), (1 + confidence) / 2))

    def points(self, name: str) -> tuple[BlockPoint, ...]:
        """Return the blocks that have the param, not adjusted if its effect cannot be estimated."""
        values, at = list(self._values.values()), self.design.params[name].values
        adjusted = values
        if self.design.refusal(name) is None:
            kept = [0, *self.design.columns_of[name]]
            fitted = self.design.matrix[:, kept] @ self._coefficients[kept]
            adjusted = self._unscaled(fitted + self._residuals).tolist()
        rows = zip(self._values, at, values, adjusted, strict=True)
        return tuple(BlockPoint(b, at, x, y) for b, at, x, y in rows if at is not None)

    def curve(self, name: str, count: int) -> tuple[CurvePoint, ...]:
        """Return `count` points of a line, or one for each level."""
        param = self.design.params[name]
        at = param.spaced(count)
        ends = self._ends(self.design.rows(name, at), [*map(param.has_interval, at)])
        return tuple(CurvePoint(value, *fitted) for value, fitted in zip(at, ends, strict=True))

    def changes(self, name: str) -> tuple[Change, ...]:
        """Return the effects of a param: of doubling it, of its range, or of each other level.

        Doubling is a claim on configs that were tried only if the range is that wide.
        """
        param, blocks = self.design.params[name], self.design.blocks
        values = param.spaced(2)
        is_doubled = param.scale == "log" and float(values[-1]) >= 2 * float(values[0])
        if is_doubled:
            values = [1.0, 2.0]
        of, *others = values
        rows = self.design.rows(name, others) - self.design.rows(name, [of])
        ends = self._ends(rows, [param.has_interval(of) and param.has_interval(o) for o in others])
        if is_doubled:
            return (Change(None, None, Estimate(blocks, *ends[0])),)
        is_line = param.scale != "levels"
        return tuple(
            Change(of, to, Estimate(blocks, *e), is_line)
            for to, e in zip(others, ends, strict=True)
        )

    def _ends(self, rows: Numbers, is_known: Sequence[bool]) -> list[list[float]]:
        """Return the number of each row with the ends of its interval, infinite if not known."""
        variances = np.einsum("ij,jk,ik->i", rows, self.design.inverse, rows) * self._variance
        half = np.where(is_known, self.quantile * np.sqrt(np.maximum(0.0, variances)), np.inf)
        middle = rows @ self._coefficients
        return list(self._unscaled(np.array([middle, middle - half, middle + half]).T).tolist())


def _level(value: ConfigValue) -> Scalar:
    """Return a number as a float; null and a list as texts, and other values as they are."""
    if is_number(value):
        return float(value)
    return value if isinstance(value, bool | str) else value_text(value)


def _is_finite(value: Scalar | None) -> TypeGuard[float]:
    """Return True for a number that is neither infinite nor NaN."""
    return is_number(value) and math.isfinite(value)


def _param(values: tuple[Scalar | None, ...]) -> Param:
    """Return a param; `zero` is the median of a line, the lowest number or the most usual text."""
    levels = {value for value in values if value is not None}
    if all(map(_is_finite, levels)) and len(levels) >= MIN_VALUES:
        numbers = [float(value) for value in values if value is not None]
        return Param(values, "log" if _is_log(numbers) else "linear", median_low(numbers))
    if any(isinstance(level, str) for level in levels):
        zero, *others = sorted(levels, key=lambda level: (-values.count(level), str(level)))
    else:
        zero, *others = sorted(levels, key=float)
    return Param(values, "levels", zero, tuple(others))


def _is_log(numbers: Sequence[float]) -> bool:
    """Return True for positive whole numbers, and for fractions that are spread evenly in logs."""
    if min(numbers) <= 0:
        return False
    if all(number % 1 == 0 for number in numbers):
        return True
    ways = np.array([numbers, np.log(numbers)]).T
    off_centre = np.abs(2 * np.median(ways, 0) - ways.min(0) - ways.max(0)) / np.ptp(ways, 0)
    return bool(off_centre[1] < off_centre[0])


def _rank(columns: Sequence[Sequence[float]]) -> int:
    return int(np.linalg.matrix_rank(np.array(columns)))
