"""Rankings: the fastest implementation on some hardware, the cheapest hardware for one, …

All pairs of a group are one family, which accounts for the leader being chosen by its own numbers:
a wrong leader occurs in at most 5 % of groups. A break-even: the steps that pay a compilation off.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.measures import scopes_of, value_of
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Qualifier,
    Round,
    RoundSelection,
    UnitKind,
)
from orchestrator.analysis.pairing.pairs import Baseline, positive_values
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.verdicts import Conclusion, judge
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.names import known_implementation
from orchestrator.core.text import counted
from workloads.metrics import FRESH_ONLY, METRICS, WITH_ENERGY_SCOPE

Among = Literal["implementations", "hardware", "arms"]
Standing = Literal["same", "worse", "inconclusive"]

RANKED = tuple(metric.name for metric in METRICS if metric.superlative)
"""Metrics of rankings in addition to time, if they were measured; small is good.

Memory counts only if every trainer was fresh.
"""


def standing_of(conclusion: Conclusion) -> Standing:
    """Return the standing of an arm behind the leader by what the comparison of the two shows."""
    match conclusion:
        case "same":
            return "same"
        case "more":
            return "worse"
        case _:
            return "inconclusive"


@dataclass(frozen=True, slots=True)
class Behind:
    """An arm compared with the leader of its group.

    `ratio` is its value over the leader's (geometric mean over blocks), with the corrected
    interval, or the plain one if the blocks are too few for a standing.
    """

    arm: Arm
    standing: Standing
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group of comparable arms, ranked by one metric; the leader has the smallest values.

    `among` is the kind of choice: implementations (in all variants) `within` one hardware class,
    hardware `within` one implementation (and variant), or arms (`within` is empty). `sole` is true
    if the leader is significantly better than each other one. `disturbed` counts the `blocks` in
    which an arm was disturbed, if there were too few quiet ones, and `disturbance` has the causes
    with their medians. `unit` and `qualifier` are as in a `Comparison`. `reason` explains why no
    standing is possible. `left_out` are arms of an earlier start that lack the rounds for a rank.
    """

    metric: str
    among: Among
    within: str
    leader: Arm
    behind: tuple[Behind, ...]
    unit: UnitKind
    blocks: int
    sole: bool
    qualifier: Qualifier | None
    disturbed: int
    reason: str | None
    left_out: tuple[Arm, ...]
    disturbance: Disturbance


def rankings(
    matched: CompleteRounds,
    metric: str | None,
    margin: float,
    error: float = 1 - CONFIDENCE,
    selections: Mapping[Arm, RoundSelection] = MappingProxyType({}),
) -> tuple[Ranking, ...]:
    """Rank the arms of each hardware class, the hardware of each implementation, and all arms.

    The arms of a group have equal amounts of work and measuring modes, and for energy the same
    scope. Without a `metric` of time there is no ranking by time. Values within the margin
    (a share) are the same; `error` is the share of groups in which a standing may be wrong.
    Arms that share one of the `selections` are ranked by time over its rounds.
    """
    results = []
    every = (trial for arm in matched.trials for trial in matched.all_trials(arm))
    is_fresh = all(trial.trainer_trials == 0 for trial in every)
    for ranked_by in filter(None, (metric, *RANKED)):
        if ranked_by in FRESH_ONLY and not is_fresh:
            continue
        times = {arm: positive_values(matched, arm, ranked_by) for arm in matched.trials}
        logs = {
            arm: {place: math.log(item.value) for place, item in by_place.items()}
            for arm, by_place in times.items()
            if by_place
        }
        of_metric = selections if ranked_by == metric else {}
        for group in _groups(matched, ranked_by, list(logs)):
            ranking = _rank(matched, ranked_by, group, logs, margin, error, of_metric)
            if ranking is not None:
                results.append(ranking)
    return tuple(results)


class _Group(NamedTuple):
    """Arms that are ranked; see `Ranking`."""

    among: Among
    within: str
    arms: Sequence[Arm]


def _groups(matched: CompleteRounds, metric: str, measured: Sequence[Arm]) -> Iterator[_Group]:
    """Return the groups of the arms that have the metric, by the kind of choice."""
    members: dict[Among, dict[tuple[str | HardwareUse, object], list[Arm]]] = {
        "implementations": {}, "hardware": {}, "arms": {},
    }  # fmt: skip
    for arm in measured:
        scopes = scopes_of(matched.all_trials(arm)) if metric in WITH_ENERGY_SCOPE else frozenset()
        is_host_of_gpu = metric == "peak_rss_mib" and arm.device == "gpu"
        if len(scopes) > 1 or "" in scopes or is_host_of_gpu:
            continue
        alike = (arm.work, arm.measure, scopes)
        if metric != "train_cost_usd":  # on one hardware class it is proportional to time
            members["implementations"].setdefault((arm.hardware, alike), []).append(arm)
        members["hardware"].setdefault((arm.short_name, alike), []).append(arm)
        members["arms"].setdefault(("", alike), []).append(arm)
    for among, groups in members.items():
        for (within, _), arms in groups.items():
            hardware, names = {arm.hardware for arm in arms}, {arm.short_name for arm in arms}
            if among != "arms" or (len(hardware) > 1 and len(names) > 1):  # else it is another one
                yield _Group(among, str(within), arms)


def _rank(
    matched: CompleteRounds,
    metric: str,
    group: _Group,
    logs_of: Mapping[Arm, Mapping[Round, float]],
    margin: float,
    error: float,
    selections: Mapping[Arm, RoundSelection],
) -> Ranking | None:
    """Return the leader and the standings of the others; None without two arms or common rounds."""
    # Arms of an earlier start that lack rounds would exclude these rounds.
    whole = [arm for arm in group.arms if len(matched.trials[arm]) == len(matched.rounds)]
    ranked = whole if len(whole) > 1 else list(group.arms)
    shared = set.intersection(*(set(logs_of[arm]) for arm in ranked))
    selection = selections.get(ranked[0])
    if selection is None or any(selections.get(arm) is not selection for arm in ranked):
        selection = matched.select(shared, ranked)
    blocks = selection.by_unit.values()
    if len(ranked) < 2 or not blocks:
        return None
    logs = {
        arm: np.array([fmean(logs_of[arm][place] for place in places) for places in blocks])
        for arm in ranked
    }
    order = sorted(ranked, key=lambda arm: float(logs[arm].mean()))
    differences = [
        (logs[second] - logs[first]).tolist() for first, second in combinations(order, 2)
    ]
    judged = judge(differences, math.log1p(margin), error)
    behind = []  # the pairs of the leader come first
    for arm, logs_behind, judgement in zip(order[1:], differences, judged, strict=False):
        ratio = estimates.exponential(judgement.corrected or estimates.t_interval(logs_behind))
        behind.append(Behind(arm, standing_of(judgement.conclusion), ratio))
    return Ranking(
        metric,
        group.among,
        group.within,
        leader=order[0],
        behind=tuple(behind),
        unit=selection.unit_kind,
        blocks=len(blocks),
        sole=all(other_arm.standing == "worse" for other_arm in behind),
        qualifier=selection.qualifier,
        disturbed=0 if selection.quiet_only else len(selection.disturbed),
        reason=f"at least {MIN_BLOCKS} are needed" if len(blocks) < MIN_BLOCKS else None,
        left_out=tuple(arm for arm in group.arms if arm not in ranked),
        disturbance=selection.disturbance,
    )


BreakEvenVerdict = Literal["pays", "never", "inconclusive"]
Trainers = Literal["warm", "fresh"]


@dataclass(frozen=True, slots=True)
class BlockExpense:
    """One block: the extra compile time of the arm, and the time saved per step or prediction.

    It is of one `repeat` where repeats of one config are compared.
    """

    block: int
    repeat: int | None
    extra_compile_s: float
    saved_step_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """An arm that compiles longer than another, and the steps after which that pays off.

    `steps` is the ratio of the means over blocks with Fieller's interval; None if it never pays off
    or is inconclusive, for `reason`. Only trials of warm trainers count, as the first one includes
    the start of its trainer, or all if all trainers are fresh (`trainers`). Intervals are corrected
    for the number of pairs in the report (Bonferroni). `unit` and `qualifier` are as in a
    `Comparison`. A step is the prediction of a batch where
    predictions were timed.
    """

    arm: Arm
    baseline: Arm
    verdict: BreakEvenVerdict = "inconclusive"
    steps: Estimate | None = None
    extra_compile_s: Estimate | None = None
    saved_step_ms: Estimate | None = None
    blocks: tuple[BlockExpense, ...]
    trainers: Trainers
    unit: UnitKind
    qualifier: Qualifier | None
    reason: str | None = None


def break_evens(
    matched: CompleteRounds, baseline: Baseline | None, confidence: float = CONFIDENCE
) -> tuple[BreakEven, ...]:
    """Compare, on each hardware, every arm with the baseline's implementation, and +xla with none.

    Only pairs of the same variant; the arm that compiles longer comes first. Intervals have
    the level `confidence` if there is one pair.
    """
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    trainers: Trainers = "fresh" if all(t.trainer_trials == 0 for t in every) else "warm"
    paid = {arm: _paid(matched, arm, trainers) for arm in matched.trials}
    pairs: dict[frozenset[Arm], BreakEven] = {}
    for arm in matched.trials:
        for base in _partners(arm, matched.trials, baseline):
            ours, theirs = paid[arm], paid[base]
            selection = matched.select(ours.keys() & theirs.keys(), (arm, base))
            expenses = tuple(
                BlockExpense(
                    block,
                    repeat,
                    fmean(ours[place][0] - theirs[place][0] for place in rounds),
                    fmean(theirs[place][1] - ours[place][1] for place in rounds),
                )
                for (block, repeat), rounds in selection.by_unit.items()
            )
            if expenses:
                pair = BreakEven(
                    arm=arm,
                    baseline=base,
                    blocks=expenses,
                    trainers=trainers,
                    unit=selection.unit_kind,
                    qualifier=selection.qualifier,
                )
                pairs.setdefault(frozenset((arm, base)), pair)
    corrected = 1 - (1 - confidence) / max(1, len(pairs))
    return tuple(_judged(pair, corrected) for pair in pairs.values())


def _partners(arm: Arm, arms: Iterable[Arm], baseline: Baseline | None) -> list[Arm]:
    """Return the arms on the same hardware whose compilation this arm's is compared with."""
    names = {base.implementation for base in baseline.of.values()} if baseline else set()
    implementation = known_implementation(arm)
    if implementation and "xla" in implementation.options:
        rest = tuple(option for option in implementation.options if option != "xla")
        names.add(str(replace(implementation, options=rest)))
    return [
        candidate
        for candidate in arms
        if candidate.implementation in names
        and candidate != arm
        and candidate.hardware == arm.hardware
        and candidate.variant == arm.variant
    ]


def _paid(
    matched: CompleteRounds, arm: Arm, trainers: Trainers
) -> dict[Round, tuple[float, float]]:
    """Return compile seconds and step milliseconds of the rounds that such a trainer ran."""
    times = {}
    for place, trials in matched.trials[arm].items():
        for trial in trials:
            compile_s, step_ms = value_of(trial, "compile_s"), value_of(trial, "step_ms")
            if step_ms is None:
                step_ms = value_of(trial, "predict_ms")
            fresh = trial.trainer_trials == 0
            if fresh == (trainers == "fresh") and compile_s is not None and step_ms is not None:
                times[place] = compile_s, step_ms
    return times


def _judged(pair: BreakEven, confidence: float) -> BreakEven:
    """Return the pair with its verdict; the arm that compiles longer comes first."""
    if math.fsum(expense.extra_compile_s for expense in pair.blocks) < 0:
        turned = tuple(
            replace(e, extra_compile_s=-e.extra_compile_s, saved_step_ms=-e.saved_step_ms)
            for e in pair.blocks
        )
        pair = replace(pair, arm=pair.baseline, baseline=pair.arm, blocks=turned)
    extra = estimates.t_interval([expense.extra_compile_s for expense in pair.blocks], confidence)
    saved = estimates.t_interval([expense.saved_step_ms for expense in pair.blocks], confidence)
    pair = replace(pair, extra_compile_s=extra, saved_step_ms=saved)
    if extra is None or saved is None or len(pair.blocks) < MIN_BLOCKS:
        blocks = f"{counted(len(pair.blocks), 'block')} with {pair.trainers} trainers on both"
        return replace(pair, reason=f"{blocks}; at least {MIN_BLOCKS} are needed")
    if extra.low <= 0:
        return replace(pair, reason="a difference of their compile times is not shown")
    if saved.high <= 0:
        return replace(pair, verdict="never", reason="its steps are not shorter")
    if saved.low <= 0:
        return replace(pair, reason="a difference of their step times is not shown")
    return replace(pair, verdict="pays", steps=_ratio_of_means(pair.blocks, confidence))


def _ratio_of_means(expenses: Sequence[BlockExpense], confidence: float) -> Estimate:
    """Return the steps: mean seconds over mean milliseconds, with Fieller's interval."""
    # Both means are above 0. Source: Fieller, "Some problems in interval estimation",
    # Journal of the Royal Statistical Society B 16(2), 1954: the ratios r for which the mean of
    # x - r y does not differ from 0.
    x = np.array([1000 * expense.extra_compile_s for expense in expenses])
    y = np.array([expense.saved_step_ms for expense in expenses])
    n = len(expenses)
    (xx, xy), (_, yy) = np.cov(x, y) / n
    t2 = float(stdtrit(n - 1, (1 + confidence) / 2)) ** 2
    a, b, c = y.mean() ** 2 - t2 * yy, x.mean() * y.mean() - t2 * xy, x.mean() ** 2 - t2 * xx
    root = math.sqrt(max(0.0, b * b - a * c))
    value = float(x.mean() / y.mean())
    return Estimate(n, value, float((b - root) / a), float((b + root) / a))
