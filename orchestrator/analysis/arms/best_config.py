"""The best config of each arm: the search's optimum, chosen after the fact, never a fair pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import grouped, scope_of, values_of
from orchestrator.analysis.metrics.derived import finite, scopes_of
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction
from orchestrator.core.trial import Config, FinishedTrial

MAIN = (
    *("val_accuracy", "val_bits_per_char", "val_loss", "accuracy", "step_ms", "sample_us"),
    *("train_s", "peak_rss_mib", "energy_per_sample_j", "train_cost_usd"),
)
"""What else is told of a best config, where it was measured."""


@dataclass(frozen=True, slots=True)
class Best:
    """The config by which an arm was best in one objective, out of `tried` configs.

    `value` is the mean over the config's repeats; `values` those of the report's other main
    metrics at the same config. `scope` is what the energy is that of, where the objective is one.
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
    scope: str = ""


def best_of_arm(
    own: Mapping[Arm, Sequence[FinishedTrial]], objectives: Mapping[str, Direction]
) -> tuple[Best, ...]:
    """Every arm's best config by each objective that it measured, arm by arm and scope by scope.

    Of equal values that of the earliest block.
    """
    found = []
    for trials in own.values():
        configs = grouped(trials)
        for metric, direction in objectives.items():
            told: dict[str, list[tuple[float, list[FinishedTrial]]]] = {}
            for repeats in configs:
                if (values := values_of(repeats, (metric,))) is not None:
                    scope = scope_of(repeats, (metric,))
                    told.setdefault(scope, []).append((values[metric], repeats))
            sign = -1 if direction == "maximize" else 1
            for scope in sorted(told):
                _, repeats = min(told[scope], key=lambda each: (sign * each[0], each[1][0].block))
                found.append(_best(metric, direction, repeats, len(told[scope])))
    return tuple(found)


def _best(metric: str, direction: Direction, trials: Sequence[FinishedTrial], tried: int) -> Best:
    repeats = [trial for trial in trials if trial.status == "complete"]
    values = {}
    for name in (metric, *MAIN):
        told = finite(repeats, name)
        if len(told) == len(repeats) and len(scopes_of(repeats, (name,))) < 2:
            values[name] = sum(told) / len(told)
    first = repeats[0]
    return Best(
        arm=first.arm,
        objective=metric,
        direction=direction,
        value=values.pop(metric),
        block=first.block,
        config=first.config,
        values=values,
        tried=tried,
        run_ids=tuple(trial.run_id for trial in repeats),
        scope=scope_of(repeats, (metric,)),
    )
