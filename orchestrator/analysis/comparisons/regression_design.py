"""What else varied beside a param, as columns of a regression: what a curve along it allows for.

A number takes one column, whatever its values are: its log where it is positive everywhere, itself
where it may be 0 or less. One that only some configs have takes its value, and a second column for
being there; all else takes one for each further value. Columns that others span add nothing and are
left out: their params are allowed for already.

Where the blocks are too few for all of that, whole params are left out, and named: those first that
go least with the param along which the curve runs, for these can bend it least. The speed-ups have
no say in it: who picks by them picks the answer.
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
"""Residual degrees of freedom that a straight line has to keep."""
_ROUNDING = 1e-9
"""The share of a column below which what others leave of it is rounding."""
ABSENT = "absent"
"""Where a param is held that most configs do not have."""


@dataclass(frozen=True, slots=True)
class Design:
    """The blocks' values of one param, and the others that varied beside it.

    `beside` has a row for each block, and is 0 where the params that it allows for are `held`;
    `unadjusted` are those for which the blocks are too few. `tied` are params that tell this one's
    value, each by itself or else all together, so that nothing along it can be told from them.
    """

    param: str
    at: Numbers
    beside: Numbers
    held: Mapping[str, float | str]
    unadjusted: tuple[str, ...]
    tied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Coded:
    """A param as columns, each 0 where the param is held."""

    columns: tuple[Numbers, ...]
    held: float | str


def designs(configs: Sequence[Config]) -> tuple[Design, ...]:
    """A design for each numeric param that varied among the blocks' configs."""
    coded = _coded(configs)
    return tuple(
        _design(
            param,
            np.array([float(config[param]) for config in configs]),
            {name: each for name, each in coded.items() if name != param},
        )
        for param in numeric_params(configs)
    )


def numeric_params(configs: Sequence[Config]) -> tuple[str, ...]:
    """The params that are a positive number in every config, and not always the same one."""
    return tuple(
        name
        for name in sorted(set.intersection(*(set(config) for config in configs)))
        if all(_is_finite(config[name]) and float(config[name]) > 0 for config in configs)
        and len({config[name] for config in configs}) > 1
    )


def _design(param: str, at: Numbers, others: Mapping[str, _Coded]) -> Design:
    x, blocks = np.log(at), len(at)
    bearing = {name: _explained(x, each.columns) for name, each in others.items()}
    order = sorted(others, key=lambda name: (round(bearing[name], 9), name))
    for dropped in range(len(order) + 1):
        kept = [name for name in others if name not in order[:dropped]]
        beside, basis = _independent(blocks, (c for name in kept for c in others[name].columns))
        if blocks - beside.shape[1] - 2 >= MIN_FREEDOM:
            break
    allowed = [name for name, each in others.items() if _spans(basis, each.columns)]
    return Design(
        param=param,
        at=at,
        beside=beside,
        held={name: others[name].held for name in allowed},
        unadjusted=tuple(name for name in others if name not in allowed),
        tied=_tied(x, others, kept),
    )


def _tied(x: Numbers, others: Mapping[str, _Coded], kept: Iterable[str]) -> tuple[str, ...]:
    """The params that tell this one: each by itself, or all, or all that are allowed for.

    As many columns as blocks tell everything, and so nothing.
    """
    alone = tuple(name for name in others if _tells(x, others[name].columns))
    if alone:
        return alone
    for names in (tuple(others), tuple(kept)):
        if _tells(x, [column for name in names for column in others[name].columns]):
            return names
    return ()


def _tells(x: Numbers, columns: Iterable[Numbers]) -> bool:
    _, basis = _independent(len(x), columns)
    return basis.shape[1] < len(x) and _spans(basis, (x,))


def _explained(x: Numbers, columns: Sequence[Numbers]) -> float:
    """How much of a param another tells: R², adjusted for its columns (0 is what chance tells)."""
    _, basis = _independent(len(x), columns)
    freedom = len(x) - basis.shape[1]
    if freedom < 1:
        return -math.inf
    rest, centred = x - basis @ (basis.T @ x), x - x.mean()
    return float(1 - (rest @ rest / freedom) / (centred @ centred / (len(x) - 1)))


def _independent(blocks: int, columns: Iterable[Numbers]) -> tuple[Numbers, Numbers]:
    """The columns that neither a constant nor those before them span, and a basis of all that.

    The basis is orthonormal, by Gram and Schmidt; its first vector is the constant.
    """
    basis = np.full((blocks, 1), 1 / math.sqrt(blocks))
    found = [np.empty((blocks, 0))]
    for column in columns:
        if basis.shape[1] == blocks:
            break
        rest = _beyond(basis, column)
        if rest is not None:
            found.append(column[:, None])
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return np.hstack(found), basis


def _spans(basis: Numbers, columns: Iterable[Numbers]) -> bool:
    return all(_beyond(basis, column) is None for column in columns)


def _beyond(basis: Numbers, column: Numbers) -> Numbers | None:
    """What of a column the basis does not span, None where that is rounding."""
    rest: Numbers = column - basis @ (basis.T @ column)
    rest = rest - basis @ (basis.T @ rest)  # once more, for what the first pass rounded off
    within = np.linalg.norm(rest) <= _ROUNDING * np.linalg.norm(column)
    return None if within else rest


def _coded(configs: Sequence[Config]) -> dict[str, _Coded]:
    """Every param that varied; those that all configs have are first, as others hang on them."""
    everywhere = set.intersection(*(set(config) for config in configs))
    names = sorted(set().union(*configs), key=lambda name: (name not in everywhere, name))
    like = configs  # those that are as the params so far are held
    found: dict[str, _Coded] = {}
    for name in names:
        values = [config.get(name) for config in configs]
        if len({str(value) for value in values}) == 1:
            continue
        told = [value for value in values if value is not None]
        if not all(map(_is_finite, told)):
            found[name] = _categories(name, configs)
            held = found[name].held
            like = [config for config in like if _text(config, name) == held] or like
        elif name in everywhere:
            found[name] = _number(np.array(told, dtype=float))
        else:
            found[name] = _conditional(name, configs, like)
    return found


def _is_finite(value: ConfigValue | None) -> bool:
    return is_number(value) and math.isfinite(value)


def _text(config: Config, name: str) -> str:
    return str(config[name]) if name in config else ABSENT


def _categories(name: str, configs: Sequence[Config]) -> _Coded:
    """An indicator for each value but the one that was tried most, at which it is held."""
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
    """A number that some configs lack: how far it is off its median, and whether it is there.

    Held is what most of the configs have that are `like` what else is held: with the cell held at
    lstm, a setting of gru alone is absent.
    """
    median = median_low([float(config[name]) for config in configs if name in config])
    off = np.array([float(config.get(name, median)) - median for config in configs])
    there = np.array([float(name in config) for config in configs])
    is_there = 2 * sum(name in config for config in like) > len(like)
    return _Coded((off, there - is_there), median if is_there else ABSENT)
