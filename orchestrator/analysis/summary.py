"""The summary of a sweep: everything that a report shows, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from orchestrator.analysis.arms.arm_summary import (
    ArmSummary,
    ExcludedTrials,
    TrialCounts,
    count_trials,
    excluded_trials,
    summarise_arm,
)
from orchestrator.analysis.arms.best_configs import (
    Best,
    Front,
    TradeOff,
    best_of_arm,
    pareto_front,
    trade_offs,
)
from orchestrator.analysis.arms.over_time import (
    LearningCurve,
    PhaseSplit,
    TelemetryCurves,
    learning,
    phases,
    telemetry_curves,
)
from orchestrator.analysis.arms.published import PublishedComparison, published
from orchestrator.analysis.arms.validity import Validity, validity_of
from orchestrator.analysis.comparisons.break_even import BreakEven, break_evens
from orchestrator.analysis.comparisons.by_size import BySize, by_size
from orchestrator.analysis.comparisons.crossover import Crossover, crossovers
from orchestrator.analysis.comparisons.ranking import Ranking, rankings
from orchestrator.analysis.comparisons.speed import Comparison, Contrast, compare, contrast
from orchestrator.analysis.comparisons.targets import Target, reach
from orchestrator.analysis.measures import Measure, expenses_of, measures_of
from orchestrator.analysis.pairing.baseline import Baseline, BaselineError, pick_baseline
from orchestrator.analysis.pairing.complete_rounds import (
    BlockGap,
    CompleteRounds,
    ParamRange,
    Round,
    match,
    ranges,
)
from orchestrator.analysis.pairing.pairs import time_metric
from orchestrator.analysis.statistics.estimates import Estimate, confidence_for
from orchestrator.core.arms import Arm
from orchestrator.core.names import mathematics_of
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, FinishedTrial, ImpossibleArm, Telemetry


@dataclass(frozen=True, slots=True)
class SweepHead:
    """The identity and the progress of the sweep."""

    name: str
    generation: int
    label: str
    workload: str
    state: str
    run_id: str
    objectives: Mapping[str, str]
    blocks: int
    repeats: int
    trials: TrialCounts
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    datasets: tuple[DatasetRecord, ...]
    sampler: str
    seed: int


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Everything that a report shows; `trials` are the raw rows behind every number.

    `comparisons` are fair pairs; `different_mathematics` are the other arms and their baselines.
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
    arms: tuple[ArmSummary, ...]
    front: Front
    left_out: tuple[ExcludedTrials, ...]
    impossible: tuple[ImpossibleArm, ...]
    trials: tuple[FinishedTrial, ...]
    different_mathematics: tuple[Contrast, ...] = ()
    expenses: tuple[Measure, ...] = ()
    best_of_arm: tuple[Best, ...] = ()
    fronts: tuple[TradeOff, ...] = ()
    crossovers: tuple[Crossover, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    learning: tuple[LearningCurve, ...] = ()
    phases: tuple[PhaseSplit, ...] = ()
    curves: tuple[TelemetryCurves, ...] = ()
    published: tuple[PublishedComparison, ...] = ()
    validity: Validity = field(default_factory=Validity)
    sizes: tuple[BySize, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    targets: tuple[Target, ...] = ()
    complete_rounds: tuple[Round, ...] = ()
    former: tuple[Arm, ...] = ()

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
    record: SweepRecord,
    baseline: str | None = None,
    curves: Mapping[str, Telemetry] = MappingProxyType({}),
    targets: Sequence[float] = (),
) -> ReportSummary:
    """Summarise a sweep, complete or not.

    Args:
        record: the sweep as the store has it.
        baseline: an arm (`tensorflow/portable on cpu`) or an implementation; one that ran on
            several hardware classes is the baseline within each. By default that of the spec, or
            else the sweep's first arm.
        curves: telemetry by run id, of the trials that `representatives` chose.
        targets: accuracies to reach, in addition to the spec's own.

    Raises:
        BaselineError: `baseline` is no arm of the sweep that can run.
    """
    over = _baseline(record, baseline)
    matched = match(record)
    own = _by_arm(record)
    place = {arm: i for i, arm in enumerate(own)}
    trials = sorted(record.trials, key=lambda t: (t.block, t.repeat, place[t.arm], t.key))
    measures = measures_of(record)
    configs = {trial.block: trial.config for trial in reversed(trials)}
    ranged = [configs[block] for block in matched.blocks or sorted(configs)]
    used = {arm: _used(matched, arm, own[arm]) for arm in own}
    fair = compare(record, matched, over) if over else ()
    unlike = contrast(record, matched, over) if over else ()
    mathematics, work = _of_baseline(mathematics_of, over), _of_baseline(lambda arm: arm.work, over)
    alike = {arm for arm in own if (mathematics_of(arm), arm.work) == (mathematics, work)}
    metric = time_metric(matched)
    error = 1 - confidence_for(record.criteria.auto_blocks)
    expenses = expenses_of(measures, [trial for trials in used.values() for trial in trials])
    speedups = _speedups(fair, unlike, over)
    arms = tuple(
        summarise_arm(
            record, matched, arm, own[arm], (*measures, *expenses), speedups.get(arm, (None, ""))
        )
        for arm in own
    )
    return ReportSummary(
        sweep=_head(record),
        baseline=over,
        time_metric=metric,
        complete_blocks=matched.blocks,
        gaps=matched.gaps,
        set_aside=matched.set_aside,
        configs=ranges(ranged),
        comparisons=fair,
        measures=measures,
        arms=arms,
        front=pareto_front(record, mathematics, work),
        left_out=tuple(row for arm in own for row in excluded_trials(arm, own[arm])),
        impossible=record.impossible,
        trials=tuple(trials),
        different_mathematics=unlike,
        expenses=expenses,
        best_of_arm=best_of_arm(own, record.objectives),
        fronts=trade_offs([trial for arm in own if arm in alike for trial in own[arm]]),
        crossovers=crossovers(fair, configs, record.criteria.margins.speed),
        break_evens=break_evens(matched, over, confidence_for(record.criteria.auto_blocks)),
        learning=learning(used, {arm.arm: arm.matched for arm in arms}),
        phases=phases(own),
        curves=telemetry_curves(trials, curves),
        published=published(record, own),
        validity=validity_of(record, matched),
        sizes=by_size(matched, configs, fair, metric),
        rankings=rankings(matched, metric, record.criteria.margins.speed, error),
        targets=reach(record, matched, over, targets),
        complete_rounds=tuple(sorted(matched.rounds)),
        former=matched.former,
    )


def _speedups(
    fair: Sequence[Comparison], unlike: Sequence[Contrast], baseline: Baseline | None
) -> dict[Arm, tuple[Estimate | None, str]]:
    """Return the speed-up of each arm over its baseline, with its verdict."""
    return {
        **dict.fromkeys(baseline.of.values() if baseline else (), (None, "baseline")),
        **{comparison.arm: (comparison.speedup, comparison.verdict) for comparison in fair},
        **{contrast.arm: (None, "different mathematics") for contrast in unlike},
    }


def _by_arm(record: SweepRecord) -> dict[Arm, list[FinishedTrial]]:
    """Return the trials of every arm by block: the sweep's arms first, then those of old starts."""
    extra = sorted({trial.arm for trial in record.trials} - set(record.arms))
    own: dict[Arm, list[FinishedTrial]] = {arm: [] for arm in (*record.arms, *extra)}
    for trial in sorted(record.trials, key=lambda t: (t.block, t.repeat, t.key)):
        own[trial.arm].append(trial)
    return own


def _used(matched: CompleteRounds, arm: Arm, own: Sequence[FinishedTrial]) -> list[FinishedTrial]:
    """Return the trials behind an arm's figures: of matched rounds, or all complete ones."""
    return matched.comparable_trials(arm) or [trial for trial in own if trial.status == "complete"]


def _baseline(record: SweepRecord, asked: str | None) -> Baseline | None:
    """Return the requested baseline, or the spec's own if it can run, or the first arm."""
    if asked is None and record.criteria.baseline is not None:
        try:
            return pick_baseline(record, record.criteria.baseline)
        except BaselineError:  # valid when the spec was checked: the hardware has changed
            return pick_baseline(record, None)
    return pick_baseline(record, asked)


def _of_baseline(ask: Callable[[Arm], str], baseline: Baseline | None) -> str:
    """Return how the baseline differs from the settings; all arms that it names do alike."""
    return ask(next(iter(baseline.of.values()))) if baseline else ""


def _head(record: SweepRecord) -> SweepHead:
    arms = set(record.arms)
    planned = [trial for trial in record.trials if trial.arm in arms]
    return SweepHead(
        name=record.name,
        generation=record.generation,
        label=record.name if record.generation == 1 else f"{record.name}#{record.generation}",
        workload=record.workload,
        state=record.state,
        run_id=record.run_id,
        objectives=record.objectives,
        blocks=record.blocks,
        repeats=record.repeats,
        trials=count_trials(planned, record.expected_trials),
        environment=record.environment,
        settings=record.settings,
        datasets=record.datasets,
        sampler=record.sampler,
        seed=record.seed,
    )
