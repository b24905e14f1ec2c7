"""The best config of each arm: the optimum of the search, never a fair comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import group_by_config, scope_of, values_of
from orchestrator.analysis.metrics.derived import finite, scopes_of
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction
from orchestrator.core.trial import Config, FinishedTrial

MAIN = (
    *("val_accuracy", "val_bits_per_char", "val_loss", "accuracy", "step_ms", "sample_us"),
    *("train_s", "peak_rss_mib", "energy_per_sample_j", "train_cost_usd"),
)
"""The metrics reported of a best config, if they were measured."""


@dataclass(frozen=True, slots=True)
class Best:
    """The config with an arm's best value of one objective, out of `tried` configs.

    `value` is the mean over the config's repeats; `values` are those of the other main metrics at
    the same config. `scope` is the scope of the energy, if the objective is one.
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
    """Return every arm's best config by each objective that it measured, for each energy scope.

    The earliest block wins a tie.
    """
    best_configs = []
    for trials in own.values():
        configs = group_by_config(trials)
        for metric, direction in objectives.items():
            by_scope: dict[str, list[tuple[float, list[FinishedTrial]]]] = {}
            for repeats in configs:
                if (values := values_of(repeats, (metric,))) is not None:
                    scope = scope_of(repeats, (metric,))
                    by_scope.setdefault(scope, []).append((values[metric], repeats))
            sign = -1 if direction == "maximize" else 1
            for scope in sorted(by_scope):
                candidates = by_scope[scope]
                _, repeats = min(candidates, key=lambda one: (sign * one[0], one[1][0].block))
                best_configs.append(_best(metric, direction, repeats, len(candidates)))
    return tuple(best_configs)


def _best(metric: str, direction: Direction, trials: Sequence[FinishedTrial], tried: int) -> Best:
    repeats = [trial for trial in trials if trial.status == "complete"]
    values = {}
    for name in (metric, *MAIN):
        measured = finite(repeats, name)
        if len(measured) == len(repeats) and len(scopes_of(repeats, (name,))) < 2:
            values[name] = sum(measured) / len(measured)
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
