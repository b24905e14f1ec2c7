"""The best configs: points that no other point beats in every objective."""

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
class Point:
    """One config on one arm: each objective's mean over its complete repeats.

    `scope` is what its energy is that of, where an objective is one.
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
    """The non-dominated points, of how many points, and how many could not be one.

    A config on an arm is no point where a repeat failed or ran another kernel, where none is
    complete, or where an objective is missing, not finite, or an energy whose repeats have unlike
    scopes. Where an objective is an energy, points are held against those of their own scope alone.
    No config is one on the arms `apart`, which compute something else than the others, or do
    another amount of work: to beat them, or be beaten, would mean nothing.
    """

    objectives: Mapping[str, Direction]
    points: tuple[Point, ...]
    tried: int
    left_out: int
    apart: tuple[Arm, ...] = ()


def pareto_front(record: SweepRecord, mathematics: str = "", work: str = "") -> Front:
    """The Pareto-best configs over all arms that compute alike, in the first objective's order.

    Arms that were timed in slices stand apart where others were trained.

    Args:
        record: the sweep.
        mathematics: what these arms' differs in from the settings, as the baseline's does.
        work: these arms' own amount of work, which is the baseline's.
    """
    modes = {arm: arm.measure for arm in {trial.arm for trial in record.trials}}
    wanted = (mathematics, work, "full" if "full" in modes.values() else "timing")
    apart = {arm for arm, mode in modes.items() if (mathematics_of(arm), arm.work, mode) != wanted}
    alike = [trial for trial in record.trials if trial.arm not in apart]
    return front_of(grouped(alike), record.objectives, tuple(sorted(apart)))


def grouped(trials: Iterable[FinishedTrial]) -> list[list[FinishedTrial]]:
    """The repeats of each config × arm."""
    groups: dict[Arm, dict[int, list[FinishedTrial]]] = {}
    for trial in trials:
        groups.setdefault(trial.arm, {}).setdefault(trial.block, []).append(trial)
    return [each for blocks in groups.values() for each in blocks.values()]


def front_of(
    configs: Sequence[Sequence[FinishedTrial]],
    objectives: Mapping[str, Direction],
    apart: tuple[Arm, ...] = (),
) -> Front:
    """The Pareto-best of these configs × arms, scope by scope, in the first objective's order.

    Args:
        configs: the repeats of each, as `grouped` has them.
        objectives: the metrics that count.
        apart: arms that are not among them.
    """
    signs = [(name, -1.0 if aim == "maximize" else 1.0) for name, aim in objectives.items()]
    found: dict[str, list[tuple[tuple[float, ...], Sequence[FinishedTrial]]]] = {}
    for repeats in configs:
        if (values := values_of(repeats, objectives)) is not None:
            costs = tuple(sign * values[name] for name, sign in signs)
            found.setdefault(scope_of(repeats, objectives), []).append((costs, repeats))
    kept: list[Point] = []
    for scope in sorted(found) if objectives else ():
        own = found[scope]
        best = sorted(
            (own[i] for i in non_dominated([costs for costs, _ in own])),
            key=lambda each: (each[0], each[1][0].block, each[1][0].arm),
        )
        kept += filter(None, (point_of(repeats, objectives) for _, repeats in best))
    tried = sum(map(len, found.values()))
    return Front(objectives, tuple(kept), tried, len(configs) - tried, apart)


def non_dominated(costs: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the points that no other dominates; every cost is to be small.

    One point dominates another if it is no worse anywhere and better somewhere; equal points
    are kept together. In lexicographic order a point can only be dominated by one before it,
    and then also by one of the front, so each point is held against the front so far: Kung,
    Luccio and Preparata, "On finding the maxima of a set of vectors", Journal of the ACM 22(4),
    1975. The latest of it is asked first: of two objectives it dominates whatever is dominated.
    Points with a value that is not finite are never in the front.
    """
    finite = [i for i, cost in enumerate(costs) if all(math.isfinite(c) for c in cost)]
    front: list[int] = []
    for i in sorted(finite, key=lambda i: costs[i]):
        if not any(_dominates(costs[j], costs[i]) for j in reversed(front)):
            front.append(i)
    return sorted(front)


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def point_of(trials: Sequence[FinishedTrial], objectives: Collection[str]) -> Point | None:
    """The repeats of one config on one arm as a point; None where they cannot be one."""
    values = values_of(trials, objectives)
    if values is None:
        return None
    complete = [trial for trial in trials if trial.status == "complete"]
    first = complete[0]
    run_ids = tuple(trial.run_id for trial in complete)
    scope = scope_of(complete, objectives)
    return Point(first.block, first.arm, first.config, values, len(complete), run_ids, scope)


def values_of(trials: Sequence[FinishedTrial], metrics: Collection[str]) -> dict[str, float] | None:
    """Each metric's mean over the complete repeats of one config on one arm.

    None where a repeat failed or ran another kernel, or a metric is missing, not finite, or an
    energy whose repeats have unlike scopes.
    """
    told = []
    for trial in trials:
        if trial.status != "complete":
            return None
        told.append(trial.metrics)
    if not told or len(scopes_of(trials, metrics)) > 1:
        return None
    values = {}
    for name in metrics:
        found = [each.get(name, math.nan) for each in told]
        if not all(map(math.isfinite, found)):
            return None
        values[name] = found[0] if len(found) == 1 else math.fsum(found) / len(found)
    return values


def scope_of(trials: Sequence[FinishedTrial], metrics: Collection[str]) -> str:
    """What the energy of a config on an arm is that of, where one of the metrics is an energy.

    One scope, if `values_of` has values.
    """
    return min(scopes_of(trials, metrics), default="")
