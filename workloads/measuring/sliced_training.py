"""Training in slices that are asked for one by one, instead of in epochs. Imports Keras.

One `fit` goes on through all of them. A slice is whole passes over the data, where one takes at
most some twice `slice_s`: each costs what a full trial's epoch does, which has a cost of its own
beside its steps (30 ms on TensorFlow). Where a pass takes longer, a slice is a part of it: its
steps are timed apart, and of that cost it has the share that its steps have in a whole pass. So a
slice's length, which a disturbed probe may choose badly, is not in the time of a step.

Batches are full ones, windows are synchronised at both edges, and nothing compiles in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import keras

from workloads.context import Context, PhaseWindow, expect_finite
from workloads.frameworks.feeding import Feed
from workloads.measuring.canary import run_canary
from workloads.measuring.full_training import expect_nothing_compiled
from workloads.measuring.slice_size import SliceSize, choose_slice_size
from workloads.memory import peak_rss_mib
from workloads.models.model import WitnessedModel
from workloads.models.run import TrainingRun
from workloads.models.start_state import StartState

_ENDLESS = 10**9
"""Epochs of a `fit` that a callback ends."""

_PROBE_SHARE = 4
"""A step's time is told from a window of at least this part of a slice."""


def warm_up_steps(run: TrainingRun) -> float:
    """Trace and compile the training step, and return what that cost, in s.

    Two steps from the same start: the second costs what the first one did without compiling.
    """
    start = StartState(run.model)
    seconds = []
    for _ in range(2):
        began_s = time.monotonic()
        _fit(run, run.feeds.short_train, epochs=1)
        run.synchronise()
        seconds.append(time.monotonic() - began_s)
        start.restore()
    return max(0.0, seconds[0] - seconds[1])


def run_slices(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Take the slices that are asked for, from the start that a full trial has.

    Raises:
        NonFinite: the loss or a metric is NaN or infinite at the end of a pass.
        CompiledWhileTimed: something was traced or compiled in a slice.
    """
    framework = run.model.witness.framework
    start = StartState(run.model)
    size = choose_slice_size(run.steps, _step_s(run, trial.slice_s), trial.slice_s)
    feed = run.feeds.train
    if size.settling:
        part = run.train.first((size.steps + size.settling) * run.batch_size)
        feed = framework.batches(part, run.batch_size, run.device)
    _fit(run, feed, epochs=1)  # whatever its first pass costs alone
    start.restore()
    before_ms = run_canary(run.device, framework.synchronise)
    framework.reset_peak_memory()
    clock = SliceClock(run, trial, size, trial.slices(size.steps * size.passes))
    if clock.ask():
        with expect_nothing_compiled(run.model):
            _fit(run, feed, epochs=_ENDLESS, clock=clock)
    peaks = {"peak_rss_mib": peak_rss_mib(), "peak_gpu_mib": framework.peak_gpu_mib()}
    return {
        **_rates(run, trial, clock),
        **{name: peak for name, peak in peaks.items() if peak is not None},
        "canary_ms": max(before_ms, run_canary(run.device, framework.synchronise)),
    }


class SliceClock(keras.callbacks.Callback):
    """Takes one slice after the other, and waits between them to be asked for the next."""

    def __init__(
        self, run: TrainingRun, trial: Context, size: SliceSize, asked: Iterator[int]
    ) -> None:
        super().__init__()
        self._run, self._trial, self._size, self._asked = run, trial, size, asked
        self._left = self._steps = self._calls = self._slices = 0
        self._seconds = 0.0
        self._began_s = self._cpu_began_s = self._settled_s = self._stepped_s = 0.0
        self._window: PhaseWindow | None = None
        self._train: Any = None
        self.steps, self.wall_s, self.cpu_s = 0, 0.0, 0.0

    def ask(self) -> bool:
        """Wait to be asked for a slice; whether there is one to take."""
        steps = next(self._asked, None)
        if steps is None:
            return False
        self._left = max(1, round(steps / self._size.steps))
        self._steps, self._seconds = 0, 0.0
        self._run.synchronise()
        self._window = self._trial.begin("train")
        return True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the window of a pass."""
        self.model.witness.after_steps = self._steps_done
        if self._size.settling:
            self._calls, self._train = 0, self.model.train_function
            self.model.train_function = self._timed
        self._run.synchronise()
        self._began_s, self._cpu_began_s = time.monotonic(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Tell of the slice, where this was its last pass, and wait for the next."""
        expect_finite(logs or {}, f"slice {self._slices}")
        self._left -= 1
        if self._left:
            return
        assert self._window is not None
        self._trial.end(self._window)
        self._slices += 1
        self._trial.slice(self._steps, self._seconds)
        self.model.stop_training = not self.ask()

    def _timed(self, *arguments: Any) -> Any:
        """Stands in for the model's train function in a part of a pass: times its steps apart.

        To its end: on JAX `fit` loses its state where it is set back in the middle of an epoch.
        """
        outputs = self._train(*arguments)
        self._calls += 1
        if self._calls == self._size.settling:
            self._run.model.witness.framework.synchronise(outputs)
            self._settled_s = time.monotonic()
        elif self._calls == self._size.settling + self._size.steps:
            self._run.model.witness.framework.synchronise(outputs)
            self._stepped_s = time.monotonic()
        return outputs

    def _steps_done(self) -> None:
        self.model.witness.after_steps = None
        self._run.synchronise()
        took_s = time.monotonic() - self._began_s
        self.cpu_s += time.process_time() - self._cpu_began_s
        self.wall_s += took_s
        self.steps += self._size.steps
        self._steps += self._size.steps
        self._seconds += self._of_a_pass(took_s) if self._size.settling else took_s
        if self._size.settling:
            self.model.train_function = self._train

    def _of_a_pass(self, took_s: float) -> float:
        """What the steps of this part take in a whole pass, of whose own cost they have a share."""
        size, steps_s = self._size, self._stepped_s - self._settled_s
        beside_s = took_s - steps_s * (size.settling + size.steps) / size.steps
        return max(steps_s / 2, steps_s + beside_s * size.steps / self._run.steps)


class _StepProbe:
    """Stands in for a model's train function: tells a step's time from a window long enough."""

    def __init__(self, model: WitnessedModel, enough_s: float) -> None:
        self._model, self._train, self._enough_s = model, model.train_function, enough_s
        self._synchronise = model.witness.framework.synchronise
        self._done, self._wanted, self._began_s = 0, 1, 0.0
        self.step_s = 0.0

    def __enter__(self) -> _StepProbe:
        self._model.train_function = self._timed
        return self

    def __exit__(self, *raised: object) -> None:
        self._model.train_function = self._train

    def _timed(self, *arguments: Any) -> Any:
        if not self._done:
            self._synchronise()
            self._began_s = time.monotonic()
        outputs = self._train(*arguments)
        self._done += 1
        if self._done == self._wanted:
            self._synchronise(outputs)
            seconds = time.monotonic() - self._began_s
            self.step_s = seconds / self._done
            self._model.stop_training = seconds >= self._enough_s
            self._done, self._wanted = 0, 2 * self._wanted
        return outputs


def _step_s(run: TrainingRun, slice_s: float) -> float:
    with _StepProbe(run.model, slice_s / _PROBE_SHARE) as probe:
        _fit(run, run.feeds.train, epochs=_ENDLESS)
    return probe.step_s


def _fit(run: TrainingRun, feed: Feed, *, epochs: int, clock: SliceClock | None = None) -> None:
    run.model.fit(
        **feed.with_targets(),
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[*run.callbacks(), *([clock] if clock else [])],
    )


def _rates(run: TrainingRun, trial: Context, clock: SliceClock) -> dict[str, float]:
    """By the step time that is told of all slices together, their geometric mean."""
    if not clock.steps or trial.turns is None:
        return {}
    step_s, batch = trial.turns.step_s, min(run.batch_size, len(run.train))
    found = {
        "sample_us": 1e6 * step_s / batch,
        "samples_per_s": batch / step_s,
        "cpu_over_wall": clock.cpu_s / clock.wall_s,
    }
    if run.flops_per_sample is not None:
        found["model_flops_per_step"] = run.flops_per_sample * batch
        found["model_flops_per_s"] = run.flops_per_sample * batch / step_s
    return found
