"""The best config of each arm: the search's optimum, chosen after the fact, never a fair pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report.derived import value_of
from orchestrator.report.pareto import Point, grouped, point_of
from orchestrator.report.records import Direction, TrialRecord
from orchestrator.trial import Arm, Config

MAIN = (
    *("val_accuracy", "val_bits_per_char", "val_loss", "accuracy", "step_ms", "sample_us"),
    *("train_s", "peak_rss_mib", "energy_per_sample_j", "train_cost_usd"),
)
"""What else is told of a best config, where it was measured."""


@dataclass(frozen=True, slots=True)
class Best:
    """The config by which an arm was best in one objective, out of `tried` configs.

    `value` is the mean over the config's repeats; `values` those of the report's other main
    metrics at the same config.
    """

    arm: Arm
    objective: str
    direction: Direction
    value: float
    block: int
    config: Config
    values: Mapping[str, float]
    tried: int
    run_ids: tuple[str, ...]


def best_of_arm(
    own: Mapping[Arm, Sequence[TrialRecord]], objectives: Mapping[str, Direction]
) -> tuple[Best, ...]:
    """Every arm's best config by each objective that it measured, arm by arm.

    Of equal values that of the earliest block.
    """
    found = []
    for arm, trials in own.items():
        by_key = {trial.run_id: trial for trial in trials}
        configs = grouped(trials)
        for metric, direction in objectives.items():
            points = [point for each in configs if (point := point_of(each, (metric,)))]
            sign = -1 if direction == "maximize" else 1
            if points:
                best = min(points, key=lambda p: (sign * p.values[metric], p.block))
                found.append(_best(arm, metric, direction, best, len(points), by_key))
    return tuple(found)


def _best(
    arm: Arm,
    metric: str,
    direction: Direction,
    point: Point,
    tried: int,
    by_key: Mapping[str, TrialRecord],
) -> Best:
    repeats = [by_key[run_id] for run_id in point.run_ids]
    values = {}
    for name in MAIN:
        told = [value for trial in repeats if (value := value_of(trial, name)) is not None]
        if name != metric and len(told) == len(repeats):
            values[name] = sum(told) / len(told)
    return Best(
        arm, metric, direction, point.values[metric], point.block, point.config, values, tried,
        point.run_ids,
    )  # fmt: skip
