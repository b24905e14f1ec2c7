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
    """Trials by outcome; `missing` have not ended. `expected` is blocks x arms x repeats."""

    expected: int
    complete: int
    failed: int
    wrong_kernel: int
    missing: int


@dataclass(frozen=True, slots=True)
class KernelCount:
    """The trials of an arm with one requested and one actual kernel; `evidence` is the first's."""

    asked: str
    ran: str
    evidence: str
    trials: int


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm: its trials by outcome, its measures, and the kernels that ran.

    With `matched` the measures are over the complete rounds and comparable between arms, else over
    all complete trials of this arm; `used` is their number. Measures that only a fresh trainer has
    are always over all complete trials. An energy whose trials have several scopes is excluded.
    `planned` is false for an arm of an earlier start that the last one did not run. `unproven`
    counts complete trials without evidence of their kernel. `mathematics` is the difference between
    what the arm computes and the settings, normally empty.
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
    comparable = matched.comparable_trials(arm)
    spreads = {}
    for measure in measures:
        name = measure.metric
        counted = complete if measure.trainer == "fresh" else comparable or complete
        if measure.trainer != "any":
            counted = [trial for trial in counted if measure.counts(trial)]
        if len(scopes_of(counted, (name,))) < 2:
            values = [trial.metrics[name] for trial in counted if name in trial.metrics]
            spreads[name] = spread(values)
    planned = arm in record.arms and arm not in record.former
    return ArmSummary(
        arm=arm,
        planned=planned,
        trials=count_trials(own, record.blocks * record.repeats if planned else len(own)),
        matched=bool(comparable),
        used=len(comparable or complete),
        measures={metric: values for metric, values in spreads.items() if values},
        kernels=_kernels(own),
        unproven=sum(trial.kernel is None for trial in complete),
        mathematics=mathematics_of(arm),
    )


def count_trials(trials: Sequence[FinishedTrial], expected: int) -> TrialCounts:
    """Count trials by outcome; retries of one block, arm and repeat count as one ended trial."""
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
