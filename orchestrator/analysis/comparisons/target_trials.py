"""The time, energy and cost of one trial, or of many, until they reach a target accuracy.

A trial reaches a target at the end of the first epoch whose `val_accuracy` is at least the target.
Its time is the seconds of training until then, without validation. Its energy and its cost are
those of its timed epochs times the share of their seconds: exact if it reached the target in its
last epoch, else an estimate that assumes even power. A trial that diverged never reaches a target,
because it leaves no usable model.

The median over many trials counts those that never reached the target as longer than any, so that
it exists if more than half of them reached it. (Kaplan and Meier's estimate would assume that
trials which ended early resemble the others, but a config that is too small to reach the target
does not resemble a larger one.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.comparisons.divergence import diverged
from orchestrator.analysis.pairing.complete_rounds import Round
from orchestrator.core.trial import FinishedTrial

Expense = Literal["time_s", "energy_j", "cost_usd"]

EXPENSES: Mapping[Expense, str] = {
    "time_s": "train_s",
    "energy_j": "energy_j",
    "cost_usd": "train_cost_usd",
}
"""The metric of each expense over a trial's timed epochs."""


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
class Goal:
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
        if any("val_accuracy" in epoch.metrics for epoch in trial.epochs):
            return self._by_epochs(trial)
        if self.reported and "val_accuracy" in trial.metrics:
            return trial.metrics.get("time_to_accuracy_s", math.inf)
        return None

    def _by_epochs(self, trial: FinishedTrial) -> float:
        seconds = 0.0
        for epoch in sorted(trial.epochs, key=lambda epoch: epoch.index):
            seconds += epoch.seconds
            if epoch.metrics.get("val_accuracy", -math.inf) >= self.accuracy:
                return seconds
        return math.inf


@dataclass(frozen=True, slots=True)
class TargetTrial:
    """A trial and its seconds of training until a goal, as `Goal.seconds` returns them."""

    trial: FinishedTrial
    seconds: float | None

    def expense(self, expense: Expense) -> float | None:
        """Return the expense until the goal; infinite if never reached, None if not recorded."""
        if self.seconds is None or expense == "time_s" or diverged(self.trial):
            return self.seconds
        metrics = self.trial.metrics
        whole, train_s = metrics.get(EXPENSES[expense]), metrics.get("train_s")
        if whole is None or not train_s or not math.isfinite(whole):
            return None
        return whole * min(1.0, self.seconds / train_s) if math.isfinite(self.seconds) else math.inf

    def comparable_expense(self, expense: Expense) -> float | None:
        """Return the expense of a trial that reached the goal, if above 0; else None."""
        value = self.expense(expense)
        return value if value is not None and 0 < value < math.inf else None


def blocks_reached(rounds: Mapping[Round, Sequence[TargetTrial]]) -> dict[int, bool]:
    """Return, for each block with recorded times, true if all its repeats reached the goal."""
    is_reached: dict[int, bool] = {}
    for (block, _), trials in rounds.items():
        for trial in trials:
            if trial.seconds is not None:
                is_reached[block] = is_reached.get(block, True) and math.isfinite(trial.seconds)
    return is_reached


def scopes_of(trials: Iterable[TargetTrial]) -> set[str]:
    """Return the scopes of the energies of these trials, without those that diverged."""
    trained = (one.trial for one in trials if not diverged(one.trial))
    return {trial.telemetry.energy_scope or "" for trial in trained}


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
    place = share * (len(values) - 1)
    below = math.floor(place)
    if place == below:
        return values[below] if math.isfinite(values[below]) else None
    low, high = values[below], values[below + 1]
    return low + (high - low) * (place - below) if math.isfinite(high) else None
