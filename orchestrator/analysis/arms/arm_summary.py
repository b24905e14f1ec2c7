"""One arm by itself: its trials by outcome, its measures, and the kernels that ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.derived import scopes_of
from orchestrator.analysis.metrics.measures import Measure
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.core.arms import Arm
from orchestrator.core.names import mathematics_of
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """Trials by how they ended; `missing` have not ended. `expected` is blocks x arms x repeats."""

    expected: int
    complete: int
    failed: int
    wrong_kernel: int
    missing: int


@dataclass(frozen=True, slots=True)
class KernelCount:
    """Trials of an arm that asked for, and ran, one kernel; `evidence` is the first trial's."""

    asked: str
    ran: str
    evidence: str
    trials: int


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm: its trials by outcome, its measures, and the kernels that ran.

    `matched` tells whether the measures are over the rounds that are complete on every arm, all of
    them, and so beside each other; else they are over all complete trials of this arm; `used` is
    their number. Measures that only a fresh trainer has are over all complete trials in either
    case; an energy whose trials have unlike scopes is none. `planned` is false for an arm of an
    earlier start, which the last one was not to run. `unproven` counts complete trials without
    evidence of their kernel. `mathematics` says how what the arm computes differs from what the
    settings say, and is empty as a rule.
    """

    arm: Arm
    planned: bool
    trials: TrialCounts
    matched: bool
    used: int
    measures: Mapping[str, Spread]
    kernels: tuple[KernelCount, ...]
    unproven: int
    mathematics: str = ""


def summarise_arm(
    record: SweepRecord,
    matched: CompleteRounds,
    arm: Arm,
    trials: Sequence[FinishedTrial],
    measures: Sequence[Measure],
) -> ArmSummary:
    """Summarise one arm out of all the sweep's trials."""
    own = [trial for trial in trials if trial.arm == arm]
    complete = [trial for trial in own if trial.status == "complete"]
    beside = matched.comparable_trials(arm)
    spreads = {}
    for measure in measures:
        name, told = measure.metric, complete if measure.trainer == "fresh" else beside or complete
        if measure.trainer != "any":
            told = [trial for trial in told if measure.counts(trial)]
        if len(scopes_of(told, (name,))) < 2:
            values = [trial.metrics[name] for trial in told if name in trial.metrics]
            spreads[name] = spread(values)
    planned = arm in record.arms and arm not in record.former
    return ArmSummary(
        arm=arm,
        planned=planned,
        trials=count_trials(own, record.blocks * record.repeats if planned else len(own)),
        matched=bool(beside),
        used=len(beside or complete),
        measures={metric: found for metric, found in spreads.items() if found},
        kernels=_kernels(own),
        unproven=sum(trial.kernel is None for trial in complete),
        mathematics=mathematics_of(arm),
    )


def count_trials(trials: Sequence[FinishedTrial], expected: int) -> TrialCounts:
    """Count trials by how they ended; those of one block, arm and repeat miss once at most."""
    seen = Counter(trial.status for trial in trials)
    ended = len({(trial.block, trial.arm, trial.repeat) for trial in trials})
    return TrialCounts(
        expected=expected,
        complete=seen["complete"],
        failed=seen["failed"],
        wrong_kernel=seen["wrong_kernel"],
        missing=max(0, expected - ended),
    )


def _kernels(trials: Sequence[FinishedTrial]) -> tuple[KernelCount, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    evidence: dict[tuple[str, str], str] = {}
    for kernel in (trial.kernel for trial in trials):
        if kernel is not None:
            counts[kernel.asked, kernel.ran] += 1
            evidence.setdefault((kernel.asked, kernel.ran), kernel.evidence)
    return tuple(KernelCount(*key, evidence[key], n) for key, n in counts.most_common())
