"""The Pareto front: configs that no other config beats in every objective."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.derived import scopes_of
from orchestrator.core.arms import Arm
from orchestrator.core.names import mathematics_of
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import Config, FinishedTrial


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One config on one arm: each objective's mean over its complete repeats.

    `scope` is the scope of its energy, if an objective is one.
    """

    block: int
    arm: Arm
    config: Config
    values: Mapping[str, float]
    repeats: int
    run_ids: tuple[str, ...]
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Front:
    """The non-dominated points out of `tried`; `left_out` counts the configs without a point.

    A config has no point on an arm if a repeat failed or ran another kernel, if no repeat is
    complete, or if an objective is missing, not finite, or an energy with several scopes. If an
    objective is an energy, points compete only within their scope. The arms `apart` have no points,
    because they compute something else or do another amount of work.
    """

    objectives: Mapping[str, Direction]
    points: tuple[ParetoPoint, ...]
    tried: int
    left_out: int
    apart: tuple[Arm, ...] = ()


def pareto_front(record: SweepRecord, mathematics: str = "", work: str = "") -> Front:
    """Return the Pareto front of all arms that compute the same, in the first objective's order.

    Arms timed in slices are kept apart if others were trained.

    Args:
        record: the sweep.
        mathematics: the difference of the baseline's mathematics from the settings.
        work: the baseline's own amount of work.
    """
    modes = {arm: arm.measure for arm in {trial.arm for trial in record.trials}}
    wanted = (mathematics, work, "full" if "full" in modes.values() else "timing")
    apart = {arm for arm, mode in modes.items() if (mathematics_of(arm), arm.work, mode) != wanted}
    alike = [trial for trial in record.trials if trial.arm not in apart]
    return front_of(group_by_config(alike), record.objectives, tuple(sorted(apart)))


def group_by_config(trials: Iterable[FinishedTrial]) -> list[list[FinishedTrial]]:
    """Return the repeats of each config × arm."""
    groups: dict[Arm, dict[int, list[FinishedTrial]]] = {}
    for trial in trials:
        groups.setdefault(trial.arm, {}).setdefault(trial.block, []).append(trial)
    return [repeats for blocks in groups.values() for repeats in blocks.values()]


def front_of(
    configs: Sequence[Sequence[FinishedTrial]],
    objectives: Mapping[str, Direction],
    apart: tuple[Arm, ...] = (),
) -> Front:
    """Return the Pareto front of these configs × arms, by scope, in the first objective's order.

    Args:
        configs: the repeats of each config × arm, as from `group_by_config`.
        objectives: the metrics that count.
        apart: arms that are excluded.
    """
    signs = [(name, -1.0 if aim == "maximize" else 1.0) for name, aim in objectives.items()]
    by_scope: dict[str, list[tuple[tuple[float, ...], Sequence[FinishedTrial]]]] = {}
    for repeats in configs:
        if (values := values_of(repeats, objectives)) is not None:
            costs = tuple(sign * values[name] for name, sign in signs)
            by_scope.setdefault(scope_of(repeats, objectives), []).append((costs, repeats))
    kept: list[ParetoPoint] = []
    for scope in sorted(by_scope) if objectives else ():
        own = by_scope[scope]
        best = sorted(
            (own[i] for i in non_dominated([costs for costs, _ in own])),
            key=lambda point: (point[0], point[1][0].block, point[1][0].arm),
        )
        kept += filter(None, (point_of(repeats, objectives) for _, repeats in best))
    tried = sum(map(len, by_scope.values()))
    return Front(objectives, tuple(kept), tried, len(configs) - tried, apart)


def non_dominated(costs: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the points that no other dominates; lower costs are better.

    One point dominates another if it is nowhere worse and somewhere better. Equal points are kept
    together. In lexicographic order a point can only be dominated by an earlier one, and then also
    by one of the front. So a point is compared with the front so far: Kung, Luccio and Preparata,
    "On finding the maxima of a set of vectors", Journal of the ACM 22(4), 1975. The latest point of
    the front comes first: with two objectives it dominates whatever the front dominates. Points
    with a value that is not finite are never in the front.
    """
    finite = [i for i, cost in enumerate(costs) if all(math.isfinite(c) for c in cost)]
    front: list[int] = []
    for i in sorted(finite, key=lambda i: costs[i]):
        if not any(_dominates(costs[j], costs[i]) for j in reversed(front)):
            front.append(i)
    return sorted(front)


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def point_of(trials: Sequence[FinishedTrial], objectives: Collection[str]) -> ParetoPoint | None:
    """Return the repeats of one config on one arm as a point; None if they have no values."""
    values = values_of(trials, objectives)
    if values is None:
        return None
    complete = [trial for trial in trials if trial.status == "complete"]
    first = complete[0]
    run_ids = tuple(trial.run_id for trial in complete)
    scope = scope_of(complete, objectives)
    return ParetoPoint(first.block, first.arm, first.config, values, len(complete), run_ids, scope)


def values_of(trials: Sequence[FinishedTrial], metrics: Collection[str]) -> dict[str, float] | None:
    """Return the mean of each metric over the repeats of one config on one arm.

    None if a repeat failed or ran another kernel, or if a metric is missing, not finite, or an
    energy with several scopes.
    """
    metrics_of_repeats = []
    for trial in trials:
        if trial.status != "complete":
            return None
        metrics_of_repeats.append(trial.metrics)
    if not metrics_of_repeats or len(scopes_of(trials, metrics)) > 1:
        return None
    values = {}
    for name in metrics:
        numbers = [measured.get(name, math.nan) for measured in metrics_of_repeats]
        if not all(map(math.isfinite, numbers)):
            return None
        values[name] = numbers[0] if len(numbers) == 1 else math.fsum(numbers) / len(numbers)
    return values


def scope_of(trials: Sequence[FinishedTrial], metrics: Collection[str]) -> str:
    """Return the scope of the energy of a config on an arm, if one of the metrics is an energy.

    There is only one if `values_of` has values.
    """
    return min(scopes_of(trials, metrics), default="")
