"""Groups of arms that may be ranked with one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.metrics.measures import SCOPED
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.names import mathematics_of

Among = Literal["implementations", "hardware", "arms"]


@dataclass(frozen=True, slots=True)
class Group:
    """Arms of one choice: `among` implementations or hardware, `within` the other, or among all.

    Arms in `left_out` belong to the choice and lack rounds that the others have.
    """

    among: Among
    within: str
    arms: tuple[Arm, ...]
    left_out: tuple[Arm, ...] = ()


_BY_THE_HOUR = ("train_cost_usd",)
"""On one hardware class these costs are proportional to time."""


def groups(
    matched: CompleteRounds, arms: Sequence[Arm], metric: str, scopes: Mapping[Arm, str]
) -> list[Group]:
    """Return the groups: the arms of each hardware class, those of each implementation, and all.

    The arms of a group have equal mathematics, amount of work and measuring mode, and for energy
    the same scope. An arm of an earlier start that lacks rounds is left out of groups with two
    complete arms, whose rounds it would otherwise exclude.

    Args:
        matched: the complete rounds.
        arms: the arms that have the metric.
        metric: the metric of the ranking.
        scopes: the scope of each arm's energy; empty if it has several or none.
    """
    members: dict[tuple[Among, str | HardwareUse, object], list[Arm]] = {}
    is_scoped = metric in SCOPED
    for arm in arms:
        scope = scopes.get(arm, "") if is_scoped else ""
        if is_scoped and not scope:
            continue
        alike = (mathematics_of(arm), arm.work, arm.measure, scope)
        if metric not in _BY_THE_HOUR:
            members.setdefault(("implementations", arm.hardware, alike), []).append(arm)
        members.setdefault(("hardware", arm.implementation, alike), []).append(arm)
        members.setdefault(("arms", "", alike), []).append(arm)
    kept = [
        Group(among, str(within), *_whole(matched, own))
        for (among, within, _), own in members.items()
    ]
    order = ("implementations", "hardware", "arms")
    return sorted(
        (
            group
            for group in kept
            if len(group.arms) > 1 and (group.among != "arms" or _differ_in_both(group.arms))
        ),
        key=lambda group: order.index(group.among),
    )


def _whole(matched: CompleteRounds, arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """Return the arms with all complete rounds, if at least two, and the others; else all arms."""
    whole = tuple(arm for arm in arms if len(matched.trials[arm]) == len(matched.rounds))
    if len(whole) < 2:
        return tuple(arms), ()
    return whole, tuple(arm for arm in arms if arm not in whole)


def _differ_in_both(arms: Sequence[Arm]) -> bool:
    """Return True if implementations and hardware differ; else another group has all of them."""
    return len({a.hardware for a in arms}) > 1 and len({a.implementation for a in arms}) > 1
