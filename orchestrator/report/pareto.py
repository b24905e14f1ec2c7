"""The best configs: points that no other point beats in every objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report.records import Direction, SweepRecord, TrialRecord
from orchestrator.selector import mathematics_of, measure_of, work_of
from orchestrator.trial import Arm, Config


@dataclass(frozen=True, slots=True)
class Point:
    """One config on one arm: each objective's mean over its complete repeats."""

    block: int
    arm: Arm
    config: Config
    values: Mapping[str, float]
    repeats: int
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """The non-dominated points, of how many points, and how many could not be one.

    A config on an arm is no point where a repeat failed or ran another kernel, where none is
    complete, or where an objective is missing or not finite. No config is one on the arms `apart`,
    which compute something else than the others, or do another amount of work: to beat them, or be
    beaten, would mean nothing.
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
    modes = {arm: measure_of(arm) for arm in {trial.arm for trial in record.trials}}
    wanted = (mathematics, work, "full" if "full" in modes.values() else "timing")
    apart = {
        arm for arm, mode in modes.items() if (mathematics_of(arm), work_of(arm), mode) != wanted
    }
    alike = [trial for trial in record.trials if trial.arm not in apart]
    found = [point_of(repeats, record.objectives) for repeats in grouped(alike)]
    return front_of(found, record.objectives, tuple(sorted(apart)))


def grouped(trials: Iterable[TrialRecord]) -> list[list[TrialRecord]]:
    """The repeats of each config × arm."""
    groups: dict[Arm, dict[int, list[TrialRecord]]] = {}
    for trial in trials:
        groups.setdefault(trial.arm, {}).setdefault(trial.block, []).append(trial)
    return [each for blocks in groups.values() for each in blocks.values()]


def front_of(
    found: Sequence[Point | None],
    objectives: Mapping[str, Direction],
    apart: tuple[Arm, ...] = (),
) -> Front:
    """The Pareto-best of these points, in the first objective's order; None is no point."""
    points = [point for point in found if point is not None]
    costs = [_costs(point, objectives) for point in points]
    best = non_dominated(costs) if objectives else []
    order = sorted(best, key=lambda i: (costs[i], points[i].block, points[i].arm))
    kept = tuple(points[i] for i in order)
    return Front(objectives, kept, len(points), len(found) - len(points), apart)


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


def point_of(trials: Sequence[TrialRecord], objectives: Iterable[str]) -> Point | None:
    """The repeats of one config on one arm as a point; None where they cannot be one."""
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete or any(t.status in ("failed", "wrong_kernel") for t in trials):
        return None
    values = {}
    for name in objectives:
        told = [trial.metrics.get(name, math.nan) for trial in complete]
        if not all(map(math.isfinite, told)):
            return None
        values[name] = told[0] if len(told) == 1 else math.fsum(told) / len(told)
    first = complete[0]
    run_ids = tuple(trial.run_id for trial in complete)
    return Point(first.block, first.arm, first.config, values, len(complete), run_ids)


def _costs(point: Point, objectives: Mapping[str, Direction]) -> tuple[float, ...]:
    return tuple(
        -point.values[name] if direction == "maximize" else point.values[name]
        for name, direction in objectives.items()
    )
