"""The turns of a trial: it rests until it is told to go on, works for a short while, and reports.

The trials of a round take turns, so that they share whatever else the machine does. A part of the
timed work that is done in one turn is a slice: some steps, and their synchronised seconds.
"""

import gc
import math
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from workloads import protocol
from workloads.failures import NotPossible

_DOUBLINGS = 30
"""The most doublings of the steps of a trial run: a loop that ignores its steps must end, too."""


def step_seconds(slices: Sequence[protocol.SliceDone]) -> float:
    """Return the seconds of a step: the least over some slices.

    Other processes only ever add to a time, so the least of many slices is the one that they
    disturbed least (Chen and Revels, "Robust benchmarking in noisy environments", 2016).
    `docs/trust.md` has the measurement by which it was chosen.
    """
    return min(done.seconds / done.steps for done in slices)


@dataclass(slots=True)
class Turns:
    """A trial's side of a round.

    `next_command` waits for the next command; None for a trial that runs alone, at its own pace.
    A slice takes about `slice_s` of `timed_work`. With `measure` full the trial ends by itself,
    with timing at the command `Finish`.
    """

    emit: Callable[[protocol.Event], None]
    next_command: Callable[[], protocol.RoundCommand] | None = None
    was_sent_finish: Callable[[], bool] = lambda: False
    """Whether a trial that runs alone was sent the command `Finish`; it waits for nothing."""
    measure: Literal["full", "timing"] = "full"
    slice_s: float = 0.05
    timed_work: protocol.TimedWork = "train"
    rests_when_imported: bool = False
    """Whether the trial rests once it has imported the framework, so that others can, too."""
    is_work_known: bool = False
    """Whether the workload has asked for `timed_work`."""
    done_slices: list[protocol.SliceDone] = field(default_factory=list)
    usual_steps: int = 1
    """The steps of a slice, where the command has none."""
    is_ready: bool = False
    is_finished: bool = False
    """Whether the command `Finish` has come."""
    rested_s: float = 0.0
    """The seconds of all rests."""
    is_pruned: bool = False
    """Whether the workload was told to end before its last epoch."""
    _set_aside: frozenset[int] = frozenset()
    _thread: int = field(default_factory=threading.get_ident)
    _wanted_epochs: int = 1
    _epochs_s: list[float] = field(default_factory=list)
    """The training seconds of each epoch of the turn."""
    _reported: list[protocol.SliceDone] = field(default_factory=list)

    # A training in turns

    def become_ready(
        self, usual_steps: int = 1, pass_steps: int | None = None, passes: int | None = None
    ) -> None:
        """Report that the trial is warm, and how long its training is, as in `protocol.Ready`."""
        self.is_ready, self.usual_steps = True, usual_steps
        if self.next_command is not None:
            self.emit(protocol.Ready(usual_steps, pass_steps, passes))

    def rest(self, before: protocol.NextWork = "train") -> int:
        """Rest `before` the next work until it is this trial's turn; return the steps of a slice.

        Return 0 if the training is to end: the slices are enough, or the pruner ended the trial.
        """
        if self.is_finished:
            return 0
        if self.next_command is None:
            return self.usual_steps
        began_s = time.monotonic()
        self.emit(protocol.Resting(before))
        if not self.done_slices or before == "finish":
            # What the warm-up or the training left is released while the others work. TensorFlow
            # often takes seconds to release an iterator of tf.data: the iterator's tuning thread
            # misses that it is to end, and sleeps on, up to as long as the iterator has lived.
            gc.collect()
        command = self.next_command()
        self.rested_s += time.monotonic() - began_s
        if isinstance(command, protocol.Finish):
            self.is_finished, self._set_aside = True, frozenset(command.set_aside)
            return 0
        return command.steps or self.usual_steps

    def should_prune(self) -> bool:
        """Return whether the training is to end before its last epoch; wait for nothing."""
        if self.measure == "full":
            alone = self.next_command is None
            self.is_pruned |= self.was_sent_finish() if alone else self.is_finished
        return self.is_pruned

    def end_slice(self, steps: int, seconds: float) -> None:
        """Report a slice that is done."""
        done = protocol.SliceDone(steps, seconds)
        self.done_slices.append(done)
        if self.next_command is not None:
            self.emit(done)

    @property
    def step_s(self) -> float:
        """Seconds per step, by the slices that count."""
        counted = [
            done for index, done in enumerate(self.done_slices) if index not in self._set_aside
        ]
        return step_seconds(counted or self.done_slices)

    # A user's loop over epochs

    def begin_training(self) -> None:
        """Rest until the first turn, if the training has not begun.

        Only the thread that runs the workload takes turns: another one may outlive its trial.
        """
        if not self.is_ready and threading.get_ident() == self._thread:
            self.become_ready()
            self._wanted_epochs = self.rest()

    def end_epoch(self, seconds: float) -> None:
        """Count an epoch of these training seconds; rest if it is the last one of the turn."""
        if self.is_finished or threading.get_ident() != self._thread:
            return
        if not self.is_ready:
            self.begin_training()
            return
        self._epochs_s.append(seconds)
        if len(self._epochs_s) >= self._wanted_epochs:
            if (sum_s := math.fsum(self._epochs_s)) > 0:
                self.end_slice(len(self._epochs_s), sum_s)
            self._epochs_s.clear()
            self._wanted_epochs = self.rest()

    # A user's loop over slices

    def slices(self, steps: int | None, timed_s: Callable[[], float]) -> Iterator[int]:
        """Yield the steps of each slice when it is requested.

        Without `steps`, trial runs find the number that takes `slice_s`. `timed_s` returns the
        seconds of the phase of the timed work so far. Raise `RuntimeError` for a second loop, or a
        slice with no time or with several, `ValueError` for fewer than 1 step, and `NotPossible`
        for a workload that trains where predictions are timed.
        """
        if self.is_ready:
            raise RuntimeError("a trial can have only one loop over trial.slices")
        if self.timed_work == "predict" and not self.is_work_known:
            raise NotPossible(
                "measure: of: predict needs a workload that reads trial.timed_work and, if it is"
                " 'predict', predicts the batches of a slice in the phase 'predict'"
                " (docs/own_loop.md). To time training steps instead, set of: train"
            )
        if steps is not None and steps < 1:
            raise ValueError(f"trial.slices: expected at least 1 step; received {steps}")
        self.is_ready = True
        usual = steps or (yield from self._choose_steps(timed_s))
        self.become_ready(usual)
        while (wanted := self.rest()) > 0:
            done = yield from self._run(wanted, timed_s)
            self.end_slice(done.steps, done.seconds)

    def report_slice(self, steps: int, seconds: float) -> None:
        """Take this iteration's whole steps (1 or more) and seconds; raise `ValueError`."""
        if steps < 1 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                "trial.slice: expected at least 1 step and more than 0 seconds; received"
                f" {steps} steps and {seconds} s"
            )
        self._reported.append(protocol.SliceDone(steps, seconds))

    def _choose_steps(self, timed_s: Callable[[], float]) -> Generator[int, None, int]:
        """Yield the steps of trial runs; return how many steps take about `slice_s`."""
        for doubling in range(_DOUBLINGS):
            yield from self._run(2**doubling, timed_s)  # a program of so many steps may be compiled
            done = yield from self._run(2**doubling, timed_s)
            if done.seconds >= self.slice_s / 4:
                break
        steps = max(1, round(self.slice_s * done.steps / done.seconds))
        yield from self._run(steps, timed_s)
        return steps

    def _run(
        self, steps: int, timed_s: Callable[[], float]
    ) -> Generator[int, None, protocol.SliceDone]:
        """Yield these steps once; return the slice that the iteration reported or timed."""
        self._reported.clear()
        began_s = timed_s()
        yield steps
        if not self._reported and (seconds := timed_s() - began_s) > 0:
            self.report_slice(steps, seconds)
        if len(self._reported) != 1:
            raise RuntimeError(
                f"each iteration of the loop over trial.slices needs a phase `{self.timed_work}`,"
                f" or one call of trial.slice(steps, seconds); this one had {len(self._reported)}"
            )
        return self._reported[0]

    def metrics(self) -> dict[str, float]:
        """Return the metrics of a timing trial; `RuntimeError` if it has not run all slices."""
        if not self.is_finished:
            progress = "before all slices were done" if self.is_ready else "without any slice"
            raise RuntimeError(
                f"with measure: timing, the workload returned {progress}. Loop over trial.slices()"
                " until it ends by itself (docs/own_loop.md), or set measure: full for this arm"
            )
        if not self.done_slices:
            raise RuntimeError("the trial was told to finish before its first slice")
        step = "step_ms" if self.timed_work == "train" else "predict_ms"
        return {
            step: 1_000 * self.step_s,
            "slices": float(len(self.done_slices)),
            "slice_steps": statistics.fmean(done.steps for done in self.done_slices),
            "timed_s": math.fsum(done.seconds for done in self.done_slices),
        }
