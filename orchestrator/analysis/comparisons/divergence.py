"""Trainings that diverged: they ended in a loss, or a metric, that is not finite.

Such a trial has nothing to be compared, and is no accident either: it is how that training ends on
that arm. So it counts as one that reaches no accuracy, and rounds that are left out because one
side alone diverged say something against equal accuracies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round, match
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Arm, FinishedTrial


@dataclass(frozen=True, slots=True)
class Ends:
    """The rounds of each arm by how its training ended: complete, or else diverged."""

    complete: Mapping[Arm, frozenset[Round]]
    diverged: Mapping[Arm, frozenset[Round]]

    def alone(self, arm: Arm, other: Arm) -> frozenset[int]:
        """The blocks in which the arm diverged in a round that the other one completed."""
        none: frozenset[Round] = frozenset()
        return frozenset(
            block for block, _ in self.diverged.get(arm, none) & self.complete.get(other, none)
        )


def diverged(trial: FinishedTrial) -> bool:
    """Whether the training ended in numbers that are not finite."""
    return trial.failure is not None and trial.failure.reason == "non_finite"


def ends(record: SweepRecord) -> Ends:
    """How the trainings of each arm ended; one that was completed at last did not diverge."""
    complete: dict[Arm, set[Round]] = defaultdict(set)
    broken: dict[Arm, set[Round]] = defaultdict(set)
    for trial in record.trials:
        if trial.status == "complete":
            complete[trial.arm].add((trial.block, trial.repeat))
        elif diverged(trial):
            broken[trial.arm].add((trial.block, trial.repeat))
    return Ends(
        {arm: frozenset(rounds) for arm, rounds in complete.items()},
        {arm: frozenset(rounds - complete[arm]) for arm, rounds in broken.items()},
    )


def with_diverged(record: SweepRecord, matched: CompleteRounds) -> CompleteRounds:
    """The rounds in which every arm that completes at all was completed, or diverged.

    An arm none of whose trials completed, and some diverged, has those of these rounds in which it
    did; it holds up no other arm, as in `matched`.
    """
    if not any(map(diverged, record.trials)):
        return matched
    able = tuple(arm for arm in record.arms if arm not in matched.set_aside)
    found = match(replace(record, arms=able), _has_ended)
    lost: dict[Arm, dict[Round, list[FinishedTrial]]] = defaultdict(dict)
    for trial in record.trials:
        each = trial.block, trial.repeat
        if trial.arm in matched.set_aside and each in found.rounds and diverged(trial):
            lost[trial.arm].setdefault(each, []).append(trial)
    return replace(found, trials={**found.trials, **lost}, set_aside=matched.set_aside)


def _has_ended(trial: FinishedTrial) -> bool:
    return trial.status == "complete" or diverged(trial)
