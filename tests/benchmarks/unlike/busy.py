"""How busy unlike devices were, from when each trial began and ended there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One trial on some device of a class, which it has to itself; seconds of one clock."""

    hardware: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """One class of a run.

    `idle_share` is what its devices were idle of the time from the class's first trial to the end
    of its last; `waited_s` how long after the run's start the first trial began, and `done_s`
    when the last one ended.
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
    """A run: its classes, its makespan, and that over its lower bound.

    The bound is what the busiest class needs if its work is spread evenly over its devices and
    nothing is lost between trials.
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
    """Sum up a run that began (handed out its first trial) at `began_s`."""
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
