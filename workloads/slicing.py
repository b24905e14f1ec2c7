"""The slices of one trial: asked for one by one, taken, and told in a few numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from workloads.protocol import Command, Event, Finish, Ready, SliceDone


@dataclass(slots=True)
class Slicing:
    """A trial's side of timing in slices. `ask` waits for the next command."""

    ask: Callable[[], Command]
    slice_s: float
    taken: list[SliceDone] = field(default_factory=list)
    ready: bool = False
    finished: bool = False

    def slices(self, steps: int, emit: Callable[[Event], None]) -> Iterator[int]:
        """The steps of each slice, when it is asked for."""
        if self.ready:
            raise RuntimeError("a trial says once that it is ready, by one loop over trial.slices")
        if steps < 1:
            raise ValueError(f"trial.slices: expected at least 1 step in a slice; received {steps}")
        self.ready = True
        emit(Ready(steps))
        while not isinstance(command := self.ask(), Finish):
            before = len(self.taken)
            yield command.steps or steps
            if len(self.taken) != before + 1:
                raise RuntimeError(
                    "expected trial.slice(steps, seconds) once for each time round the loop over"
                    f" trial.slices; received it {len(self.taken) - before} times"
                )
        self.finished = True

    def slice(self, steps: int, seconds: float, emit: Callable[[Event], None]) -> None:
        """A slice was taken."""
        if steps < 1 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                "trial.slice: expected at least 1 step, and more than 0 seconds for them;"
                f" received {steps} steps and {seconds} s"
            )
        done = SliceDone(steps, seconds)
        self.taken.append(done)
        emit(done)

    @property
    def step_s(self) -> float:
        """The geometric mean of what a step took in each slice.

        So the ratio of two trials' is the mean of the log-ratios of their slices.
        """
        logs = [math.log(done.seconds / done.steps) for done in self.taken]
        return math.exp(math.fsum(logs) / len(logs))

    def metrics(self) -> dict[str, float]:
        """Of all slices together.

        Raises:
            RuntimeError: the trial has not taken the slices that it was asked for.
        """
        if not self.finished:
            raise RuntimeError(
                "the trial is timed in slices (measure: timing), and its workload returned"
                f" {'before it had taken all that were asked for' if self.ready else 'without any'}"
                ": expected a loop over trial.slices(steps) that goes on until it ends by itself."
                " Add one (see workloads/context.py), or measure this arm in full"
            )
        if not self.taken:
            raise RuntimeError("expected at least one slice before finish; received none")
        return {
            "step_ms": 1_000 * self.step_s,
            "slices": float(len(self.taken)),
            "slice_steps": statistics.fmean(done.steps for done in self.taken),
            "timed_s": math.fsum(done.seconds for done in self.taken),
        }
