"""Design matrices for regressions along one param, adjusted for the other params that varied.

A number takes one column: its log if it is positive everywhere, itself otherwise. A number that
only some configs have takes a second column for its presence. Anything else takes a column for each
further value. Columns that others span are omitted, because their params are adjusted for already.

If there are too few blocks for all of that, whole params are omitted and named: first those that
are least correlated with the param of the curve, because they bias it least. The speed-ups do not
enter this choice, which would bias the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from orchestrator.analysis.statistics.regression import Numbers
from orchestrator.core.trial import Config, ConfigValue, is_number

MIN_FREEDOM = 3
"""Residual degrees of freedom that a straight line needs."""
_ROUNDING = 1e-9
"""Relative size of a residual below which it is rounding error."""
ABSENT = "absent"
"""The value at which a param is held that most configs do not have."""


@dataclass(frozen=True, slots=True)
class Design:
    """The blocks' values of one param, and the covariates for the others that varied.

    `covariates` has a row for each block and is 0 where its params are at `held`; `unadjusted` are
    params for which there are too few blocks. `tied` are params that determine this one, each alone
    or all together, so that their effects cannot be separated.
    """

    param: str
    at: Numbers
    covariates: Numbers
    held: Mapping[str, float | str]
    unadjusted: tuple[str, ...]
    tied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Coded:
    """A param as columns, each 0 where the param has the value `held`."""

    columns: tuple[Numbers, ...]
    held: float | str


def designs(configs: Sequence[Config]) -> tuple[Design, ...]:
    """Return a design for each numeric param that varied among the blocks' configs."""
    coded = _coded(configs)
    return tuple(
        _design(
            param,
            np.array([float(config[param]) for config in configs]),
            {name: columns for name, columns in coded.items() if name != param},
        )
        for param in numeric_params(configs)
    )


def numeric_params(configs: Sequence[Config]) -> tuple[str, ...]:
    """Return the params that are a positive number in every config and vary."""
    return tuple(
        name
        for name in sorted(set.intersection(*(set(config) for config in configs)))
        if all(_is_finite(config[name]) and float(config[name]) > 0 for config in configs)
        and len({config[name] for config in configs}) > 1
    )


def _design(param: str, at: Numbers, others: Mapping[str, _Coded]) -> Design:
    x, blocks = np.log(at), len(at)
    correlation = {name: _explained(x, coded.columns) for name, coded in others.items()}
    order = sorted(others, key=lambda name: (round(correlation[name], 9), name))
    for dropped in range(len(order) + 1):
        kept = [name for name in others if name not in order[:dropped]]
        covariates, basis = _independent(blocks, (c for name in kept for c in others[name].columns))
        if blocks - covariates.shape[1] - 2 >= MIN_FREEDOM:
            break
    adjusted = [name for name, coded in others.items() if _spans(basis, coded.columns)]
    return Design(
        param=param,
        at=at,
        covariates=covariates,
        held={name: others[name].held for name in adjusted},
        unadjusted=tuple(name for name in others if name not in adjusted),
        tied=_tied(x, others, kept),
    )


def _tied(x: Numbers, others: Mapping[str, _Coded], kept: Iterable[str]) -> tuple[str, ...]:
    """Return the params that determine this one: each alone, or all, or all adjusted ones.

    As many columns as blocks determine anything, so they do not count.
    """
    single = tuple(name for name in others if _determines(x, others[name].columns))
    if single:
        return single
    for names in (tuple(others), tuple(kept)):
        if _determines(x, [column for name in names for column in others[name].columns]):
            return names
    return ()


def _determines(x: Numbers, columns: Iterable[Numbers]) -> bool:
    _, basis = _independent(len(x), columns)
    return basis.shape[1] < len(x) and _spans(basis, (x,))


def _explained(x: Numbers, columns: Sequence[Numbers]) -> float:
    """Return how much of a param another explains: R², adjusted for its columns (0 by chance)."""
    _, basis = _independent(len(x), columns)
    freedom = len(x) - basis.shape[1]
    if freedom < 1:
        return -math.inf
    rest, centred = x - basis @ (basis.T @ x), x - x.mean()
    return float(1 - (rest @ rest / freedom) / (centred @ centred / (len(x) - 1)))


def _independent(blocks: int, columns: Iterable[Numbers]) -> tuple[Numbers, Numbers]:
    """Return the columns that neither a constant nor earlier ones span, and a basis of all.

    The basis is orthonormal, by Gram and Schmidt; its first vector is the constant.
    """
    basis = np.full((blocks, 1), 1 / math.sqrt(blocks))
    independent = [np.empty((blocks, 0))]
    for column in columns:
        if basis.shape[1] == blocks:
            break
        rest = _residual(basis, column)
        if rest is not None:
            independent.append(column[:, None])
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return np.hstack(independent), basis


def _spans(basis: Numbers, columns: Iterable[Numbers]) -> bool:
    return all(_residual(basis, column) is None for column in columns)


def _residual(basis: Numbers, column: Numbers) -> Numbers | None:
    """Return the part of a column that the basis does not span; None if it is rounding error."""
    rest: Numbers = column - basis @ (basis.T @ column)
    rest = rest - basis @ (basis.T @ rest)  # a second pass for the rounding error of the first
    within = np.linalg.norm(rest) <= _ROUNDING * np.linalg.norm(column)
    return None if within else rest


def _coded(configs: Sequence[Config]) -> dict[str, _Coded]:
    """Code every param that varied; those in all configs first, because others depend on them."""
    everywhere = set.intersection(*(set(config) for config in configs))
    names = sorted(set().union(*configs), key=lambda name: (name not in everywhere, name))
    like = configs  # those that agree with the values held so far
    coded: dict[str, _Coded] = {}
    for name in names:
        values = [config.get(name) for config in configs]
        if len({str(value) for value in values}) == 1:
            continue
        present = [value for value in values if value is not None]
        if not all(map(_is_finite, present)):
            coded[name] = _categories(name, configs)
            held = coded[name].held
            like = [config for config in like if _text(config, name) == held] or like
        elif name in everywhere:
            coded[name] = _number(np.array(present, dtype=float))
        else:
            coded[name] = _conditional(name, configs, like)
    return coded


def _is_finite(value: ConfigValue | None) -> bool:
    return is_number(value) and math.isfinite(value)


def _text(config: Config, name: str) -> str:
    return str(config[name]) if name in config else ABSENT


def _categories(name: str, configs: Sequence[Config]) -> _Coded:
    """Make an indicator for each value except the most frequent one, at which it is held."""
    texts = [_text(config, name) for config in configs]
    most = max(sorted(set(texts)), key=texts.count)
    rest = sorted(set(texts) - {most})
    columns = (np.array([float(text == other) for text in texts]) for other in rest)
    return _Coded(tuple(columns), most)


def _number(values: Numbers) -> _Coded:
    held = median_low(values.tolist())
    column = np.log(values / held) if values.min() > 0 else values - held
    return _Coded((column,), held)


def _conditional(name: str, configs: Sequence[Config], like: Sequence[Config]) -> _Coded:
    """Code a number that some configs lack: its distance from the median, and its presence.

    It is held as most configs have it that agree with the other held values (`like`): with the cell
    held at lstm, a setting of gru alone is absent.
    """
    median = median_low([float(config[name]) for config in configs if name in config])
    off = np.array([float(config.get(name, median)) - median for config in configs])
    there = np.array([float(name in config) for config in configs])
    is_there = 2 * sum(name in config for config in like) > len(like)
    return _Coded((off, there - is_there), median if is_there else ABSENT)
