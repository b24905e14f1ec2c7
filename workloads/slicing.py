"""Slices of one trial: requested one by one, trained, and summarised as metrics."""

import math
import statistics
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

from workloads.protocol import Command, Event, Finish, Ready, SliceDone

_SETTLING_STEPS = 4
"""Untimed steps before a slice that is part of a pass: as many batches are read ahead."""

_DOUBLINGS = 30
"""The most doublings of the steps of a trial run: a loop that ignores its steps must end, too."""


@dataclass(slots=True)
class Slicing:
    """A trial's side of timing in slices; `next_command` waits for the next command."""

    next_command: Callable[[], Command]
    slice_s: float
    done_slices: list[SliceDone] = field(default_factory=list)
    is_ready: bool = False
    is_finished: bool = False
    _reported: list[SliceDone] = field(default_factory=list)

    def slices(
        self, steps: int | None, emit: Callable[[Event], None], train_s: Callable[[], float]
    ) -> Iterator[int]:
        """Yield the steps of each slice when it is requested.

        Without `steps`, trial runs find the number that takes `slice_s`. `train_s` returns the
        seconds of the phase `train` so far. Raise `RuntimeError` for a second loop, or a slice with
        no time or with several, `ValueError` for fewer than 1 step.
        """
        if self.is_ready:
            raise RuntimeError("expected one loop over trial.slices in a trial; received a second")
        if steps is not None and steps < 1:
            raise ValueError(f"trial.slices: expected at least 1 step in a slice; received {steps}")
        self.is_ready = True
        usual = steps or (yield from self._choose_steps(train_s))
        emit(Ready(usual))
        while not isinstance(command := self.next_command(), Finish):
            done = yield from self._run(command.steps or usual, train_s)
            self.done_slices.append(done)
            emit(done)
        self.is_finished = True

    def slice(self, steps: int, seconds: float) -> None:
        """Report this iteration's whole steps (1 or more) and seconds, or `ValueError`."""
        if steps < 1 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                "trial.slice: expected at least 1 step, and more than 0 seconds for them;"
                f" received {steps} steps and {seconds} s"
            )
        self._reported.append(SliceDone(steps, seconds))

    def _choose_steps(self, train_s: Callable[[], float]) -> Generator[int, None, int]:
        """Yield the steps of trial runs; return how many steps take about `slice_s`."""
        for doubling in range(_DOUBLINGS):
            yield from self._run(2**doubling, train_s)  # a program of so many steps may be compiled
            done = yield from self._run(2**doubling, train_s)
            if done.seconds >= self.slice_s / 4:
                break
        steps = max(1, round(self.slice_s * done.steps / done.seconds))
        yield from self._run(steps, train_s)
        return steps

    def _run(self, steps: int, train_s: Callable[[], float]) -> Generator[int, None, SliceDone]:
        """Yield these steps once; return the slice that the iteration reported or timed."""
        self._reported.clear()
        began_s = train_s()
        yield steps
        if not self._reported and (seconds := train_s() - began_s) > 0:
            self.slice(steps, seconds)
        if len(self._reported) != 1:
            raise RuntimeError(
                "expected a phase `train`, or trial.slice(steps, seconds) once, in each iteration"
                f" of the loop over trial.slices; received {len(self._reported)} slices"
            )
        return self._reported[0]

    @property
    def step_s(self) -> float:
        """Seconds per step: the geometric mean over the slices."""
        logs = [math.log(done.seconds / done.steps) for done in self.done_slices]
        return math.exp(math.fsum(logs) / len(logs))

    def metrics(self) -> dict[str, float]:
        """Return the slices' metrics; `RuntimeError` if the trial has not run all of them."""
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
