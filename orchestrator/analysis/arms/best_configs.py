"""Configs chosen after the fact: the best, Pareto fronts, and those nearest to published ones.

Such choices are never a fair comparison. A config has a point on an arm if all of its repeats
completed and have all the metrics. Energies compete only within their scope.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from orchestrator.analysis.measures import finite, scopes_of
from orchestrator.analysis.pairing.margins import JudgedMargin
from orchestrator.analysis.results import result_metrics
from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.criteria import PublishedRow
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, canonical, is_number
from workloads.metrics import FRESH_ONLY, METRICS

TRADED_EXPENSES = tuple(metric.name for metric in METRICS if metric.is_traded_for_accuracy)
"""The expenses of the trade-offs. Peak memory counts only if every trainer was fresh."""

TIE_BREAKERS = ("train_s", "step_ms", "predict_ms")
"""The times that decide between equally good configs, the first that was measured."""

_ROUNDING = 1e-9

_TWO_SIDED = 1.959964
"""The quantile of the normal distribution for 95 %."""

MarginOf: TypeAlias = Callable[[str, float], JudgedMargin]

_Repeats = Sequence[FinishedTrial]  # the trials of one config on one arm


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One config on one arm: each objective's mean over its complete repeats.

    `scope` is the scope of its energy, if an objective is one. `time` is the mean of the first of
    `TIE_BREAKERS` that its trials have: of equally good points the fastest one comes first.
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
        return (*(_rounded(cost) for cost in costs), self.time, self.block, self.arm)


def _rounded(cost: float) -> float:
    """Round to the precision of a mean over batches in float32: closer values are a tie."""
    return float(f"{cost:.5e}") if math.isfinite(cost) else cost


@dataclass(frozen=True, slots=True)
class Front:
    """The non-dominated points out of `tried`; `left_out` counts the configs without a point.

    The arms `apart` have no points, because they do another amount of work, and neither have the
    arms of `different_mathematics`.
    """

    objectives: Mapping[str, Direction]
    points: tuple[ParetoPoint, ...]
    tried: int
    left_out: int
    apart: tuple[Arm, ...] = ()
    different_mathematics: tuple[Arm, ...] = ()


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The front of one result against one expense, on one hardware class or (None) over all.

    A front has energies of one `scope`. A config whose repeats have several is on none.
    """

    result: str
    direction: Direction
    expense: str
    hardware: HardwareRef | None
    front: Front
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The config with the best result, and faster ones, out of `tried` configs × arms.

    `fastest` has the shortest training of all configs within `margin` of the best `result`. `knee`
    is the knee of the Pareto front of both; None for fewer than three points. Their values are the
    result, `train_s` and, if it was measured, `step_ms`. `configs` and `arms` count what was
    tried. Of the other configs (of each variant), `within_noise` have a result (on their best arm)
    that `samples` validation samples cannot tell from the best one (two proportions, 95 %), the
    lowest being `lowest_within_noise`; `samples` is None if the result is no such accuracy.
    `arms_as_good` counts the arms on which the best config has the same result within rounding.
    """

    result: str
    margin: JudgedMargin
    best: ParetoPoint
    fastest: ParetoPoint
    knee: ParetoPoint | None
    tried: int
    configs: int
    arms: int
    arms_as_good: int
    samples: int | None
    within_noise: int
    lowest_within_noise: float | None


def pareto_front(record: SweepRecord, work: str = "", different: Collection[Arm] = ()) -> Front:
    """Return the Pareto front of all arms with this amount of work, in the first objective's order.

    Arms timed in slices are kept apart if others were trained. Arms that are `different` compute
    something else than the others, so they have no place on the front.
    """
    modes = {arm: arm.measure for arm in {trial.arm for trial in record.trials}}
    wanted = (work, "full" if "full" in modes.values() else "timing")
    apart = {arm for arm, mode in modes.items() if (arm.work, mode) != wanted} - set(different)
    left_out = apart.union(different)
    ended = (trial for trial in record.trials if trial.status != "pruned")
    alike = _by_config(trial for trial in ended if trial.arm not in left_out)
    points = [_point(repeats, record.objectives) for repeats in alike]
    front = _front(points, record.objectives)
    return replace(
        front, apart=tuple(sorted(apart)), different_mathematics=tuple(sorted(different))
    )


def trade_offs(record: SweepRecord, trials: Sequence[FinishedTrial]) -> tuple[TradeOff, ...]:
    """Return the fronts of trials with one amount of work: over several classes of hardware first.

    The result is the most important one of the sweep. Arms timed in slices have none, and are on no
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
    configs = [(repeats[0].arm.hardware_class, repeats) for repeats in _by_config(full)]
    classes = dict.fromkeys(place for place, _ in configs)
    places = (None, *classes) if len(classes) > 1 else tuple(classes)
    found = []
    for expense in TRADED_EXPENSES:
        objectives: dict[str, Direction] = {result: direction, expense: "minimize"}
        by_scope: dict[tuple[HardwareRef | None, str], list[ParetoPoint | None]] = {}
        for hardware, repeats in configs if expense in measured else ():
            point = _point(repeats, objectives)
            scope = point.scope if point else min(scopes_of(repeats, (expense,)), default="")
            for place in {None, hardware}:
                by_scope.setdefault((place, scope), []).append(point)
        for place in places:
            for (own_place, scope), points in by_scope.items():
                if own_place == place and any(points):
                    front = _front(points, objectives)
                    found.append(TradeOff(result, direction, expense, place, front, scope))
    return tuple(found)


def choose_by_result(
    fronts: Sequence[TradeOff], trials: Sequence[FinishedTrial], margin_of: MarginOf
) -> Choice | None:
    """Return the choice on the front of the result and `train_s` that is over all hardware.

    None without such a front, and for a single config, which is measured to compare arms. `trials`
    are the trials of the fronts; `margin_of` gives the difference that does not matter from a
    value of a result.
    """
    whole = next((front for front in fronts if front.expense == "train_s"), None)
    if whole is None or len({canonical(trial.config) for trial in trials}) < 2:
        return None
    sign, result, points = sign_of(whole.direction), whole.result, whole.front.points
    points = tuple(sorted(points, key=lambda point: point.order(sign * point.values[result])))
    costs = [(sign * point.values[result], point.values["train_s"]) for point in points]
    margin = margin_of(result, points[0].values[result])
    limit = costs[0][0] + margin.value + _ROUNDING
    within = [i for i, (cost, _) in enumerate(costs) if cost <= limit]
    fast = min(within, key=lambda i: costs[i][1])

    def with_step(point: ParetoPoint) -> ParetoPoint:
        of_config = [
            trial for trial in trials if (trial.block, trial.arm) == (point.block, point.arm)
        ]
        return replace(point, values={**point.values, **means(of_config, ("step_ms",))})

    best, fastest, bend = with_step(points[0]), with_step(points[fast]), _knee(costs)
    knee = None if bend is None else with_step(points[bend])
    every = config_points((trial for trial in trials if trial.status != "pruned"), (result,))
    as_good = {
        point.arm
        for point in every
        if (point.block, point.arm.variant) == (best.block, best.arm.variant)
        and _rounded(point.values[result]) == _rounded(best.values[result])
    }
    best_of_config: dict[object, float] = {}
    for point in every:
        key = point.block, point.arm.variant
        cost = sign * point.values[result]
        best_of_config[key] = min(cost, best_of_config.get(key, math.inf))
    not_told_apart = [
        sign * cost
        for key, cost in best_of_config.items()
        if key != (best.block, best.arm.variant)
        and margin.samples is not None
        and not _are_told_apart(sign * cost, best.values[result], margin.samples)
    ]
    return Choice(
        result=result,
        margin=margin,
        best=best,
        fastest=fastest,
        knee=knee,
        tried=whole.front.tried,
        configs=len({point.block for point in every}),
        arms=len({point.arm for point in every}),
        arms_as_good=len(as_good),
        samples=margin.samples,
        within_noise=len(not_told_apart),
        lowest_within_noise=min(not_told_apart, default=None),
    )


def _are_told_apart(share: float, other: float, samples: int) -> bool:
    """Return whether two shares of so many samples differ by more than chance (95 %, two-sided)."""
    error = math.sqrt((share * (1 - share) + other * (1 - other)) / samples)
    return abs(share - other) > _TWO_SIDED * error + _ROUNDING


def _knee(costs: Sequence[tuple[float, float]]) -> int | None:
    """Return the index of a front's knee: the point farthest below the line between its ends.

    Both axes are scaled to 1 between the ends, time by its logarithm, because ratios of it matter:
    I. Das, "On characterizing the knee of the Pareto curve based on Normal-Boundary Intersection",
    Structural Optimization 18, 1999.
    """
    (best, slowest), (worst, fastest) = costs[0], costs[-1]
    if not 0 < fastest < slowest:
        return None
    sums = [
        (cost - best) / (worst - best) + math.log(time / fastest) / math.log(slowest / fastest)
        for cost, time in costs
    ]
    bend = min(range(len(sums)), key=lambda i: sums[i])
    return bend if sums[bend] < 1 - _ROUNDING else None


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


@dataclass(frozen=True, slots=True)
class NearestConfig:
    """The arm's config that is nearest to a published one; `differs` lists the differences."""

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


def published(
    record: SweepRecord, by_arm: Mapping[Arm, Sequence[FinishedTrial]]
) -> tuple[PublishedComparison, ...]:
    """Return every published row with the nearest complete config of its implementation's arms."""
    comparisons = []
    for row in record.criteria.published:
        arms = {
            arm: trials
            for arm, trials in by_arm.items()
            if row.implementation in (arm.implementation, arm.short_name)
        }
        nearest = (_nearest(row, trials, record.settings) for trials in arms.values())
        comparisons.append(PublishedComparison(row, tuple(filter(None, nearest))))
    return tuple(comparisons)


def _nearest(
    row: PublishedRow, trials: Sequence[FinishedTrial], settings: Config
) -> NearestConfig | None:
    def distance(trial: FinishedTrial) -> tuple[float, int]:
        config = {**settings, **trial.params}
        parts = (_distance(wanted, config.get(name)) for name, wanted in row.config.items())
        return math.fsum(parts), trial.block

    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return None
    first = min(complete, key=distance)
    repeats = [trial for trial in complete if trial.block == first.block]
    measured = {metric: finite(repeats, metric) for metric in row.metrics}
    whole = {**settings, **first.params}
    differs = tuple(
        f"{name} {whole.get(name, 'unknown')} and not {wanted}"
        for name, wanted in row.config.items()
        if whole.get(name) != wanted
    )
    means = {metric: fmean(values) for metric, values in measured.items() if values}
    run_ids = tuple(trial.run_id for trial in repeats)
    return NearestConfig(first.arm, first.block, first.config, differs, means, run_ids)


def _distance(wanted: ConfigValue, value: ConfigValue | None) -> float:
    """Return the log-ratio of two numbers, 10 for unlike other values: only the order counts."""
    if wanted == value:
        return 0.0
    sizes = [size for size in (wanted, value) if is_number(size) and size > 0]
    return abs(math.log(sizes[0] / sizes[1])) if len(sizes) == 2 else 10.0
