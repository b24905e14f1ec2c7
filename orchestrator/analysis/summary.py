"""The summary of a sweep: everything that a report shows, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import chain
from typing import Any

from orchestrator.analysis.arms import arm_summary, best_configs
from orchestrator.analysis.arms.mathematics import compare_mathematics
from orchestrator.analysis.comparisons.effects import Crossover, ParamEffect, crossovers, effects
from orchestrator.analysis.comparisons.factors import FactorAnswer, factor_answers
from orchestrator.analysis.comparisons.ranking import BreakEven, Ranking, break_evens, rankings
from orchestrator.analysis.comparisons.result_ranking import ResultRanking, rank_results
from orchestrator.analysis.comparisons.speed import Comparison, compare_arms
from orchestrator.analysis.comparisons.targets import Target, reach
from orchestrator.analysis.measures import Measure, by_arm, expenses_of, measures_of
from orchestrator.analysis.pairing.complete_rounds import BlockGap, ParamRange, Round, match, ranges
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.pairing.pairs import (
    Baseline,
    baseline_of_spec,
    pick_baseline,
    time_metric,
)
from orchestrator.analysis.statistics.estimates import Estimate, confidence_for
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

    `models` are the names of the variants, if their settings differ. `complete_rounds` are blocks
    and repeats that are complete on every arm, except on the `former` arms, which belong to earlier
    starts and which the last one did not run.
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
    published: tuple[best_configs.PublishedComparison, ...]
    validity: arm_summary.Validity
    rankings: tuple[Ranking, ...]
    targets: tuple[Target, ...]
    complete_rounds: tuple[Round, ...]
    former: tuple[Arm, ...]
    models: tuple[str, ...]
    choice: best_configs.Choice | None
    factors: tuple[FactorAnswer, ...]
    result_rankings: tuple[ResultRanking, ...]

    @property
    def is_without_success(self) -> bool:
        """True if trials have ended, and all of them failed."""
        return bool(self.trials) and all(trial.status == "failed" for trial in self.trials)

    @property
    def drawn_blocks(self) -> frozenset[int]:
        """The blocks whose trials a page has: of many evenly spread ones, and those on fronts."""
        blocks = sorted({trial.block for trial in self.trials})
        marked = {point.block for front in self.fronts for point in front.front.points}
        return frozenset(blocks[:: -(-len(self.trials) // MOST_DRAWN) or 1]) | marked

    @property
    def matched_runs(self) -> frozenset[str]:
        """The ids of the runs in a complete round: those that are compared."""
        rounds = set(self.complete_rounds)
        arms = {*self.former, *(arm.arm for arm in self.arms if arm.matched)}
        return frozenset(
            trial.run_id
            for trial in self.trials
            if trial.status == "complete"
            and trial.arm in arms
            and (trial.block, trial.repeat) in rounds
        )


def summarise(
    record: SweepRecord, baseline: str | None = None, targets: Sequence[float] = ()
) -> ReportSummary:
    """Summarise a sweep, complete or not.

    The baseline is an arm, a variant or an implementation, which is the baseline within each class
    of hardware; by default the spec's baseline, or else the first arm. `targets` are accuracies to
    reach in addition to the spec's own. Raise `BaselineError` if `baseline` is no arm of the sweep
    that can run.
    """
    over = baseline_of_spec(record) if baseline is None else pick_baseline(record, baseline)
    work = next(iter(over.of.values())).work if over else ""
    matched, timed = match(record), match(record, lambda trial: trial.has_times)
    ended_by_arm = by_arm(record)
    trials = sorted(chain(*ended_by_arm.values()), key=lambda trial: (trial.block, trial.repeat))
    configs = {trial.block: trial.config for trial in reversed(trials)}
    used = {
        arm: matched.comparable_trials(arm) or [t for t in ended if t.status == "complete"]
        for arm, ended in ended_by_arm.items()
    }
    mathematics = compare_mathematics(ended_by_arm, over)
    different = [arm for arm, compared in mathematics.items() if compared.is_different]
    comparisons = compare_arms(record, timed, over, different=different) if over else ()
    speedups: dict[Arm, tuple[Estimate | None, str]] = {
        **dict.fromkeys(over.of.values() if over else (), (None, "baseline")),
        **{comparison.arm: (comparison.speedup, comparison.label) for comparison in comparisons},
    }
    metric, margin = time_metric(timed), record.criteria.margins.speed
    confidence = confidence_for(record.criteria.auto_blocks)
    design_of = cache(lambda blocks: Design([configs[block] for block in blocks]))
    measures = measures_of(record)
    expenses = expenses_of(measures, [trial for counted in used.values() for trial in counted])
    every = (*measures, *expenses)
    arms = tuple(
        arm_summary.summarise_arm(
            record,
            matched,
            arm,
            ended_by_arm[arm],
            every,
            speedups.get(arm, (None, "")),
            mathematics.get(arm),
        )
        for arm in ended_by_arm
    )
    alike = [
        trial
        for arm in ended_by_arm
        if arm.work == work and arm not in different
        for trial in ended_by_arm[arm]
    ]
    fronts = best_configs.trade_offs(record, alike)
    return ReportSummary(
        sweep=_head(record),
        baseline=over,
        time_metric=metric,
        complete_blocks=matched.blocks,
        gaps=matched.gaps,
        set_aside=matched.set_aside,
        configs=ranges([configs[block] for block in matched.blocks or sorted(configs)]),
        comparisons=comparisons,
        measures=measures,
        arms=arms,
        front=best_configs.pareto_front(record, work, different),
        left_out=tuple(
            row
            for arm in ended_by_arm
            for row in arm_summary.excluded_trials(arm, ended_by_arm[arm])
        ),
        impossible=record.impossible,
        trials=tuple(trials),
        expenses=expenses,
        fronts=fronts,
        crossovers=crossovers(comparisons, design_of, margin),
        effects=effects(record, matched, design_of, confidence),
        break_evens=break_evens(matched.without(different), over, confidence),
        learning=arm_summary.learning(used, {arm.arm: arm.matched for arm in arms}),
        phases=arm_summary.phases(ended_by_arm),
        published=best_configs.published(record, ended_by_arm),
        validity=arm_summary.validity_of(record, matched),
        rankings=rankings(timed.without(different), metric, margin, 1 - confidence),
        targets=reach(record, targets),
        complete_rounds=tuple(sorted(matched.rounds)),
        former=matched.former,
        models=tuple(different_models(ended_by_arm)),
        choice=best_configs.choose_by_result(
            fronts, alike, partial(judged_margin, record, matched)
        ),
        factors=factor_answers(
            record, timed.without(different), matched, metric, error=1 - confidence
        ),
        result_rankings=rank_results(record, matched),
    )


def _head(record: SweepRecord) -> SweepHead:
    planned = [trial for trial in record.trials if trial.arm in record.arms]
    same: dict[str, Any] = {f.name: getattr(record, f.name, None) for f in fields(SweepHead)}
    trials = arm_summary.count_trials(planned, record.expected_trials)
    return SweepHead(**same | {"label": record.label, "trials": trials})
