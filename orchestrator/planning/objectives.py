"""The result of a block for the sampler: one number for each objective, or a failure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.core.arms import Arm
from orchestrator.core.names import names_arm
from orchestrator.core.trial import Outcome
from orchestrator.spec import Objective

_OVER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}


def arms_read(objective: Objective, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms whose outcomes an objective reads: those it names, or all of them.

    Arms that are only timed in slices are read where no other one is meant: a name such as
    `torch/fused on cpu` means the arm that is trained whole, where there is one. Arms that do an
    amount of work of their own are read where they are named, or where there are no others: what
    they learned is not what the others did.
    """
    averaged = objective.over in _OVER
    named = [arm for arm in arms if averaged or names_arm(objective.over, arm)]
    whole = [arm for arm in named if arm.measure == "full"] or named
    if not averaged:
        return tuple(whole)
    return tuple(arm for arm in whole if not arm.work) or tuple(whole)


def arms_that_speak(objectives: Iterable[Objective], arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms that a block's result waits for; all of them if no objective reads one."""
    read = {arm for objective in objectives for arm in arms_read(objective, arms)}
    return tuple(arm for arm in arms if arm in read) or tuple(arms)


def block_value(
    metric: str, objective: Objective, outcomes: Mapping[Arm, Sequence[Outcome]]
) -> float | None:
    """Return an objective over one block: repeats are averaged, then arms are aggregated.

    Returns:
        None if any trial that the objective reads is not complete or lacks the metric: a block
        in which an arm failed is a failure, never the average of its survivors.
    """
    per_arm: list[float] = []
    for arm in arms_read(objective, list(outcomes)):
        values = [
            outcome.metrics[metric]
            for outcome in outcomes[arm]
            if outcome.status == "complete" and metric in outcome.metrics
        ]
        if not values or len(values) < len(outcomes[arm]):
            return None
        per_arm.append(statistics.fmean(values))
    return _OVER.get(objective.over, statistics.fmean)(per_arm) if per_arm else None
