"""The summary of a sweep: everything that a report shows, as plain data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from orchestrator.analysis.arms import arm_summary, best_configs
from orchestrator.analysis.arms.arm_summary import ComparedArm
from orchestrator.analysis.arms.block_means import block_means
from orchestrator.analysis.arms.choice import (
    ArmChoice,
    Choice,
    MarginOf,
    choose_arm,
    choose_by_result,
)
from orchestrator.analysis.arms.mathematics import (
    Mathematics,
    compare_mathematics,
    has_equal_starts,
)
from orchestrator.analysis.arms.published_results import (
    PublishedComparison,
    compare_with_published,
)
from orchestrator.analysis.comparisons.effects import Crossover, ParamEffect, crossovers, effects
from orchestrator.analysis.comparisons.factors import FactorAnswer, factor_answers
from orchestrator.analysis.comparisons.ranking import BreakEven, Ranking, break_evens, rankings
from orchestrator.analysis.comparisons.result_ranking import ResultRanking, rank_results
from orchestrator.analysis.comparisons.speed import (
    Comparison,
    compare_arms,
    rounds_of_comparisons,
)
from orchestrator.analysis.comparisons.targets import Target, reach
from orchestrator.analysis.measures import Measure, by_arm, expenses_of, measures_of
from orchestrator.analysis.pairing.complete_rounds import (
    BlockGap,
    CompleteRounds,
    ParamRange,
    Round,
    RoundSelection,
    match,
    ranges,
)
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.pairing.pairs import (
    Baseline,
    baseline_of_spec,
    pick_baseline,
    time_metric,
)
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics.estimates import confidence_for
from orchestrator.analysis.statistics.regression import Design
from orchestrator.core.arms import Arm
from orchestrator.core.names import different_models
from orchestrator.core.records import SweepRecord
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import DatasetRecord, FinishedTrial, ImpossibleArm

MOST_DRAWN = 2500
"""The most trials of evenly spread blocks on a page: nobody can see more of them in a plot."""


@dataclass(frozen=True, slots=True)
class SweepHead:
    """The identity and the progress of the sweep, and how it was started last.

    `space_size` is the number of different configs in its space; None if there is no end to them.
    """

    name: str
    generation: int
    label: str
    workload: str
    state: str
    run_id: str
    objectives: Mapping[str, str]
    blocks: int
    repeats: int
    trials: arm_summary.TrialCounts
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    datasets: tuple[DatasetRecord, ...]
    sampler: str
    seed: int
    start: StartCommand
    space_size: int | None


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Everything that a report shows; `trials` are the raw rows behind every number.

    The fields have the order of the report's JSON file, so a new one is the last; `summarise` says
    what it is computed from. `models` are the names of the variants, if their settings differ.
    `complete_rounds` are blocks and repeats that are complete on every arm, except on the `former`
    arms, which belong to earlier starts and which the last one did not run.
    """

    sweep: SweepHead
    baseline: Baseline | None
    time_metric: str | None
    complete_blocks: tuple[int, ...]
    gaps: tuple[BlockGap, ...]
    set_aside: tuple[Arm, ...]
    configs: tuple[ParamRange, ...]
    comparisons: tuple[Comparison, ...]
    measures: tuple[Measure, ...]
    arms: tuple[arm_summary.ArmSummary, ...]
    front: best_configs.Front
    left_out: tuple[arm_summary.ExcludedTrials, ...]
    impossible: tuple[ImpossibleArm, ...]
    trials: tuple[FinishedTrial, ...]
    expenses: tuple[Measure, ...]
    fronts: tuple[best_configs.TradeOff, ...]
    crossovers: tuple[Crossover, ...]
    effects: tuple[ParamEffect, ...]
    break_evens: tuple[BreakEven, ...]
    learning: tuple[arm_summary.LearningCurve, ...]
    phases: tuple[arm_summary.PhaseSplit, ...]
    published: tuple[PublishedComparison, ...]
    validity: arm_summary.Validity
    rankings: tuple[Ranking, ...]
    targets: tuple[Target, ...]
    complete_rounds: tuple[Round, ...]
    former: tuple[Arm, ...]
    models: tuple[str, ...]
    choice: Choice | None
    factors: tuple[FactorAnswer, ...]
    result_rankings: tuple[ResultRanking, ...]
    best: ArmChoice | None

    @property
    def is_without_success(self) -> bool:
        """True if trials have ended, and all of them failed."""
        return bool(self.trials) and all(trial.status == "failed" for trial in self.trials)

    @property
    def best_by_objective(self) -> ArmChoice | None:
        """The best config by the only objective; None for several, or if it is no result."""
        is_only = self.best is not None and [self.best.metric] == list(self.front.objectives)
        return self.best if is_only else None

    @property
    def drawn_blocks(self) -> frozenset[int]:
        """The blocks whose points charts have: of many evenly spread ones, and those on fronts."""
        blocks = sorted({trial.block for trial in self.trials})
        marked = {point.block for front in self.fronts for point in front.front.points}
        every = max(1, math.ceil(len(self.trials) / MOST_DRAWN))
        return frozenset(blocks[::every]) | marked


@dataclass(frozen=True, slots=True)
class _Basis:
    """What all parts of a summary are computed from.

    `ended` are the trials of each arm that ended, by block. `matched` are the rounds that are
    complete on every arm, and `timed` those with times on every arm: pruned trials have these, too.
    `mathematics` has what arms compute compared with what their reference computes; `different`
    are the arms that compute something else, so their times are not compared.
    """

    record: SweepRecord
    baseline: Baseline | None
    ended: Mapping[Arm, Sequence[FinishedTrial]]
    matched: CompleteRounds
    timed: CompleteRounds
    mathematics: Mapping[Arm, Mathematics]
    different: tuple[Arm, ...]

    @property
    def baseline_arms(self) -> tuple[Arm, ...]:
        """The arms that others are compared with."""
        return tuple(dict.fromkeys(self.baseline.of.values())) if self.baseline else ()

    @property
    def work(self) -> str:
        """The amount of work of the baseline; arms with another one are kept apart."""
        return self.baseline_arms[0].work if self.baseline_arms else ""

    @property
    def confidence(self) -> float:
        """The level of the intervals."""
        return confidence_for(self.record.criteria.auto_blocks)

    def trials_of_equal_work(self) -> list[FinishedTrial]:
        """Return the trials of the arms with the baseline's work that compute the same."""
        return [
            trial
            for arm, trials in self.ended.items()
            if arm.work == self.work and arm not in self.different
            for trial in trials
        ]


def summarise(
    record: SweepRecord, baseline: str | None = None, targets: Sequence[float] = ()
) -> ReportSummary:
    """Summarise a sweep, complete or not.

    The baseline is an arm, a variant or an implementation, which is the baseline within each class
    of hardware; by default the spec's baseline, or else the first arm. `targets` are accuracies to
    reach in addition to the spec's own. Raise `BaselineError` if `baseline` is no arm of the sweep
    that can run.
    """
    basis = _basis(record, baseline)
    ended, matched, different = basis.ended, basis.matched, basis.different
    timed = basis.timed.without(different)
    metric, margin = time_metric(basis.timed), record.criteria.margins.speed
    trials = sorted(chain(*ended.values()), key=lambda trial: (trial.block, trial.repeat))
    configs = {trial.block: trial.config for trial in reversed(trials)}
    design_of = cache(lambda blocks: Design([configs[block] for block in blocks]))
    comparisons = _comparisons(basis)
    selections = rounds_of_comparisons(record, basis.timed, basis.baseline, metric, different)
    used = {arm: arm_summary.used_trials(matched, arm, of_arm) for arm, of_arm in ended.items()}
    measures = measures_of(record)
    expenses = expenses_of(measures, list(chain(*used.values())))
    arms = _summarise_arms(basis, (*measures, *expenses), comparisons, selections)
    competing = basis.trials_of_equal_work()
    fronts = best_configs.trade_offs(record, competing)
    margin_of = partial(judged_margin, record, matched)
    best = _best_by_result(basis, competing, margin_of)
    return ReportSummary(
        sweep=_head(record),
        trials=tuple(trials),
        # The blocks and rounds that are compared
        complete_blocks=matched.blocks,
        complete_rounds=tuple(sorted(matched.rounds)),
        gaps=matched.gaps,
        set_aside=matched.set_aside,
        former=matched.former,
        configs=ranges([configs[block] for block in matched.blocks or sorted(configs)]),
        validity=arm_summary.validity_of(record, matched),
        # Each arm by itself
        arms=arms,
        measures=measures,
        expenses=expenses,
        left_out=tuple(
            excluded
            for arm, of_arm in ended.items()
            for excluded in arm_summary.excluded_trials(arm, of_arm)
        ),
        impossible=record.impossible,
        models=tuple(different_models(ended)),
        learning=arm_summary.learning(used, {arm.arm: arm.matched for arm in arms}),
        phases=arm_summary.phases(ended),
        published=compare_with_published(record, ended),
        # Arms compared by their times
        baseline=basis.baseline,
        time_metric=metric,
        comparisons=comparisons,
        rankings=rankings(timed, metric, margin, 1 - basis.confidence, selections),
        crossovers=crossovers(comparisons, design_of, margin),
        break_evens=break_evens(matched.without(different), basis.baseline, basis.confidence),
        # Arms compared by their results, or by both
        result_rankings=rank_results(record, matched),
        targets=reach(record, targets),
        factors=factor_answers(record, timed, matched, metric, error=1 - basis.confidence),
        effects=effects(record, matched, design_of, basis.confidence),
        # Configs to choose
        front=best_configs.pareto_front(record, basis.work, different),
        fronts=fronts,
        choice=choose_by_result(fronts, competing, best, margin_of),
        best=best,
    )


def _basis(record: SweepRecord, baseline: str | None) -> _Basis:
    ended = by_arm(record)
    picked = baseline_of_spec(record) if baseline is None else pick_baseline(record, baseline)
    mathematics = compare_mathematics(ended, picked)
    return _Basis(
        record=record,
        baseline=picked,
        ended=ended,
        matched=match(record),
        timed=match(record, lambda trial: trial.has_times),
        mathematics=mathematics,
        different=tuple(arm for arm, compared in mathematics.items() if compared.is_different),
    )


def _best_by_result(
    basis: _Basis, competing: Sequence[FinishedTrial], margin_of: MarginOf
) -> ArmChoice | None:
    """Choose the best config by the most important result, and its arm; None without a result."""
    unpruned = [trial for trial in competing if trial.status != "pruned"]
    measured = {name for t in unpruned if t.status == "complete" for name in t.metrics}
    results = result_metrics(basis.record, measured)
    if not results:
        return None
    result, direction = next(iter(results.items()))
    points = best_configs.config_points(
        (trial for trial in unpruned if trial.arm.measure == "full"), (result,)
    )
    if not points:
        return None
    of_other_work = (arm for arm in basis.ended if arm.work != basis.work)
    record = basis.record
    return choose_arm(
        points,
        result,
        direction,
        margin_of=lambda value: margin_of(result, value).value,
        mathematics=basis.mathematics if has_equal_starts(record.workload, record.settings) else {},
        trials=basis.ended,
        left_out={
            **dict.fromkeys(of_other_work, "another amount of work"),
            **dict.fromkeys(basis.different, "different mathematics"),
        },
    )


def _comparisons(basis: _Basis) -> tuple[Comparison, ...]:
    """Compare every arm with its baseline; none without a baseline."""
    if basis.baseline is None:
        return ()
    return compare_arms(basis.record, basis.timed, basis.baseline, different=basis.different)


def _summarise_arms(
    basis: _Basis,
    measures: Sequence[Measure],
    comparisons: Sequence[Comparison],
    selections: Mapping[Arm, RoundSelection],
) -> tuple[arm_summary.ArmSummary, ...]:
    """Summarise each arm by itself, with what its comparison is judged."""
    means = block_means(measures, basis.ended, basis.matched, basis.timed, selections)
    speedups = {comparison.arm: comparison.speedup for comparison in comparisons}
    labels = dict.fromkeys(basis.baseline_arms, "baseline")
    labels |= {comparison.arm: comparison.label for comparison in comparisons}
    return tuple(
        arm_summary.summarise_arm(
            basis.record,
            basis.matched,
            arm,
            ended,
            measures,
            ComparedArm(
                speedups.get(arm), labels.get(arm, ""), basis.mathematics.get(arm), means[arm]
            ),
        )
        for arm, ended in basis.ended.items()
    )


def _head(record: SweepRecord) -> SweepHead:
    planned = [trial for trial in record.trials if trial.arm in record.arms]
    return SweepHead(
        name=record.name,
        generation=record.generation,
        label=record.label,
        workload=record.workload,
        state=record.state,
        run_id=record.run_id,
        objectives=record.objectives,
        blocks=record.blocks,
        repeats=record.repeats,
        trials=arm_summary.count_trials(planned, record.expected_trials),
        environment=record.environment,
        settings=record.settings,
        datasets=record.datasets,
        sampler=record.sampler,
        seed=record.seed,
        start=record.start,
        space_size=record.space_size,
    )
