"""What it takes one trial, or many, to reach a target accuracy.

A trial reaches a target at the end of the first epoch whose `val_accuracy` is at least the target.
It took the seconds of training up to there, validation not included. Its energy and its cost up to
there are those of its timed epochs times the share of their seconds: exact where it reached the
target in its last epoch, an estimate (of even power) elsewhere. A trial that diverged reaches
nothing, whatever it had learned before: that is no model to be kept.

The median over many trials counts those that never reached the target as longer than any: it is
known where more than half of them reached it. (Kaplan and Meier's estimate would suppose that
trials which ended early were like those that went on, but a config that is too small to reach
the target is not like one that is large enough.)
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
"""Each expense with the metric that has it of a trial's timed epochs."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Quartiles of what it took `trials` to reach a target, which `reached` of them did.

    A quartile is None where it lies among those that did not.
    """

    trials: int
    reached: int
    lower_quartile: float | None
    median: float | None
    upper_quartile: float | None


@dataclass(frozen=True, slots=True)
class Goal:
    """An accuracy to reach; `reported` says that trainers were told of it (`target_accuracy`)."""

    accuracy: float
    reported: bool = False

    def seconds(self, trial: FinishedTrial) -> float | None:
        """Seconds of training until the trial reached it; infinite if it never did.

        None where that cannot be told: from its epochs if their accuracies are known, else from
        the `time_to_accuracy_s` of a trainer that was told of it.
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
class Attempt:
    """A trial and how long it took to a goal: `Goal.seconds`."""

    trial: FinishedTrial
    seconds: float | None

    def expense(self, expense: Expense) -> float | None:
        """What it took to reach it; infinite if it never did, None where not known."""
        if self.seconds is None or expense == "time_s" or diverged(self.trial):
            return self.seconds
        metrics = self.trial.metrics
        whole, train_s = metrics.get(EXPENSES[expense]), metrics.get("train_s")
        if whole is None or not train_s or not math.isfinite(whole):
            return None
        return whole * min(1.0, self.seconds / train_s) if math.isfinite(self.seconds) else math.inf

    def reached(self, expense: Expense) -> float | None:
        """The expense of one that reached it, where it is above 0; else None."""
        value = self.expense(expense)
        return value if value is not None and 0 < value < math.inf else None


def reached_in(rounds: Mapping[Round, Sequence[Attempt]]) -> dict[int, bool]:
    """Whether all repeats of a block reached it, for each block in which that is known."""
    told: dict[int, bool] = {}
    for (block, _), attempts in rounds.items():
        for each in attempts:
            if each.seconds is not None:
                told[block] = told.get(block, True) and math.isfinite(each.seconds)
    return told


def scopes_of(attempts: Iterable[Attempt]) -> set[str]:
    """What the energies of trainings are those of; one that diverged measured none."""
    told = (each.trial for each in attempts if not diverged(each.trial))
    return {trial.telemetry.energy_scope or "" for trial in told}


def reached(values: Sequence[float | None]) -> Reached | None:
    """Quartiles of expenses of which those that never reached the target are infinite.

    None where one is not known: what is left would be a choice.
    """
    known = sorted(value for value in values if value is not None)
    if not known or len(known) < len(values):
        return None
    quartiles = (_quantile(known, q) for q in (0.25, 0.5, 0.75))
    return Reached(len(known), sum(map(math.isfinite, known)), *quartiles)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """Of sorted values, as `statistics.spread` makes it; None where that is infinite."""
    place = share * (len(values) - 1)
    below = math.floor(place)
    if place == below:
        return values[below] if math.isfinite(values[below]) else None
    low, high = values[below], values[below + 1]
    return low + (high - low) * (place - below) if math.isfinite(high) else None
