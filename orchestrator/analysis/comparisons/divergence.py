"""Trainings that diverged: their loss, or another metric, is not finite at the end.

Such a trial has no value to compare, but it is a result of the arm and no accident. So it counts as
a training that reaches no accuracy, and rounds that are excluded because only one side diverged
contradict equal accuracies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round, match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

_Rounds = Mapping[Arm, set[Round]]


def diverged(trial: FinishedTrial) -> bool:
    """Check that the training ended in numbers that are not finite."""
    return trial.failure is not None and trial.failure.reason == "non_finite"


def ended_rounds(record: SweepRecord) -> tuple[_Rounds, _Rounds]:
    """Return the rounds that each arm completed, and those in which it only diverged."""
    complete: dict[Arm, set[Round]] = defaultdict(set)
    broken: dict[Arm, set[Round]] = defaultdict(set)
    for trial in record.trials:
        if trial.status == "complete":
            complete[trial.arm].add((trial.block, trial.repeat))
        elif diverged(trial):
            broken[trial.arm].add((trial.block, trial.repeat))
    return complete, {arm: rounds - complete[arm] for arm, rounds in broken.items()}


def with_diverged(record: SweepRecord, matched: CompleteRounds) -> CompleteRounds:
    """Return the rounds in which every arm with a complete trial completed or diverged.

    An arm without any complete trial has those of these rounds in which it diverged. As in
    `matched`, it removes no round of the other arms.
    """
    if not any(map(diverged, record.trials)):
        return matched
    able = tuple(arm for arm in record.arms if arm not in matched.set_aside)
    with_ended = match(
        replace(record, arms=able), lambda trial: trial.status == "complete" or diverged(trial)
    )
    lost: dict[Arm, dict[Round, list[FinishedTrial]]] = defaultdict(dict)
    for trial in record.trials:
        key = trial.block, trial.repeat
        if trial.arm in matched.set_aside and key in with_ended.rounds and diverged(trial):
            lost[trial.arm].setdefault(key, []).append(trial)
    trials = {**with_ended.trials, **lost}
    return replace(with_ended, trials=trials, set_aside=matched.set_aside)
