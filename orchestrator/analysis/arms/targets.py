"""Time, energy and cost to a target accuracy, by arm. `docs/trust.md` has the rules."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.measures import scopes_of
from orchestrator.analysis.pairing.complete_rounds import diverged
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class ExpenseToTarget:
    """Quartiles of an expense until a target, which `reached` of `trials` trials reached.

    A quartile is None if it lies among the trials that did not.
    """

    trials: int
    reached: int
    lower_quartile: float | None
    median: float | None
    upper_quartile: float | None


@dataclass(frozen=True, slots=True)
class TargetArm:
    """What an arm spends until it reaches the target; `energy_scope` is the scope of its energy.

    An expense is None unless every trial that reached the target recorded it. `diverged` counts the
    trials that ended with nan or infinity, and so never reached the target.
    """

    arm: Arm
    time_s: ExpenseToTarget
    energy_j: ExpenseToTarget | None
    energy_scope: str
    cost_usd: ExpenseToTarget | None
    diverged: int


@dataclass(frozen=True, slots=True)
class Target:
    """The expenses until one val_accuracy."""

    accuracy: float
    arms: tuple[TargetArm, ...]


@dataclass(frozen=True, slots=True)
class AccuracyGoal:
    """An accuracy to reach; `reported` if trainers had it as their `target_accuracy`."""

    accuracy: float
    reported: bool = False

    def seconds(self, trial: FinishedTrial) -> float | None:
        """Return the seconds of training until the trial reached it; infinite if it never did.

        They follow from the accuracies of its epochs or, if the trainer reported the goal, from
        `time_to_accuracy_s`. None without either.
        """
        if diverged(trial):
            return math.inf
        if not any("val_accuracy" in epoch.metrics for epoch in trial.epochs):
            if self.reported and "val_accuracy" in trial.metrics:
                return trial.metrics.get("time_to_accuracy_s", math.inf)
            return None
        seconds = 0.0
        for epoch in sorted(trial.epochs, key=lambda epoch: epoch.index):
            seconds += epoch.seconds
            if epoch.metrics.get("val_accuracy", -math.inf) >= self.accuracy:
                return seconds
        return math.inf


def reach(record: SweepRecord, asked: Iterable[float] = ()) -> tuple[Target, ...]:
    """Return the expenses until the spec's `target_accuracy` and the requested accuracies.

    Without any data the spec's target is omitted, and a requested one has no arms.
    """
    spec_target = record.settings.get("target_accuracy")
    wanted = dict.fromkeys(asked)
    goals = [AccuracyGoal(float(spec_target), reported=True)] if spec_target is not None else []
    goals += [AccuracyGoal(accuracy) for accuracy in wanted if accuracy != spec_target]
    if not goals:
        return ()
    trials = _ended(record)
    targets = [_target(trials, goal) for goal in goals]
    return tuple(target for target in targets if target.arms or target.accuracy in wanted)


def _ended(record: SweepRecord) -> dict[Arm, list[FinishedTrial]]:
    """Return each arm's trials of the rounds in which every arm that can complete one ended."""
    ended: dict[Arm, list[FinishedTrial]] = {
        arm: [] for arm in record.arms if arm.measure == "full"
    }
    for trial in record.trials:
        if trial.arm in ended and (trial.status == "complete" or diverged(trial)):
            ended[trial.arm].append(trial)
    rounds = [
        {(trial.block, trial.repeat) for trial in of_arm}
        for arm, of_arm in ended.items()
        if arm not in record.former and any(trial.status == "complete" for trial in of_arm)
    ]
    shared = set.intersection(*rounds) if rounds else set()
    return {
        arm: [trial for trial in of_arm if (trial.block, trial.repeat) in shared] or of_arm
        for arm, of_arm in ended.items()
    }


def _target(trials: Mapping[Arm, Sequence[FinishedTrial]], goal: AccuracyGoal) -> Target:
    every = (trial for ended in trials.values() for trial in ended if not diverged(trial))
    if all(goal.seconds(trial) is None for trial in every):
        return Target(goal.accuracy, ())
    rows = (_arm(arm, of_arm, goal) for arm, of_arm in trials.items())
    return Target(goal.accuracy, tuple(filter(None, rows)))


def _arm(arm: Arm, trials: Sequence[FinishedTrial], goal: AccuracyGoal) -> TargetArm | None:
    """Return the expenses of an arm, None without any data; only the time if all diverged."""
    timed = [(t, seconds) for t in trials if (seconds := goal.seconds(t)) is not None]
    time_s = expense_to_target([seconds for _, seconds in timed])
    if time_s is None:
        return None
    energy_j, cost_usd = (
        expense_to_target([_share(trial, metric, seconds) for trial, seconds in timed])
        for metric in ("energy_j", "train_cost_usd")
    )
    scopes = scopes_of(trial for trial, _ in timed) - {""}
    scope = min(scopes) if len(scopes) == 1 else ""
    broken = sum(diverged(trial) for trial, _ in timed)
    spent = cost_usd if broken < len(timed) else None
    return TargetArm(arm, time_s, energy_j if scope else None, scope, spent, broken)


def _share(trial: FinishedTrial, metric: str, seconds: float) -> float | None:
    """Return the share of an energy or a cost that these seconds of the timed epochs have."""
    whole, train_s = trial.metrics.get(metric), trial.metrics.get("train_s")
    if seconds == math.inf:
        return seconds
    if whole is None or not train_s or not math.isfinite(whole):
        return None
    return whole * min(1.0, seconds / train_s)


def expense_to_target(values: Sequence[float | None]) -> ExpenseToTarget | None:
    """Return the quartiles of expenses, which are infinite for trials that missed the target.

    None if one is missing, because the others would be a selection.
    """
    numbers = sorted(value for value in values if value is not None)
    if not numbers or len(numbers) < len(values):
        return None
    quartiles = (_quantile(numbers, q) for q in (0.25, 0.5, 0.75))
    return ExpenseToTarget(len(numbers), sum(map(math.isfinite, numbers)), *quartiles)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values as `estimates.spread` does; None if it is infinite."""
    position = share * (len(values) - 1)
    low, high = values[math.floor(position)], values[math.ceil(position)]
    return low + (high - low) * (position % 1) if math.isfinite(high) else None
