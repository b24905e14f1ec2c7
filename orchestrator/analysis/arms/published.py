"""Rows published elsewhere, beside what was measured here with the same implementation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.derived import finite
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import PublishedRow
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, is_number


@dataclass(frozen=True, slots=True)
class MeasuredBeside:
    """The config of an arm that is nearest to a published row's; `differs` where it is another."""

    arm: Arm
    block: int
    config: Config
    differs: tuple[str, ...]
    values: Mapping[str, float]
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedBeside:
    """A published row, on other hardware and software, and the arms of its implementation."""

    row: PublishedRow
    measured: tuple[MeasuredBeside, ...]


def published(
    record: SweepRecord, own: Mapping[Arm, Sequence[FinishedTrial]]
) -> tuple[PublishedBeside, ...]:
    """Every published row with the nearest config that each arm of its implementation completed."""
    found = []
    for row in record.criteria.published:
        arms = [arm for arm in own if arm.implementation == row.implementation]
        beside = [_nearest(row, arm, own[arm], record.settings) for arm in arms]
        found.append(PublishedBeside(row, tuple(each for each in beside if each is not None)))
    return tuple(found)


def _nearest(
    row: PublishedRow,
    arm: Arm,
    trials: Sequence[FinishedTrial],
    settings: Mapping[str, ConfigValue],
) -> MeasuredBeside | None:
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return None
    first = min(complete, key=lambda t: (_distance(row, {**settings, **t.config}), t.block))
    whole = {**settings, **first.config}
    repeats = [trial for trial in complete if trial.block == first.block]
    values = {}
    for metric in row.metrics:
        told = finite(repeats, metric)
        if told:
            values[metric] = math.fsum(told) / len(told)
    differs = tuple(
        f"{name} {whole.get(name, 'unknown')} and not {wanted}"
        for name, wanted in row.config.items()
        if whole.get(name) != wanted
    )
    run_ids = tuple(trial.run_id for trial in repeats)
    return MeasuredBeside(arm, first.block, first.config, differs, values, run_ids)


def _distance(row: PublishedRow, config: Config) -> float:
    """How unlike two configs are: the sum of the numbers' ratios as logs; 10 for what is no number.

    Only order counts: 10 is further than sizes that differ a thousandfold.
    """
    return math.fsum(_apart(wanted, config.get(name)) for name, wanted in row.config.items())


def _apart(wanted: ConfigValue, found: object) -> float:
    if wanted == found:
        return 0.0
    sizes = [each for each in (wanted, found) if is_number(each) and each > 0]
    return abs(math.log(sizes[0] / sizes[1])) if len(sizes) == 2 else 10.0
