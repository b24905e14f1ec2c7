"""One arm by itself: its outcomes, measures and evidence, and its figures over time."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from orchestrator.analysis.arms.mathematics import Mathematics, precision_of
from orchestrator.analysis.measures import Measure, finite, scopes_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.core.arms import Arm, HardwareRef
from orchestrator.core.records import SweepRecord
from orchestrator.core.selectors import known_implementation
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial, OutcomeStatus, count_expected
from workloads.backends.registry import is_compiled
from workloads.metrics import METRICS, ComparableOver

NOISE = tuple(metric.name for metric in METRICS if "noise" in metric.reported_in)
"""The metrics of the conditions of a trial: CPU shares, clocks, temperature."""


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """The number of trials with each outcome; `missing` have not ended.

    `expected` is blocks x arms x repeats of the last start, plus the trials that only an earlier
    start planned. Trials of pruned blocks that never ran do not count.
    """

    expected: int
    complete: int
    failed: int
    wrong_kernel: int
    missing: int
    pruned: int = 0


@dataclass(frozen=True, slots=True)
class KernelCount:
    """The trials of an arm with one requested and one actual kernel; `evidence` is the first's."""

    asked: str
    ran: str
    evidence: str
    trials: int


_NUMBER = re.compile(r"\d+(\.\d+)?")

_MOST_MESSAGES = 3
"""The largest number of different messages of one reason that have their own rows."""


@dataclass(frozen=True, slots=True)
class ExcludedTrials:
    """The trials of an arm that failed for the same reason, with the message of the first one.

    A frequent message is a reason of its own. Rare messages share one reason.
    """

    arm: Arm
    status: OutcomeStatus
    reason: str
    trials: int
    message: str
    run_id: str


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm: its trials by outcome, its measures, and the evidence behind them.

    Attributes:
        planned: False if the last start did not run this arm.
        trials: The number of trials with each outcome.
        matched: True if the measures are over complete rounds only, and so comparable between
            arms. Otherwise they are over all complete trials of this arm. Measures that only a
            fresh trainer has are always over all.
        used: The number of trials behind the measures.
        measures: The measures by name. Energy is left out if its scope varied between trials.
        run_ids: The trials behind the measures, by `Measure.trainer`.
        energy_scope: What the energy includes. Different scopes are not comparable.
        mathematics: How the arm's outputs differ from a reference; None for the reference itself,
            and without fingerprints.
        kernels: The kernels that ran.
        proven: Complete trials with evidence that the requested kernel ran.
        unproven: Complete trials without evidence of any kernel.
        disturbed: Complete trials that other processes on the machine disturbed.
        not_in_turns: Complete trials that trained alone, because the trainers of their round did
            not fit into memory together.
        retried: Complete trials that needed more than one attempt.
        nodes: The nodes that ran the trials.
        jit: Whether XLA compiled the program; None for an unknown implementation.
        precision: The precision of the products; None for an unknown implementation.
        noise: The spread of each measure between repeats.
        means: The mean of each measure over the blocks that are compared (see `Matrix`), or over
            the trials behind the measure if none are. Tables show this mean.
    """

    arm: Arm
    planned: bool
    trials: TrialCounts
    matched: bool
    used: int
    measures: Mapping[str, Spread]
    run_ids: Mapping[ComparableOver, tuple[str, ...]]
    energy_scope: str
    mathematics: Mathematics | None
    kernels: tuple[KernelCount, ...]
    proven: int
    unproven: int
    disturbed: int
    not_in_turns: int
    retried: int
    nodes: tuple[str, ...]
    jit: bool | None
    precision: str | None
    noise: Mapping[str, Spread]
    means: Mapping[str, float]


def summarise_arm(
    record: SweepRecord,
    matched: CompleteRounds,
    arm: Arm,
    ended: Sequence[FinishedTrial],
    measures: Sequence[Measure],
    means: Mapping[str, float],
    mathematics: Mathematics | None,
) -> ArmSummary:
    """Summarise one arm out of its trials that `ended`.

    `means` and `mathematics`, which other arms decide, are passed through.
    """
    complete = [trial for trial in ended if trial.status == "complete"]
    used = used_trials(matched, arm, ended)
    spreads = {}
    for measure in measures:
        counted = complete if measure.trainer == "fresh" else used
        counted = [trial for trial in counted if measure.counts(trial)]
        if len(scopes_of(counted, (measure.metric,))) < 2:
            spreads[measure.metric] = spread(finite(counted, measure.metric))
    noise = {metric: spread(finite(complete, metric)) for metric in NOISE}
    planned = arm in record.arms and arm not in record.former
    of_others = len(record.trials) - len(ended)
    expected = count_expected(record.planned_blocks, [arm], record.repeats, record.trials)
    implementation = known_implementation(arm)
    scopes = scopes_of(used)
    warm, fresh = (
        tuple(trial.run_id for trial in used if (trial.trainer_trials == 0) == is_fresh)
        for is_fresh in (False, True)
    )
    return ArmSummary(
        arm=arm,
        planned=planned,
        trials=count_trials(ended, expected - of_others if planned else len(ended)),
        matched=bool(matched.comparable_trials(arm)),
        used=len(used),
        measures={metric: values for metric, values in spreads.items() if values},
        run_ids={"any": tuple(trial.run_id for trial in used), "warm": warm, "fresh": fresh},
        energy_scope=min(scopes) if len(scopes) == 1 else "",
        mathematics=mathematics,
        kernels=_kernels(ended),
        proven=sum(t.kernel is not None and bool(t.kernel.evidence) for t in complete),
        unproven=sum(trial.kernel is None for trial in complete),
        disturbed=sum(bool(trial.disturbance) for trial in complete),
        not_in_turns=sum(trial.outcome.environment.get("in_turns") is False for trial in complete),
        retried=sum(trial.attempt > 1 for trial in complete),
        nodes=tuple(sorted({trial.node for trial in complete if trial.node})),
        jit=is_compiled(implementation) if implementation else None,
        precision=precision_of(arm, complete) if implementation else None,
        noise={metric: values for metric, values in noise.items() if values},
        means=means,
    )


def used_trials(
    matched: CompleteRounds, arm: Arm, ended: Iterable[FinishedTrial]
) -> list[FinishedTrial]:
    """Return the trials behind an arm's figures: of the complete rounds, else all complete ones."""
    comparable = matched.comparable_trials(arm)
    return comparable or [trial for trial in ended if trial.status == "complete"]


def count_trials(trials: Sequence[FinishedTrial], expected: int) -> TrialCounts:
    """Count trials by outcome; retries of one block, arm and repeat count as one ended trial."""
    seen = Counter[str](trial.status for trial in trials)
    ended = len({(trial.block, trial.arm, trial.repeat) for trial in trials})
    outcomes = {kind: seen[kind] for kind in ("complete", "failed", "wrong_kernel", "pruned")}
    return TrialCounts(expected=expected, missing=max(0, expected - ended), **outcomes)


def _kernels(trials: Sequence[FinishedTrial]) -> tuple[KernelCount, ...]:
    kernels = [trial.kernel for trial in trials if trial.kernel is not None]
    counts = Counter((kernel.asked, kernel.ran) for kernel in kernels)
    first = {(kernel.asked, kernel.ran): kernel.evidence for kernel in reversed(kernels)}
    return tuple(KernelCount(*key, first[key], n) for key, n in counts.most_common())


def excluded_trials(arm: Arm, ended: Sequence[FinishedTrial]) -> list[ExcludedTrials]:
    """Return a row for each reason for which trials of the arm did not complete.

    Failures count as alike by reason and message; of more than three messages with one reason the
    two most frequent ones have rows of their own.
    """
    by_reason: dict[tuple[OutcomeStatus, str], list[FinishedTrial]] = {}
    for trial in ended:
        if trial.status != "complete":
            reason = trial.failure.reason if trial.failure else trial.status
            by_reason.setdefault((trial.status, reason), []).append(trial)
    rows = []
    for (status, cause), trials in by_reason.items():
        groups = [trials] if status != "failed" else _by_message(trials)
        for group in groups:
            messages = {_NUMBER.sub("", _message(trial)) for trial in group}
            message = _message(group[0])
            if status == "failed" and len(messages) > 1:
                message += f" (and {counted(len(messages) - 1, 'other message')})"
            rows.append(ExcludedTrials(arm, status, cause, len(group), message, group[0].run_id))
    return rows


def _by_message(trials: Sequence[FinishedTrial]) -> list[list[FinishedTrial]]:
    """Group failed trials by message, the most frequent first; from the third on as one group.

    Messages that differ in numbers alone, such as seconds, are alike.
    """
    by_message: dict[str, list[FinishedTrial]] = {}
    for trial in trials:
        by_message.setdefault(_NUMBER.sub("", _message(trial)), []).append(trial)
    groups = sorted(by_message.values(), key=len, reverse=True)
    if len(groups) <= _MOST_MESSAGES:
        return groups
    frequent, rest = groups[: _MOST_MESSAGES - 1], groups[_MOST_MESSAGES - 1 :]
    return [*frequent, [trial for group in rest for trial in group]]


def _message(trial: FinishedTrial) -> str:
    if trial.failure is not None:
        return trial.failure.headline
    if trial.status == "pruned":
        return f"ended by search.pruner after epoch {len(trial.epochs)}"
    kernel = trial.kernel
    return f"asked {kernel.asked}, ran {kernel.ran}: {kernel.evidence}" if kernel else ""


@dataclass(frozen=True, slots=True)
class Validity:
    """The evidence behind a report.

    Attributes:
        trials: Trials that ended.
        used: Trials in the matched rounds.
        left_out: Trials that did not complete.
        rounds: Complete rounds.
        disturbed_rounds: Complete rounds with a disturbed trial.
        versions: The versions of the software, by package.
        split_rounds: Complete rounds in which arms of one hardware class ran on different nodes.
    """

    trials: int
    used: int
    left_out: int
    rounds: int
    disturbed_rounds: int
    versions: Mapping[str, str]
    split_rounds: int


def validity_of(record: SweepRecord, matched: CompleteRounds) -> Validity:
    """Return the evidence behind a sweep's figures."""
    used = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    nodes: dict[tuple[HardwareRef, Round], set[str]] = defaultdict(set)
    for trial in used:
        nodes[trial.arm.hardware_class, (trial.block, trial.repeat)] |= {trial.node} - {""}
    return Validity(
        trials=len(record.trials),
        used=len(used),
        left_out=sum(trial.status != "complete" for trial in record.trials),
        rounds=len(matched.rounds),
        disturbed_rounds=len({(t.block, t.repeat) for t in used if t.disturbance}),
        versions=record.environment,
        split_rounds=len({round_key for (_, round_key), names in nodes.items() if len(names) > 1}),
    )


PHASES = (
    "queue_s",
    "setup_s",
    "import_s",
    "load_s",
    "check_s",
    "compile_s",
    "train_s",
    "timed_s",
    "validate_s",
    "callbacks_s",
    "evaluate_s",
    "predict_s",
)
"""The phases in their order; `timed_s` is the time of slices."""


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """The metric after one epoch (from 1), over blocks, and their median seconds of training.

    Seconds are of training without validation, from the first timed epoch.
    """

    epoch: int
    seconds: float
    value: Spread


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """One arm's metric against epochs and seconds, over the matched rounds if there are any.

    Each point is the mean of the blocks that reached it; a block counts once, by the mean of its
    repeats.
    """

    arm: Arm
    metric: str
    matched: bool
    trials: int
    points: tuple[LearningPoint, ...]


@dataclass(frozen=True, slots=True)
class PhaseSplit:
    """The mean seconds of each measured phase over an arm's complete trials.

    A phase that a trial did not have counts as 0 s. Trials that took turns have no queue, because
    another arm of their round runs while they wait.
    """

    arm: Arm
    trials: int
    seconds: Mapping[str, float]


def learning(
    used: Mapping[Arm, Sequence[FinishedTrial]], matched: Mapping[Arm, bool]
) -> tuple[LearningCurve, ...]:
    """Return a curve for each arm and metric of its epochs; arms timed only have none."""
    return tuple(
        curve
        for arm, trials in used.items()
        if arm.measure == "full"
        for curve in _learning_curves_of(arm, trials, matched.get(arm, False))
    )


def _learning_curves_of(
    arm: Arm, trials: Sequence[FinishedTrial], matched: bool
) -> list[LearningCurve]:
    """Return a curve per metric: medians and quartiles over blocks; repeats are averaged."""
    seconds: dict[int, list[float]] = defaultdict(list)
    values: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        at_s = 0.0
        for epoch in trial.epochs:
            at_s += epoch.seconds
            seconds[epoch.index].append(at_s)
            for metric, value in epoch.metrics.items():
                if math.isfinite(value):
                    values[metric, epoch.index][trial.block].append(value)
    points: dict[str, list[LearningPoint]] = {}
    for metric, index in sorted(values):
        over_blocks = spread([fmean(repeats) for repeats in values[metric, index].values()])
        assert over_blocks is not None  # of finite values
        point = LearningPoint(index + 1, median(seconds[index]), over_blocks)
        points.setdefault(metric, []).append(point)
    count = sum(bool(trial.epochs) for trial in trials)
    return [
        LearningCurve(arm, metric, matched, count, tuple(of_metric))
        for metric, of_metric in points.items()
    ]


def took_turns(trial: FinishedTrial) -> bool:
    """Return whether a trial took turns with other arms."""
    return trial.arm.measure == "timing" or trial.outcome.environment.get("in_turns") is True


def phases(by_arm: Mapping[Arm, Sequence[FinishedTrial]]) -> tuple[PhaseSplit, ...]:
    """Return the split of every arm that has a complete trial."""
    splits = []
    for arm, trials in by_arm.items():
        complete = [trial for trial in trials if trial.status == "complete"]
        seconds = {
            phase: math.fsum(values) / len(complete)
            for phase in PHASES
            if not (phase == "queue_s" and any(map(took_turns, complete)))
            and (values := finite(complete, phase))
        }
        if seconds:
            splits.append(PhaseSplit(arm, len(complete), seconds))
    return tuple(splits)
