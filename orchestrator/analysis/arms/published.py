"""Published results, next to measurements of this sweep with the same implementation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.measures import finite
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import PublishedRow
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, is_number


@dataclass(frozen=True, slots=True)
class NearestConfig:
    """The arm's config that is nearest to a published one; `differs` lists the differences."""

    arm: Arm
    block: int
    config: Config
    differs: tuple[str, ...]
    values: Mapping[str, float]
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """A published result, from other hardware and software, with this sweep's nearest configs."""

    row: PublishedRow
    measured: tuple[NearestConfig, ...]


def published(
    record: SweepRecord, own: Mapping[Arm, Sequence[FinishedTrial]]
) -> tuple[PublishedComparison, ...]:
    """Return every published row with the nearest complete config of each arm that has its
    implementation.
    """
    comparisons = []
    for row in record.criteria.published:
        arms = [arm for arm in own if arm.implementation == row.implementation]
        nearest = [_nearest(row, arm, own[arm], record.settings) for arm in arms]
        comparisons.append(PublishedComparison(row, tuple(filter(None, nearest))))
    return tuple(comparisons)


def _nearest(
    row: PublishedRow,
    arm: Arm,
    trials: Sequence[FinishedTrial],
    settings: Mapping[str, ConfigValue],
) -> NearestConfig | None:
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return None
    first = min(complete, key=lambda t: (_distance(row, {**settings, **t.config}), t.block))
    whole = {**settings, **first.config}
    repeats = [trial for trial in complete if trial.block == first.block]
    values = {}
    for metric in row.metrics:
        if measured := finite(repeats, metric):
            values[metric] = math.fsum(measured) / len(measured)
    differs = tuple(
        f"{name} {whole.get(name, 'unknown')} and not {wanted}"
        for name, wanted in row.config.items()
        if whole.get(name) != wanted
    )
    run_ids = tuple(trial.run_id for trial in repeats)
    return NearestConfig(arm, first.block, first.config, differs, values, run_ids)


def _distance(row: PublishedRow, config: Config) -> float:
    """Return the distance of two configs: the sum of the numbers' log-ratios, 10 for other values.

    Only the order counts: 10 is further than a thousandfold ratio.
    """
    return math.fsum(
        _value_distance(wanted, config.get(name)) for name, wanted in row.config.items()
    )


def _value_distance(wanted: ConfigValue, value: object) -> float:
    if wanted == value:
        return 0.0
    sizes = [size for size in (wanted, value) if is_number(size) and size > 0]
    return abs(math.log(sizes[0] / sizes[1])) if len(sizes) == 2 else 10.0
