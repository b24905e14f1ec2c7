"""The differences between two sweeps apart from the code: settings, data, hardware, versions."""

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
    """One difference between the sides, in words; `–` for a missing value."""

    subject: Subject
    name: str
    before: str
    after: str


def differences(before: Side, after: Side) -> tuple[Difference, ...]:
    """List differences of settings, data, hardware, versions, and of the calibration probe's time.

    A param that one side searches and the other fixes is not a difference of settings: only
    configs of both sides are compared.
    """
    searched = {name for side in (before, after) for trial in side.trials for name in trial.config}
    settings = [_kept(side.settings, searched) for side in (before, after)]
    hardware = [_hardware(side) for side in (before, after)]
    unlike = [
        *_unlike("settings", *settings),
        *_unlike("data", before.data, after.data),
        *_unlike("environment", before.environment, after.environment),
    ]
    if hardware[0] != hardware[1]:
        unlike.append(Difference("hardware", "classes", *map(", ".join, hardware)))
    before_ms, after_ms = _canary_ms(before), _canary_ms(after)
    if before_ms and after_ms:
        times = number(before_ms), number(after_ms)
        unlike.append(Difference("surroundings", "calibration probe (ms)", *times))
    return tuple(unlike)


def canary_speedup(before: Side, after: Side) -> float | None:
    """Return the machine's speed after divided by that before; None if it was not measured."""
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
    """Return the median time of the calibration probe: work that never changes."""
    times = [trial.metrics[_CANARY] for trial in side.trials if _CANARY in trial.metrics]
    finite = [time for time in times if math.isfinite(time) and time > 0]
    return statistics.median(finite) if finite else None
