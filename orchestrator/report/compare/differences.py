"""In what two sweeps differ besides what is to be compared: told before any figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.core.trial import canonical
from orchestrator.report.compare.sides import Side

Subject = Literal["settings", "data", "hardware", "environment", "surroundings"]

_CANARY = "canary_ms"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides, in words; `–` where a side has none."""

    subject: Subject
    name: str
    before: str
    after: str


def differences(before: Side, after: Side) -> tuple[Difference, ...]:
    """Settings, data, hardware, versions; and how long the canary took, where it sang.

    A param that one side searches and the other fixes is no difference of settings: there the
    configs that both have tell.
    """
    searched = {name for side in (before, after) for trial in side.trials for name in trial.config}
    settings = [_kept(side.settings, searched) for side in (before, after)]
    hardware = [_hardware(side) for side in (before, after)]
    found = [
        *_unlike("settings", *settings),
        *_unlike("data", before.data, after.data),
        *_unlike("environment", before.environment, after.environment),
    ]
    if hardware[0] != hardware[1]:
        found.append(Difference("hardware", "classes", *(", ".join(each) for each in hardware)))
    canaries = [_canary_ms(side) for side in (before, after)]
    if all(canaries):
        found.append(
            Difference("surroundings", "canary (ms)", *(number(each or 0) for each in canaries))
        )
    return tuple(found)


def canary_speedup(before: Side, after: Side) -> float | None:
    """How much faster the machine itself was after than before; None where it is not known."""
    one, other = _canary_ms(before), _canary_ms(after)
    return one / other if one and other else None


def _kept(settings: Mapping[str, Any], searched: set[str]) -> dict[str, str]:
    return {name: canonical(value) for name, value in settings.items() if name not in searched}


def _unlike(
    subject: Subject, before: Mapping[str, str], after: Mapping[str, str]
) -> list[Difference]:
    return [
        Difference(subject, name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _hardware(side: Side) -> list[str]:
    return sorted({str(arm.hardware_class) for arm in side.arms})


def _canary_ms(side: Side) -> float | None:
    """The median time of the piece of work that never changes: the machine's own speed."""
    times = [trial.metrics[_CANARY] for trial in side.trials if _CANARY in trial.metrics]
    finite = [each for each in times if math.isfinite(each) and each > 0]
    return statistics.median(finite) if finite else None
