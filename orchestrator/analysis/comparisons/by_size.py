"""Measures and speed-ups by size, because means over all sizes hide an effect of size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.metrics.derived import finite
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.analysis.statistics.estimates import Estimate, Spread, geometric_mean, spread
from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, is_number

_GROUPS = 4
"""Number of ranges for a param with more values, with equally many blocks in each."""


@dataclass(frozen=True, slots=True)
class SizeCell:
    """One arm at one size; `speedup` is over its baseline, None for fewer than two blocks."""

    arm: Arm
    blocks: int
    time: Spread | None
    rate: Spread | None
    accuracy: Spread | None
    speedup: Estimate | None
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """The matched blocks whose param has one value, or lies in one range, named by `label`."""

    label: str
    low: float | None
    high: float | None
    blocks: tuple[int, ...]
    cells: tuple[SizeCell, ...]


@dataclass(frozen=True, slots=True)
class BySize:
    """The groups along one param that varied.

    `explains` is the share (R²) of the variance of the blocks' mean log time that the param alone
    explains.
    """

    param: str
    explains: float
    groups: tuple[SizeGroup, ...]


def by_size(
    matched: CompleteRounds,
    configs: Mapping[int, Config],
    comparisons: Sequence[Comparison],
    metric: str | None,
) -> tuple[BySize, ...]:
    """Return the matched blocks by each param that varied, in descending order of `explains`.

    Args:
        matched: the trials of the complete rounds.
        configs: each block's config.
        comparisons: the pairs of times that the speed-ups are made from.
        metric: the time metric; without one no param explains anything.
    """
    blocks = matched.blocks
    varied = [
        name
        for name in sorted({name for block in blocks for name in configs[block]})
        if len({configs[block].get(name) for block in blocks}) > 1
    ]
    by_block = _by_block(matched)
    whole = {arm: own for arm, own in by_block.items() if arm not in matched.former}
    times = {block: _log_time(whole or by_block, block, metric) for block in blocks}
    ratios = {
        c.arm: {pair.block: pair.baseline / pair.arm for pair in c.pairs} for c in comparisons
    }
    sizes = []
    for name in varied:
        values = {block: configs[block][name] for block in blocks if name in configs[block]}
        groups = tuple(
            SizeGroup(label, low, high, own, _cells(own, by_block, ratios, metric))
            for label, low, high, own in _divided(values)
        )
        sizes.append(BySize(name, _explained(values, times), groups))
    return tuple(sorted(sizes, key=lambda one: (-one.explains, one.param)))


def _by_block(matched: CompleteRounds) -> dict[Arm, dict[int, list[FinishedTrial]]]:
    by_block: dict[Arm, dict[int, list[FinishedTrial]]] = {arm: {} for arm in matched.trials}
    for arm, rounds in matched.trials.items():
        for (block, _), trials in rounds.items():
            by_block[arm].setdefault(block, []).extend(trials)
    return by_block


def _cells(
    blocks: Sequence[int],
    trials: Mapping[Arm, Mapping[int, Sequence[FinishedTrial]]],
    ratios: Mapping[Arm, Mapping[int, float]],
    metric: str | None,
) -> tuple[SizeCell, ...]:
    cells = []
    for arm, by_block in trials.items():
        own = [trial for block in blocks for trial in by_block.get(block, ())]
        pairs = [ratios[arm][block] for block in blocks if block in ratios.get(arm, {})]
        cells.append(
            SizeCell(
                arm=arm,
                blocks=sum(block in by_block for block in blocks),
                time=_spread(own, metric) if metric else None,
                rate=_spread(own, "samples_per_s"),
                accuracy=_spread(own, "val_accuracy"),
                speedup=geometric_mean(pairs),
                run_ids=tuple(trial.run_id for trial in own),
            )
        )
    return tuple(cells)


def _spread(trials: Sequence[FinishedTrial], metric: str) -> Spread | None:
    return spread([trial.metrics[metric] for trial in trials if metric in trial.metrics])


def _log_time(
    trials: Mapping[Arm, Mapping[int, Sequence[FinishedTrial]]], block: int, metric: str | None
) -> float | None:
    """Return the mean log of the block's times over all arms."""
    logs = [
        math.log(value)
        for by_block in trials.values()
        for value in (finite(by_block.get(block, ()), metric) if metric else ())
        if value > 0
    ]
    return math.fsum(logs) / len(logs) if logs else None


_Range = tuple[str, float | None, float | None, tuple[int, ...]]


def _divided(values: Mapping[int, ConfigValue]) -> list[_Range]:
    """Return one range for each value or, for many numbers, ranges with equally many blocks."""
    own: dict[ConfigValue, list[int]] = defaultdict(list)
    for block, value in values.items():
        own[value].append(block)
    if not all(map(_is_finite, own)):
        return [(str(value), None, None, tuple(own[value])) for value in sorted(own, key=str)]
    sizes = sorted(own, key=float)
    if len(sizes) <= _GROUPS:
        return [(_name(size), float(size), float(size), tuple(own[size])) for size in sizes]
    parts: dict[int, list[ConfigValue]] = defaultdict(list)
    done = 0
    for size in sizes:  # a size belongs to the part that contains the middle of its blocks
        parts[int(_GROUPS * (done + len(own[size]) / 2) / len(values))].append(size)
        done += len(own[size])
    return [
        (
            _name(part[0]) if len(part) == 1 else f"{_name(part[0])}–{_name(part[-1])}",
            float(part[0]),
            float(part[-1]),
            tuple(sorted(block for size in part for block in own[size])),
        )
        for part in parts.values()
    ]


def _is_finite(value: ConfigValue) -> bool:
    return is_number(value) and math.isfinite(value)


def _name(size: ConfigValue) -> str:
    return number(float(size))


def _explained(values: Mapping[int, ConfigValue], times: Mapping[int, float | None]) -> float:
    """Return the explained variance of the log times: R² for a number, η² for groups."""
    known_times = {block: time for block in values if (time := times.get(block)) is not None}
    y = np.array(list(known_times.values()))
    if len(y) < 3 or not np.ptp(y):
        return 0.0
    if all(_is_finite(values[block]) and float(values[block]) > 0 for block in known_times):
        x = np.log([float(values[block]) for block in known_times])
        return float(np.corrcoef(x, y)[0, 1] ** 2) if np.ptp(x) else 0.0
    groups: dict[ConfigValue, list[float]] = defaultdict(list)
    for block, time in known_times.items():
        groups[values[block]].append(time)
    within = sum(np.var(own) * len(own) for own in groups.values())
    return float(1 - within / (np.var(y) * len(y)))
