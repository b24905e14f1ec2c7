"""Published results, each with the configs of this sweep that are nearest to the published one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.analysis.measures import finite
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import PublishedRow
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, is_number, value_text

_WITHOUT_RATIO = 10.0
"""The distance of two values that differ and have no ratio, such as words: only order counts."""


@dataclass(frozen=True, slots=True)
class NearestConfig:
    """The arm's config that is nearest to a published one; `differs` lists the differences.

    `values` has the mean over the repeats of each metric that was published.
    """

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


def compare_with_published(
    record: SweepRecord, by_arm: Mapping[Arm, Sequence[FinishedTrial]]
) -> tuple[PublishedComparison, ...]:
    """Return every published row with the nearest complete config of its implementation's arms."""
    comparisons = []
    for row in record.criteria.published:
        nearest = [
            _nearest_config(row, trials, record.settings)
            for arm, trials in by_arm.items()
            if row.implementation in (arm.implementation, arm.short_name)
        ]
        comparisons.append(PublishedComparison(row, tuple(filter(None, nearest))))
    return tuple(comparisons)


def _nearest_config(
    row: PublishedRow, trials: Sequence[FinishedTrial], settings: Config
) -> NearestConfig | None:
    """Return the config of an arm's complete trials that is nearest to a row; None without any.

    Of equally near configs it is the one of the earliest block.
    """
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return None

    def distance(trial: FinishedTrial) -> tuple[float, int]:
        params = {**settings, **trial.params}
        parts = [_distance(wanted, params.get(name)) for name, wanted in row.config.items()]
        return math.fsum(parts), trial.block

    nearest = min(complete, key=distance)
    params = {**settings, **nearest.params}
    repeats = [trial for trial in complete if trial.block == nearest.block]
    measured = {metric: finite(repeats, metric) for metric in row.metrics}
    return NearestConfig(
        arm=nearest.arm,
        block=nearest.block,
        config=nearest.config,
        differs=tuple(
            f"{name} {value_text(params.get(name, 'unknown'))} and not {value_text(wanted)}"
            for name, wanted in row.config.items()
            if params.get(name) != wanted
        ),
        values={metric: fmean(values) for metric, values in measured.items() if values},
        run_ids=tuple(trial.run_id for trial in repeats),
    )


def _distance(wanted: ConfigValue, value: ConfigValue) -> float:
    """Return how far a value is from the published one: of two sizes, the log of their ratio."""
    if wanted == value:
        return 0.0
    if is_number(wanted) and is_number(value) and wanted > 0 and value > 0:
        return abs(math.log(wanted / value))
    return _WITHOUT_RATIO
