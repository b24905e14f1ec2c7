"""All contrasts of a sweep: for each metric one matrix, and every question on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import fmean

from orchestrator.analysis.contrasts.contrast import Contrast, Scale
from orchestrator.analysis.contrasts.factors import by_factors
from orchestrator.analysis.contrasts.families import Judging
from orchestrator.analysis.contrasts.matrix import Matrix, build_matrix
from orchestrator.analysis.contrasts.questions import Leader, against_baseline, among_the_best
from orchestrator.analysis.contrasts.sizes import SpeedCurve, own_effects, speed_along_sizes
from orchestrator.analysis.measures import PER_STEP, TIMES, measure_of, value_of
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, ended_rounds
from orchestrator.analysis.pairing.margins import JudgedMargin, judged_margin
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics.estimates import CONFIDENCE, confidence_for
from orchestrator.analysis.statistics.regression import Design
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction, SweepRecord
from workloads.metrics import FRESH_ONLY, METRICS, find_metric

WHOLE_TRAINING = "whole_train_s"
"""What a whole training takes, compiling included."""

EXPENSES_COMPARED = tuple(metric.name for metric in METRICS if metric.is_compared)
"""Energies, costs and memory that arms are compared by if they were measured."""

_STEPS_OF_UNLIKE_BATCHES = ("sample_us", "predict_sample_us")


@dataclass(frozen=True)
class Compared:
    """The trials of a sweep as they are compared.

    `trained` are the rounds that are complete on every arm, and `timed` those with times on every
    arm: pruned trials have these, too. The arms of `other_mathematics` compute something else than
    their reference.
    """

    record: SweepRecord
    baseline: Baseline | None
    trained: CompleteRounds
    timed: CompleteRounds
    other_mathematics: frozenset[Arm] = frozenset()

    @cached_property
    def are_fresh(self) -> bool:
        """Whether each trial had a trainer process of its own."""
        every = (t for arm in self.trained.trials for t in self.trained.all_trials(arm))
        return all(trial.trainer_trials == 0 for trial in every)

    def matrix(self, metric: str, direction: Direction = "minimize") -> Matrix:
        """Return the matrix of a metric, over the trials whose trainers make it comparable."""
        measure = measure_of(find_metric(metric))
        if self.are_fresh:
            measure = replace(measure, trainer="any")
        return build_matrix(self.rounds_of(metric), measure, direction)

    def rounds_of(self, metric: str) -> CompleteRounds:
        """Return the rounds whose trials have comparable values of a metric."""
        return self.timed if metric in PER_STEP else self.trained

    @property
    def measured(self) -> set[str]:
        """The metrics that the trials of complete rounds recorded."""
        every = (t for arm in self.trained.trials for t in self.trained.all_trials(arm))
        return {metric for trial in every for metric in trial.metrics}


@dataclass(frozen=True, slots=True)
class Answers:
    """All contrasts of a sweep, each pair once by each metric, and what they are made of.

    `time_metric` is the metric of speed-ups; None if fewer than two arms have one. `results` are
    the compared results of training, the most important one first. `leaders` have the best means.
    `matrices` and `margins` are by metric; only results have a judged margin.
    """

    time_metric: str | None
    results: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    leaders: tuple[Leader, ...]
    curves: tuple[SpeedCurve, ...]
    matrices: Mapping[str, Matrix]
    margins: Mapping[str, JudgedMargin]


def answer(compared: Compared) -> Answers:
    """Ask all questions about a sweep."""
    record, baseline = compared.record, compared.baseline
    time_metric = time_metric_of(compared.timed)
    results = result_metrics(record, compared.measured)
    others = (WHOLE_TRAINING, *EXPENSES_COMPARED)
    metrics: dict[str, Direction] = {
        **({time_metric: "minimize"} if time_metric else {}),
        **results,
        **dict.fromkeys(others, "minimize"),
    }
    design_of = _designs(record)
    contrasts, leaders = list[Contrast](), list[Leader]()
    curves: tuple[SpeedCurve, ...] = ()
    matrices, margins = dict[str, Matrix](), dict[str, JudgedMargin]()
    for metric, direction in metrics.items():
        if metric in FRESH_ONLY and not compared.are_fresh:
            continue
        matrix = compared.matrix(metric, direction)
        if not matrix.rows:
            continue
        matrices[metric] = matrix
        if metric in results:
            margins[metric] = _margin(compared, matrix)
        judging = _judging(compared, matrix, margins.get(metric))
        own = against_baseline(matrix, baseline, judging)
        best, leading = among_the_best(matrix, judging, own)
        contrasts += [*own, *best]
        leaders += leading
        if metric == time_metric or metric in results:
            contrasts += by_factors(matrix, judging)
            contrasts += own_effects(matrix, baseline, design_of, judging)
        if metric == time_metric:
            along, curves = speed_along_sizes(matrix, baseline, design_of, judging)
            contrasts += along
    return Answers(
        time_metric=time_metric,
        results=tuple(metric for metric in results if metric in matrices),
        contrasts=tuple(contrasts),
        leaders=tuple(leaders),
        curves=curves,
        matrices=matrices,
        margins=margins,
    )


def time_metric_of(timed: CompleteRounds) -> str | None:
    """Return the metric of speed-ups: the first of `TIMES` that at least two arms measured.

    The arms of a block share the batch size, so that ratios of `step_ms` are ratios per sample.
    Where variants set it, times per sample are compared if they were measured.
    """
    has_sizes = any("batch_size" in arm.settings for arm in timed.trials)
    for metric in (*_STEPS_OF_UNLIKE_BATCHES, *TIMES) if has_sizes else TIMES:
        measured = [arm for arm in timed.trials if _has(timed, arm, metric)]
        if len(measured) >= 2:
            return metric
    return None


def _has(rounds: CompleteRounds, arm: Arm, metric: str) -> bool:
    return any((value_of(trial, metric) or 0) > 0 for trial in rounds.all_trials(arm))


def _designs(record: SweepRecord) -> Callable[[tuple[int, ...]], Design]:
    """Return the function that gives the design of some blocks, each made once."""
    configs = {trial.block: trial.config for trial in record.trials}
    return cache(lambda blocks: Design([configs[block] for block in blocks]))


def _margin(compared: Compared, matrix: Matrix) -> JudgedMargin:
    """Return the margin of a result; a share of the mean of the baselines, or else of all arms."""
    bases = compared.baseline.of.values() if compared.baseline else ()
    means = [matrix.mean(arm) for arm in matrix.arms if arm in bases]
    reference = fmean(means or [matrix.mean(arm) for arm in matrix.arms])
    return judged_margin(compared.record, compared.trained, matrix.metric, reference)


def _judging(compared: Compared, matrix: Matrix, margin: JudgedMargin | None) -> Judging:
    record = compared.record
    if matrix.scale == Scale.RATIO:
        confidence = confidence_for(record.criteria.auto_blocks)
        return Judging(record.criteria.margins.speed, 1 - confidence, compared.other_mathematics)
    assert margin is not None  # every difference is of a result
    return Judging(margin.value, 1 - CONFIDENCE, compared.other_mathematics, divergence(record))


def divergence(record: SweepRecord) -> Callable[[Arm, Arm], bool]:
    """Return whether an arm's training diverged in a round that another arm completed."""
    complete, broken = ended_rounds(record)

    def diverged(arm: Arm, other: Arm) -> bool:
        return not broken.get(arm, set()).isdisjoint(complete.get(other, set()))

    return diverged
