"""Configs chosen after the fact: the best, and Pareto fronts.

Such choices are never a fair comparison. A config has a point on an arm if all of its repeats
completed and have all the metrics. Energies compete only within their scope.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from orchestrator.analysis.measures import scopes_of
from orchestrator.analysis.results import result_metrics
from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import Config, FinishedTrial
from workloads.metrics import FRESH_ONLY, METRICS

TRADED_EXPENSES = tuple(metric.name for metric in METRICS if metric.is_traded_for_accuracy)
"""The expenses of the trade-offs. Peak memory counts only if every trainer was fresh."""

TIE_BREAKERS = ("train_s", "step_ms", "predict_ms")
"""The times that decide between equally good configs, the first that was measured."""

_Repeats = Sequence[FinishedTrial]  # the trials of one config on one arm


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One config on one arm, with each objective's mean over the complete repeats.

    `scope` is the scope of the energy, if energy is an objective. `time` is the mean of the first
    metric in `TIE_BREAKERS` that the trials have; it decides between equally good points.
    """

    block: int
    arm: Arm
    config: Config
    values: Mapping[str, float]
    repeats: int
    run_ids: tuple[str, ...]
    scope: str = ""
    time: float = math.inf

    def order(self, *costs: float) -> tuple[object, ...]:
        """Return the sort key that chooses among points with these costs, ties included."""
        return (*map(rounded_for_ties, costs), self.time, self.block, self.arm)


def rounded_for_ties(value: float) -> float:
    """Round to the precision of a mean over batches in float32: closer values are a tie."""
    return float(f"{value:.5e}") if math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class Front:
    """The non-dominated points.

    Attributes:
        objectives: The objectives with their better directions.
        points: The points that no other point beats in every objective.
        tried: The number of configs tried.
        left_out: The number of configs without a point.
        unlike_work: Arms without points, because they did different work.
        different_mathematics: Arms without points, because they compute something else.
    """

    objectives: Mapping[str, Direction]
    points: tuple[ParetoPoint, ...]
    tried: int
    left_out: int
    unlike_work: tuple[Arm, ...] = ()
    different_mathematics: tuple[Arm, ...] = ()


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The front of one result against one expense, on one hardware class or on all (None).

    All energies of a front have the same `scope`. A config whose repeats differ in scope is on no
    front.
    """

    result: str
    direction: Direction
    expense: str
    hardware: HardwareRef | None
    front: Front
    scope: str = ""


def pareto_front(record: SweepRecord, work: str = "", different: Collection[Arm] = ()) -> Front:
    """Return the Pareto front of all arms with this amount of work, in the first objective's order.

    Arms that were only timed are left out if others were trained. Arms that are `different` compute
    something else than the others, so they have no row on the front.
    """
    modes = {arm: arm.measure for arm in {trial.arm for trial in record.trials}}
    wanted = (work, "full" if "full" in modes.values() else "timing")
    unlike = {arm for arm, mode in modes.items() if (arm.work, mode) != wanted} - set(different)
    left_out = unlike.union(different)
    ended = (trial for trial in record.trials if trial.status != "pruned")
    alike = _by_config(trial for trial in ended if trial.arm not in left_out)
    points = [_point(repeats, record.objectives) for repeats in alike]
    front = _front(points, record.objectives)
    return replace(
        front, unlike_work=tuple(sorted(unlike)), different_mathematics=tuple(sorted(different))
    )


def trade_offs(record: SweepRecord, trials: Sequence[FinishedTrial]) -> tuple[TradeOff, ...]:
    """Return the fronts of trials with one amount of work: over several classes of hardware first.

    The result is the most important one of the sweep. Arms timed only have none, and are on no
    front.
    """
    full = [t for t in trials if t.arm.measure == "full" and t.status != "pruned"]
    complete = [trial for trial in full if trial.status == "complete"]
    measured = {metric for trial in complete for metric in trial.metrics}
    if any(trial.trainer_trials > 0 for trial in complete):
        measured -= set(FRESH_ONLY)
    results = result_metrics(record, measured)
    if not results:
        return ()
    result, direction = next(iter(results.items()))
    configs = _by_config(full)
    classes = list(dict.fromkeys(repeats[0].arm.hardware_class for repeats in configs))
    classes_or_all: list[HardwareRef | None] = [None, *classes] if len(classes) > 1 else [*classes]
    found = []
    for expense in TRADED_EXPENSES:
        if expense not in measured:
            continue
        objectives: dict[str, Direction] = {result: direction, expense: "minimize"}
        points_of = _points_by_hardware_and_scope(configs, objectives, expense)
        for hardware in classes_or_all:
            for (hardware_of_points, scope), points in points_of.items():
                if hardware_of_points == hardware and any(points):
                    front = _front(points, objectives)
                    found.append(TradeOff(result, direction, expense, hardware, front, scope))
    return tuple(found)


def _points_by_hardware_and_scope(
    configs: Sequence[_Repeats], objectives: Collection[str], expense: str
) -> dict[tuple[HardwareRef | None, str], list[ParetoPoint | None]]:
    """Return the points on each hardware class, and over all of them (None), by scope of energy.

    A config without a point is None.
    """
    points_of: dict[tuple[HardwareRef | None, str], list[ParetoPoint | None]] = {}
    for repeats in configs:
        point = _point(repeats, objectives)
        scope = point.scope if point else min(scopes_of(repeats, (expense,)), default="")
        for hardware in (None, repeats[0].arm.hardware_class):
            points_of.setdefault((hardware, scope), []).append(point)
    return points_of


def sign_of(direction: Direction) -> float:
    """Return the factor that makes a cost of a value: less is better."""
    return -1.0 if direction == "maximize" else 1.0


def means(trials: Sequence[FinishedTrial], metrics: Iterable[str]) -> dict[str, float]:
    """Return the means of those metrics that all repeats of a config on an arm have."""
    points = (_point(trials, (name,)) for name in metrics)
    return {name: value for point in points if point for name, value in point.values.items()}


def config_points(trials: Iterable[FinishedTrial], metrics: Collection[str]) -> list[ParetoPoint]:
    """Return the means of these metrics of each config × arm, if all of its repeats have them."""
    return list(filter(None, (_point(repeats, metrics) for repeats in _by_config(trials))))


def _by_config(trials: Iterable[FinishedTrial]) -> list[_Repeats]:
    """Return the repeats of each config × arm."""
    groups: dict[Arm, dict[int, list[FinishedTrial]]] = {}
    for trial in trials:
        groups.setdefault(trial.arm, {}).setdefault(trial.block, []).append(trial)
    return [repeats for blocks in groups.values() for repeats in blocks.values()]


def _front(
    configs: Sequence[ParetoPoint | None],
    objectives: Mapping[str, Direction],
) -> Front:
    """Return the Pareto front of these configs × arms, by scope, in the first objective's order."""
    signs = [(name, sign_of(aim)) for name, aim in objectives.items()]
    kept: list[ParetoPoint] = []
    by_scope: dict[str, list[ParetoPoint]] = {}
    for point in filter(None, configs):
        by_scope.setdefault(point.scope, []).append(point)
    for _, points in sorted(by_scope.items()) if objectives else ():
        costs = [tuple(sign * point.values[name] for name, sign in signs) for point in points]
        best = sorted(non_dominated(costs), key=lambda i: points[i].order(*costs[i]))
        kept += [points[i] for i in best]
    tried = sum(point is not None for point in configs)
    return Front(objectives, tuple(kept), tried, len(configs) - tried)


def non_dominated(costs: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the points that no other dominates; lower costs are better.

    A point dominates another if it is nowhere worse and somewhere better; equal points are kept
    together. In lexicographic order a point is compared with the front so far, its latest point
    first: Kung, Luccio and Preparata, "On finding the maxima of a set of vectors", Journal of the
    ACM 22(4), 1975.
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: costs[i]):
        better = (costs[j] for j in reversed(front) if costs[j] != costs[i])
        if not any(
            all(a <= b for a, b in zip(cheaper, costs[i], strict=True)) for cheaper in better
        ):
            front.append(i)
    return sorted(front)


def _point(trials: _Repeats, metrics: Collection[str]) -> ParetoPoint | None:
    """Return the means over the repeats of one config on one arm; None if one is not comparable."""
    scopes = scopes_of(trials, metrics)
    if len(scopes) > 1 or any(trial.status != "complete" for trial in trials):
        return None
    values = {}
    for name in metrics:
        numbers = [trial.metrics.get(name, math.nan) for trial in trials]
        if not all(map(math.isfinite, numbers)):
            return None
        values[name] = numbers[0] if len(numbers) == 1 else fmean(numbers)
    first, run_ids = trials[0], tuple(trial.run_id for trial in trials)
    times = ([trial.metrics.get(name, math.inf) for trial in trials] for name in TIE_BREAKERS)
    time = next((fmean(of_trials) for of_trials in times if math.inf not in of_trials), math.inf)
    scope = min(scopes, default="")
    return ParetoPoint(
        first.block, first.arm, first.config, values, len(trials), run_ids, scope, time
    )
