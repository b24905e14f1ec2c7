"""Which arms may be ranked with one another, and what the reader chooses between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.metrics.measures import SCOPED
from orchestrator.analysis.pairing.complete_rounds import Matched
from orchestrator.core.arms import HardwareUse
from orchestrator.core.names import mathematics_of
from orchestrator.core.trial import Arm

Among = Literal["implementations", "hardware", "arms"]


@dataclass(frozen=True, slots=True)
class Group:
    """What is chosen between, within which hardware class or implementation, and of which arms.

    `left_out` could be chosen as well, and lack rounds that the others have.
    """

    among: Among
    within: str
    arms: tuple[Arm, ...]
    left_out: tuple[Arm, ...] = ()


_BY_THE_HOUR = ("train_cost_usd",)
"""On one hardware class this is time again."""


def groups(
    matched: Matched, arms: Sequence[Arm], metric: str, scopes: Mapping[Arm, str]
) -> list[Group]:
    """The arms of each hardware class, the hardware of each implementation, and all arms.

    Only arms of equal mathematics and amount of work stand in one group, trained or timed in
    slices alike; for energy, of one scope. An arm of an earlier start that lacks rounds stands in
    none with two that have them all: they would lose theirs.

    Args:
        matched: the complete rounds.
        arms: those that have the metric.
        metric: what they are ranked by.
        scopes: what each arm's energy is that of; empty where it is of several things, or unknown.
    """
    found: dict[tuple[Among, str | HardwareUse, object], list[Arm]] = {}
    is_scoped = metric in SCOPED
    for arm in arms:
        scope = scopes.get(arm, "") if is_scoped else ""
        if is_scoped and not scope:
            continue
        alike = (mathematics_of(arm), arm.work, arm.measure, scope)
        if metric not in _BY_THE_HOUR:
            found.setdefault(("implementations", arm.hardware, alike), []).append(arm)
        found.setdefault(("hardware", arm.implementation, alike), []).append(arm)
        found.setdefault(("arms", "", alike), []).append(arm)
    kept = [
        Group(among, str(within), *_whole(matched, own))
        for (among, within, _), own in found.items()
    ]
    order = ("implementations", "hardware", "arms")
    return sorted(
        (
            each
            for each in kept
            if len(each.arms) > 1 and (each.among != "arms" or _is_field(each.arms))
        ),
        key=lambda each: order.index(each.among),
    )


def _whole(matched: Matched, arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """The arms with all complete rounds, if there are two, and the others; else all and none."""
    whole = tuple(arm for arm in arms if len(matched.trials[arm]) == len(matched.rounds))
    if len(whole) < 2:
        return tuple(arms), ()
    return whole, tuple(arm for arm in arms if arm not in whole)


def _is_field(arms: Sequence[Arm]) -> bool:
    """Whether they differ in both, implementation and hardware: else another group has them all."""
    return len({a.hardware for a in arms}) > 1 and len({a.implementation for a in arms}) > 1
