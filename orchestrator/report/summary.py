"""From a sweep's record to everything that a report says, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from orchestrator.report.arms import ArmSummary, TrialCounts, count_trials, summarise_arm
from orchestrator.report.baseline import Baseline, BaselineError, pick_baseline
from orchestrator.report.best import Best
from orchestrator.report.blocks import BlockGap, ParamRange, match, ranges
from orchestrator.report.break_even import BreakEven
from orchestrator.report.comparison import Comparison, Contrast, compare, contrast
from orchestrator.report.crossover import Crossover
from orchestrator.report.failures import LeftOut, left_out
from orchestrator.report.learning import LearningCurve
from orchestrator.report.matrix import Matrix
from orchestrator.report.measures import Measure, measures_of
from orchestrator.report.pairs import time_metric
from orchestrator.report.pareto import Front, pareto_front
from orchestrator.report.phases import PhaseSplit
from orchestrator.report.proof import Validity
from orchestrator.report.published import PublishedBeside
from orchestrator.report.records import SweepRecord, TrialRecord
from orchestrator.report.sizes import BySize
from orchestrator.report.telling_runs import TelemetryCurves, telling
from orchestrator.report.trade_offs import TradeOff
from orchestrator.selector import mathematics_of, work_of
from orchestrator.trial import Arm, DatasetRecord, ImpossibleArm, Telemetry


@dataclass(frozen=True, slots=True)
class SweepHead:
    """What the sweep is and how far it has come."""

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
    """Everything that a report says; `trials` are the raw rows behind every number.

    `comparisons` are fair pairs; `different_mathematics` are the other arms and their baselines.
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
    left_out: tuple[LeftOut, ...]
    impossible: tuple[ImpossibleArm, ...]
    trials: tuple[TrialRecord, ...]
    different_mathematics: tuple[Contrast, ...] = ()
    matrix: Matrix = field(default_factory=Matrix)
    best_of_arm: tuple[Best, ...] = ()
    fronts: tuple[TradeOff, ...] = ()
    crossovers: tuple[Crossover, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    learning: tuple[LearningCurve, ...] = ()
    phases: tuple[PhaseSplit, ...] = ()
    curves: tuple[TelemetryCurves, ...] = ()
    published: tuple[PublishedBeside, ...] = ()
    validity: Validity = field(default_factory=Validity)
    sizes: tuple[BySize, ...] = ()


def summarise(
    record: SweepRecord,
    baseline: str | None = None,
    curves: Mapping[str, Telemetry] = MappingProxyType({}),
) -> ReportSummary:
    """Summarise a sweep, complete or not.

    Args:
        record: the sweep as the store has it.
        baseline: an arm (`tensorflow/portable on cpu`) or an implementation; one that stands on
            several hardware classes is the baseline within each. What the spec says if None, or
            else the sweep's first arm.
        curves: telemetry by run id, of the trials that `representatives` chose.

    Raises:
        BaselineError: `baseline` is no arm of the sweep that can run.
    """
    over = _over(record, baseline)
    matched = match(record)
    extra = sorted({trial.arm for trial in record.trials} - set(record.arms))
    arms = (*record.arms, *extra)
    place = {arm: i for i, arm in enumerate(arms)}
    trials = sorted(record.trials, key=lambda t: (t.block, t.repeat, place[t.arm], t.trial_key))
    measures = measures_of(record)
    configs = {trial.block: trial.config for trial in reversed(trials)}
    ranged = [configs[block] for block in matched.blocks or sorted(configs)]
    return ReportSummary(
        sweep=_head(record),
        baseline=over,
        time_metric=time_metric(matched),
        complete_blocks=matched.blocks,
        gaps=matched.gaps,
        set_aside=matched.set_aside,
        configs=ranges(ranged),
        comparisons=compare(record, matched, over) if over else (),
        measures=measures,
        arms=tuple(summarise_arm(record, matched, arm, trials, measures) for arm in arms),
        front=pareto_front(record, _of_baseline(mathematics_of, over), _of_baseline(work_of, over)),
        left_out=tuple(row for arm in arms for row in left_out(arm, trials)),
        impossible=record.impossible,
        trials=tuple(trials),
        different_mathematics=contrast(record, matched, over) if over else (),
        curves=telling(trials, curves),
    )


def _over(record: SweepRecord, asked: str | None) -> Baseline | None:
    """The baseline that was asked for, or the spec's own where that can run, or the first arm."""
    if asked is None and record.aims.baseline is not None:
        try:
            return pick_baseline(record, record.aims.baseline)
        except BaselineError:  # it was right when the spec was checked; the hardware has changed
            return pick_baseline(record, None)
    return pick_baseline(record, asked)


def _of_baseline(ask: Callable[[Arm], str], baseline: Baseline | None) -> str:
    """How what the baseline does differs from the settings; all that it names are alike."""
    return ask(next(iter(baseline.of.values()))) if baseline else ""


def _head(record: SweepRecord) -> SweepHead:
    planned = [trial for trial in record.trials if trial.arm in set(record.arms)]
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
