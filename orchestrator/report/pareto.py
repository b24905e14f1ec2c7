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
    return front_of(grouped(alike), record.objectives, tuple(sorted(apart)))


def grouped(trials: Iterable[TrialRecord]) -> list[list[TrialRecord]]:
    """The repeats of each config × arm."""
    groups: dict[Arm, dict[int, list[TrialRecord]]] = {}
    for trial in trials:
        groups.setdefault(trial.arm, {}).setdefault(trial.block, []).append(trial)
    return [each for blocks in groups.values() for each in blocks.values()]


def front_of(
    configs: Sequence[Sequence[TrialRecord]],
    objectives: Mapping[str, Direction],
    apart: tuple[Arm, ...] = (),
) -> Front:
    """The Pareto-best of these configs × arms, in the first objective's order.

    Args:
        configs: the repeats of each, as `grouped` has them.
        objectives: the metrics that count.
        apart: arms that are not among them.
    """
    signs = [(name, -1.0 if aim == "maximize" else 1.0) for name, aim in objectives.items()]
    found = [
        (repeats, tuple(sign * values[name] for name, sign in signs))
        for repeats in configs
        if (values := values_of(repeats, objectives)) is not None
    ]
    best = non_dominated([costs for _, costs in found]) if objectives else []
    points = [(found[i][1], point_of(found[i][0], objectives)) for i in best]
    kept = sorted(
        ((costs, point) for costs, point in points if point is not None),
        key=lambda each: (each[0], each[1].block, each[1].arm),
    )
    left_out = len(configs) - len(found)
    return Front(objectives, tuple(point for _, point in kept), len(found), left_out, apart)


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
    values = values_of(trials, objectives)
    if values is None:
        return None
    complete = [trial for trial in trials if trial.status == "complete"]
    first = complete[0]
    run_ids = tuple(trial.run_id for trial in complete)
    return Point(first.block, first.arm, first.config, values, len(complete), run_ids)


def values_of(trials: Sequence[TrialRecord], metrics: Iterable[str]) -> dict[str, float] | None:
    """Each metric's mean over the complete repeats of one config on one arm.

    None where a repeat failed or ran another kernel, or a metric is missing or not finite.
    """
    told = []
    for trial in trials:
        if trial.status == "complete":
            told.append(trial.metrics)
        elif trial.status in ("failed", "wrong_kernel"):
            return None
    if not told:
        return None
    values = {}
    for name in metrics:
        found = [each.get(name, math.nan) for each in told]
        if not all(map(math.isfinite, found)):
            return None
        values[name] = found[0] if len(found) == 1 else math.fsum(found) / len(found)
    return values
