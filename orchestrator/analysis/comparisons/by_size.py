"""Measures and speed-ups by size, because means over all sizes hide an effect of size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeGuard

import numpy as np

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.measures import finite
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
    speedup: Estimate | None
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """The matched blocks whose param has one value, or lies in one range, named by `label`."""

    label: str
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

    The configs are those of the blocks. Without a time metric no param explains anything.
    """
    by_block: dict[Arm, dict[int, list[FinishedTrial]]] = {}
    logs: dict[int, list[float]] = defaultdict(list)
    has_current = set(matched.trials) > set(matched.former)
    for arm, rounds in matched.trials.items():
        own = by_block.setdefault(arm, defaultdict(list))
        for (block, _), trials in rounds.items():
            own[block] += trials
            if metric and not (has_current and arm in matched.former):
                logs[block] += [math.log(value) for value in finite(trials, metric) if value > 0]
    times = {block: fmean(own) for block, own in logs.items() if own}
    ratios = {
        c.arm: {pair.block: pair.baseline / pair.arm for pair in c.pairs} for c in comparisons
    }

    def cell(arm: Arm, blocks: Sequence[int]) -> SizeCell:
        own = by_block[arm]
        trials = [trial for block in blocks for trial in own.get(block, ())]
        pairs = [ratios[arm][block] for block in blocks if block in ratios.get(arm, {})]
        return SizeCell(
            arm,
            sum(block in own for block in blocks),
            spread(finite(trials, metric)) if metric else None,
            geometric_mean(pairs),
            tuple(trial.run_id for trial in trials),
        )

    sizes = []
    for name in sorted({name for block in matched.blocks for name in configs[block]}):
        values = {b: configs[b][name] for b in matched.blocks if name in configs[b]}
        if len(set(values.values())) > 1 or len(values) < len(matched.blocks):
            groups = tuple(
                SizeGroup(label, blocks, tuple(cell(arm, blocks) for arm in by_block))
                for label, blocks in _divided(values)
            )
            sizes.append(BySize(name, _explained(values, times), groups))
    return tuple(sorted(sizes, key=lambda one: (-one.explains, one.param)))


def _divided(values: Mapping[int, ConfigValue]) -> list[tuple[str, tuple[int, ...]]]:
    """Return one range for each value or, for many numbers, ranges with equally many blocks."""
    own: dict[ConfigValue, list[int]] = defaultdict(list)
    for block, value in values.items():
        own[value].append(block)
    if not all(map(is_finite, own)):
        return [(str(value), tuple(own[value])) for value in sorted(own, key=str)]
    parts: dict[int, list[float]] = defaultdict(list)
    done = 0
    for place, size in enumerate(sorted(own, key=float)):
        # a size belongs to the part that contains the middle of its blocks
        middle = int(_GROUPS * (done + len(own[size]) / 2) / len(values))
        parts[place if len(own) <= _GROUPS else middle].append(float(size))
        done += len(own[size])
    return [
        (
            "–".join(map(number, dict.fromkeys((part[0], part[-1])))),
            tuple(sorted(block for size in part for block in own[size])),
        )
        for part in parts.values()
    ]


def is_finite(value: ConfigValue | None) -> TypeGuard[float]:
    """Return True for a number that is neither infinite nor NaN."""
    return is_number(value) and math.isfinite(value)


def _explained(values: Mapping[int, ConfigValue], times: Mapping[int, float]) -> float:
    """Return the explained variance of the log times: R² for a number, η² for groups."""
    timed = {block: value for block, value in values.items() if block in times}
    y = np.array([times[block] for block in timed])
    if len(y) < 3 or not np.ptp(y):
        return 0.0
    if all(is_finite(value) and float(value) > 0 for value in timed.values()):
        x = np.log([float(value) for value in timed.values()])
        return float(np.corrcoef(x, y)[0, 1] ** 2) if np.ptp(x) else 0.0
    groups: dict[ConfigValue, list[float]] = defaultdict(list)
    for block, value in timed.items():
        groups[value].append(times[block])
    return float(1 - sum(np.var(own) * len(own) for own in groups.values()) / (np.var(y) * len(y)))
