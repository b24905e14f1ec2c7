"""The summary of a sweep: everything that a report shows, as plain data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

from orchestrator.analysis.arms import arm_summary, best_configs
from orchestrator.analysis.arms.choice import ArmChoice, choose_arm
from orchestrator.analysis.arms.mathematics import (
    Mathematics,
    compare_mathematics,
    has_equal_starts,
)
from orchestrator.analysis.arms.published_results import (
    PublishedComparison,
    compare_with_published,
)
from orchestrator.analysis.arms.targets import Target, reach
from orchestrator.analysis.contrasts.answers import Answers, Compared, answer
from orchestrator.analysis.contrasts.break_even import STEPS, BreakEven, break_evens
from orchestrator.analysis.contrasts.contrast import Contrast, Scale, Unit, between
from orchestrator.analysis.contrasts.matrix import Matrix, build_matrix
from orchestrator.analysis.contrasts.questions import Leader
from orchestrator.analysis.contrasts.sizes import SpeedCurve
from orchestrator.analysis.measures import Measure, by_arm, expenses_of, finite, measures_of
from orchestrator.analysis.pairing.baselines import Baseline, baseline_of_spec, pick_baseline
from orchestrator.analysis.pairing.complete_rounds import BlockGap, ParamRange, match, ranges
from orchestrator.analysis.pairing.margins import JudgedMargin, judged_margin
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics.estimates import confidence_for, geometric_mean
from orchestrator.core.arms import Arm
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.selectors import different_models
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import DatasetRecord, FinishedTrial, ImpossibleArm
from workloads.metrics import find_metric

MOST_DRAWN = 2500
"""The most trials of evenly spread blocks on a page: nobody can see more of them in a plot."""


@dataclass(frozen=True, slots=True)
class SweepHead:
    """The identity and the progress of the sweep, and how it was started last.

    `space_size` is the number of different configs in the space; None if it is infinite.
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
class ComparedValues:
    """The values behind the contrasts by one metric: a row for each block, a column for each arm.

    Each value is the mean over the repeats of a block. If there is only one config, `unit` is the
    repeat: each row is one repeat, and `blocks` has their numbers. `disturbed` lists the rows in
    which other processes disturbed an arm, and `disturbance` the causes with their medians.
    """

    metric: str
    scale: Scale
    direction: Direction
    unit: Unit
    arms: tuple[Arm, ...]
    blocks: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    disturbed: tuple[int, ...]
    disturbance: Disturbance

    @classmethod
    def of(cls, matrix: Matrix) -> "ComparedValues":
        """Return a matrix as plain values, in the metric's own unit."""
        is_ratio = matrix.scale == Scale.RATIO
        rows = matrix.values.tolist()
        numbers = {row: row[0] if row[1] is None else row[1] for row in matrix.rows}
        return cls(
            metric=matrix.metric,
            scale=matrix.scale,
            direction=matrix.direction,
            unit=matrix.unit,
            arms=matrix.arms,
            blocks=tuple(numbers.values()),
            values=tuple(
                tuple(math.exp(value) if is_ratio else value for value in row) for row in rows
            ),
            disturbed=tuple(numbers[row] for row in matrix.disturbed_rows(matrix.arms)),
            disturbance=matrix.disturbance(matrix.arms),
        )


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Everything that a report shows.

    Attributes:
        time_metric: The metric of the speed-ups; None if fewer than two arms have a time.
        results: The compared results of training, the most important one first.
        contrasts: The comparisons: each pair of arms once for each metric.
        leaders: The arms with the best means.
        values: The numbers from which the contrasts are computed.
        absent: Arms without a complete trial.
        former: Arms that the last start did not run.
        models: The names of the variants, if their settings differ.
        trials: The raw rows behind every number.
    """

    sweep: SweepHead
    baseline: Baseline | None
    time_metric: str | None
    results: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    leaders: tuple[Leader, ...]
    margins: Mapping[str, JudgedMargin]
    values: tuple[ComparedValues, ...]
    arms: tuple[arm_summary.ArmSummary, ...]
    measures: tuple[Measure, ...]
    expenses: tuple[Measure, ...]
    curves: tuple[SpeedCurve, ...]
    break_evens: tuple[BreakEven, ...]
    best: ArmChoice | None
    front: best_configs.Front
    fronts: tuple[best_configs.TradeOff, ...]
    targets: tuple[Target, ...]
    learning: tuple[arm_summary.LearningCurve, ...]
    phases: tuple[arm_summary.PhaseSplit, ...]
    published: tuple[PublishedComparison, ...]
    configs: tuple[ParamRange, ...]
    complete_blocks: tuple[int, ...]
    gaps: tuple[BlockGap, ...]
    absent: tuple[Arm, ...]
    former: tuple[Arm, ...]
    models: tuple[str, ...]
    excluded: tuple[arm_summary.ExcludedTrials, ...]
    impossible: tuple[ImpossibleArm, ...]
    validity: arm_summary.Validity
    trials: tuple[FinishedTrial, ...]

    def contrast(self, subject: Arm, reference: Arm, metric: str) -> Contrast | None:
        """Return how two arms compare by a metric, from the side of the subject, if they do."""
        return between(self.contrasts, str(subject), str(reference), metric)

    def leader(self, metric: str, hardware: str = "") -> Leader | None:
        """Return the leader by a metric on one hardware class, or on all that there are."""
        leaders = [leader for leader in self.leaders if leader.metric == metric]
        of_one = next((leader for leader in leaders if leader.hardware == hardware), None)
        return of_one or (leaders[0] if len(leaders) == 1 and not hardware else None)

    def values_of(self, metric: str) -> ComparedValues | None:
        """Return the values behind the contrasts by a metric."""
        return next((values for values in self.values if values.metric == metric), None)

    @property
    def planned_trials(self) -> int:
        """The expected number of trials of the arms that the last start planned."""
        left_out = sum(row.trials.expected for row in self.arms if not row.planned)
        return self.sweep.trials.expected - left_out

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


def summarise(
    record: SweepRecord, baseline: str | None = None, targets: Sequence[float] = ()
) -> ReportSummary:
    """Summarise a sweep, complete or not.

    The baseline is an arm, a variant or an implementation, which is the baseline within each class
    of hardware; by default the spec's baseline, or else the first arm. `targets` are accuracies to
    reach in addition to the spec's own. Raise `BaselineError` if `baseline` is no arm of the sweep
    that can run.
    """
    picked = baseline_of_spec(record) if baseline is None else pick_baseline(record, baseline)
    ended = by_arm(record)
    mathematics = compare_mathematics(ended, picked)
    compared = compare(record, picked, mathematics)
    answers, trained = answer(compared), compared.trained
    different = tuple(sorted(compared.other_mathematics))
    trials = sorted(chain(*ended.values()), key=lambda trial: (trial.block, trial.repeat))
    configs = {trial.block: trial.config for trial in reversed(trials)}
    used = {arm: arm_summary.used_trials(trained, arm, of_arm) for arm, of_arm in ended.items()}
    measures = measures_of(record)
    expenses = expenses_of(measures, list(chain(*used.values())))
    means = _means(compared, answers, (*measures, *expenses), used)
    arms = tuple(
        arm_summary.summarise_arm(
            record,
            trained,
            arm,
            of_arm,
            (*measures, *expenses),
            means[arm],
            mathematics.get(arm),
        )
        for arm, of_arm in ended.items()
    )
    work = _usual_work(picked)
    competing = [
        trial
        for arm, of_arm in ended.items()
        if arm.work == work and arm not in different
        for trial in of_arm
    ]
    return ReportSummary(
        sweep=_head(record),
        baseline=picked,
        # Comparisons of arms
        time_metric=answers.time_metric,
        results=answers.results,
        contrasts=answers.contrasts,
        leaders=answers.leaders,
        margins=answers.margins,
        values=tuple(map(ComparedValues.of, answers.matrices.values())),
        curves=answers.curves,
        break_evens=_break_evens(compared),
        # Each arm by itself
        arms=arms,
        measures=measures,
        expenses=expenses,
        targets=reach(record, targets),
        learning=arm_summary.learning(used, {arm.arm: arm.matched for arm in arms}),
        phases=arm_summary.phases(ended),
        published=compare_with_published(record, ended),
        # Configs to choose
        best=_best_by_result(compared, ended, competing, mathematics, work),
        front=best_configs.pareto_front(record, work, different),
        fronts=best_configs.trade_offs(record, competing),
        # What is compared, and what is not
        configs=ranges([configs[block] for block in trained.blocks or sorted(configs)]),
        complete_blocks=trained.blocks,
        gaps=trained.gaps,
        absent=trained.absent,
        former=trained.former,
        models=tuple(different_models(ended)),
        excluded=tuple(
            excluded
            for arm, of_arm in ended.items()
            for excluded in arm_summary.excluded_trials(arm, of_arm)
        ),
        impossible=record.impossible,
        validity=arm_summary.validity_of(record, trained),
        trials=tuple(trials),
    )


def compare(
    record: SweepRecord,
    baseline: Baseline | None,
    mathematics: Mapping[Arm, Mathematics] | None = None,
) -> Compared:
    """Return the trials of a sweep as they are compared with this baseline."""
    if mathematics is None:
        mathematics = compare_mathematics(by_arm(record), baseline)
    return Compared(
        record=record,
        baseline=baseline,
        trained=match(record),
        timed=match(record, lambda trial: trial.has_times),
        other_mathematics=frozenset(
            arm for arm, compared in mathematics.items() if compared.is_different
        ),
    )


def _break_evens(compared: Compared) -> tuple[BreakEven, ...]:
    timed = next((matrix for metric in STEPS if (matrix := compared.matrix(metric)).rows), None)
    if timed is None:
        return ()
    return break_evens(
        compared.matrix("compile_s"),
        timed,
        compared.baseline,
        excluded=compared.other_mathematics,
        confidence=confidence_for(compared.record.criteria.auto_blocks),
    )


def _usual_work(baseline: Baseline | None) -> str:
    """Return the amount of work of the baseline, with which configs compete to be the best."""
    return next(iter(baseline.of.values())).work if baseline and baseline.of else ""


def _means(
    compared: Compared,
    answers: Answers,
    measures: Sequence[Measure],
    used: Mapping[Arm, Sequence[FinishedTrial]],
) -> dict[Arm, dict[str, float]]:
    """Return the means of each arm's measures, over the blocks that are compared if there are any.

    Results have their arithmetic mean, everything else its geometric one: so the ratio of the means
    of two arms is the ratio that is compared.
    """
    means: dict[Arm, dict[str, float]] = {arm: {} for arm in used}
    for measure in measures:
        metric = measure.metric
        matrix = answers.matrices.get(metric) or build_matrix(compared.rounds_of(metric), measure)
        for arm, trials in used.items():
            if arm in matrix.arms and matrix.rows:
                means[arm][metric] = matrix.mean(arm)
            elif values := finite((trial for trial in trials if measure.counts(trial)), metric):
                is_geometric = not find_metric(metric).is_result and min(values) > 0
                means[arm][metric] = geometric_mean(values) if is_geometric else fmean(values)
    return means


def _best_by_result(
    compared: Compared,
    ended: Mapping[Arm, Sequence[FinishedTrial]],
    competing: Sequence[FinishedTrial],
    mathematics: Mapping[Arm, Mathematics],
    work: str,
) -> ArmChoice | None:
    """Choose the best config by the most important result, and its arm; None without a result."""
    record = compared.record
    unpruned = [trial for trial in competing if trial.status != "pruned"]
    measured = {name for t in unpruned if t.status == "complete" for name in t.metrics}
    results = result_metrics(record, measured)
    if not results:
        return None
    result, direction = next(iter(results.items()))
    points = best_configs.config_points(
        (trial for trial in unpruned if trial.arm.measure == "full"), (result,)
    )
    if not points:
        return None
    margin_of = partial(judged_margin, record, compared.trained, result)
    return choose_arm(
        points,
        result,
        direction,
        margin_of=lambda value: margin_of(value).value,
        mathematics=mathematics if has_equal_starts(record.workload, record.settings) else {},
        trials=ended,
        left_out={
            **dict.fromkeys((arm for arm in ended if arm.work != work), "another amount of work"),
            **dict.fromkeys(compared.other_mathematics, "other mathematics"),
        },
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
