"""Slices of one trial: requested one by one, trained, and summarised as metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from workloads.protocol import Command, Event, Finish, Ready, SliceDone

_SETTLING_STEPS = 4
"""Untimed steps before a slice that is part of a pass: as many batches are read ahead."""


@dataclass(slots=True)
class Slicing:
    """A trial's side of timing in slices; `next_command` waits for the next command."""

    next_command: Callable[[], Command]
    slice_s: float
    done_slices: list[SliceDone] = field(default_factory=list)
    is_ready: bool = False
    is_finished: bool = False

    def slices(self, steps: int, emit: Callable[[Event], None]) -> Iterator[int]:
        """Yield the steps of each slice when it is requested.

        Raises:
            RuntimeError: a second loop, or a slice that was not reported exactly once.
            ValueError: fewer than 1 step.
        """
        if self.is_ready:
            raise RuntimeError("expected one loop over trial.slices in a trial; received a second")
        if steps < 1:
            raise ValueError(f"trial.slices: expected at least 1 step in a slice; received {steps}")
        self.is_ready = True
        emit(Ready(steps))
        while not isinstance(command := self.next_command(), Finish):
            before = len(self.done_slices)
            yield command.steps or steps
            if len(self.done_slices) != before + 1:
                raise RuntimeError(
                    "expected trial.slice(steps, seconds) once per iteration of the loop over"
                    f" trial.slices; received it {len(self.done_slices) - before} times"
                )
        self.is_finished = True

    def slice(self, steps: int, seconds: float, emit: Callable[[Event], None]) -> None:
        """Record and report a slice: its whole training steps, and their seconds.

        Raises:
            ValueError: fewer than 1 step, or not a positive finite time.
        """
        if steps < 1 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                "trial.slice: expected at least 1 step, and more than 0 seconds for them;"
                f" received {steps} steps and {seconds} s"
            )
        done = SliceDone(steps, seconds)
        self.done_slices.append(done)
        emit(done)

    @property
    def step_s(self) -> float:
        """Seconds per step: the geometric mean over the slices."""
        logs = [math.log(done.seconds / done.steps) for done in self.done_slices]
        return math.exp(math.fsum(logs) / len(logs))

    def metrics(self) -> dict[str, float]:
        """Return the metrics of all slices together.

        Raises:
            RuntimeError: the trial has not run all slices that were requested.
        """
        if not self.is_finished:
            progress = "before it had run all requested slices" if self.is_ready else "without any"
            raise RuntimeError(
                "the trial is timed in slices (measure: timing), and its workload returned"
                f" {progress}: expected a loop over trial.slices(steps) that runs until it ends by"
                " itself. Add one (see workloads/context.py), or measure this arm in full"
            )
        if not self.done_slices:
            raise RuntimeError("expected at least one slice before finish; received none")
        return {
            "step_ms": 1_000 * self.step_s,
            "slices": float(len(self.done_slices)),
            "slice_steps": statistics.fmean(done.steps for done in self.done_slices),
            "timed_s": math.fsum(done.seconds for done in self.done_slices),
        }


@dataclass(frozen=True, slots=True)
class SliceSize:
    """The passes of one slice: `passes` times `settling_steps` untimed and `steps` timed steps."""

    steps: int
    settling_steps: int
    passes: int


def choose_slice_size(pass_steps: int, step_s: float, slice_s: float) -> SliceSize:
    """Return the size of a slice that takes about `slice_s`.

    A slice is whole passes over the data, of `pass_steps` steps, or a part of one pass. A part that
    would be nearly a whole pass, with its settling steps, becomes a whole pass.
    """
    steps = max(1, round(slice_s / step_s))
    passes = round(steps / pass_steps)
    if passes:
        return SliceSize(pass_steps, 0, passes)
    settling_steps = min(_SETTLING_STEPS, 1 + steps // _SETTLING_STEPS)
    if steps + settling_steps >= pass_steps:
        return SliceSize(pass_steps, 0, 1)
    return SliceSize(steps, settling_steps, 1)
