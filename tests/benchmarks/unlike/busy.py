"""Utilization of different devices, from the times of their trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One trial on a device of a class, in seconds of one clock."""

    hardware: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one hardware class in a run.

    `idle_share` is the idle share of its devices between the class's first trial and the end
    of its last. `waited_s` is the time from the run's start to the first trial, `done_s` the time
    to the end of the last.
    """

    hardware: str
    devices: int
    trials: int
    work_s: float
    idle_share: float
    waited_s: float
    done_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """A run: its classes, its makespan, and the lower bound of the makespan.

    The bound is the time of the busiest class if its work is spread evenly over its devices and
    no time is lost between trials.
    """

    name: str
    uses: tuple[Use, ...]
    makespan_s: float
    bound_s: float
    best: float | None = None

    @property
    def stretch(self) -> float:
        """The makespan over its lower bound."""
        return self.makespan_s / self.bound_s


def judge(
    name: str, spans: Sequence[Span], began_s: float, devices: dict[str, int], best: float | None
) -> Result:
    """Summarize a run whose first trial was assigned at `began_s`."""
    uses = tuple(
        _use(hardware, number, [span for span in spans if span.hardware == hardware], began_s)
        for hardware, number in devices.items()
    )
    makespan_s = max(span.ended_s for span in spans) - began_s
    bound_s = max(use.work_s / use.devices for use in uses)
    return Result(name, uses, makespan_s, bound_s, best)


def _use(hardware: str, devices: int, spans: Sequence[Span], began_s: float) -> Use:
    first_s = min(span.began_s for span in spans)
    last_s = max(span.ended_s for span in spans)
    work_s = math.fsum(span.ended_s - span.began_s for span in spans)
    idle = 1 - work_s / (devices * (last_s - first_s))
    return Use(hardware, devices, len(spans), work_s, idle, first_s - began_s, last_s - began_s)
