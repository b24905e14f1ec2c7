"""Training in slices that are requested one by one, instead of in epochs. Imports Keras.

One `fit` runs through all slices. If a pass over the data takes at most about twice `slice_s`, a
slice is whole passes: a pass costs as much as an epoch of a full trial, which includes a fixed
cost per epoch (30 ms on TensorFlow). If a pass takes longer, a slice is a part of it: its steps are
timed separately, and it gets the share of the fixed cost that its steps have in a whole pass. The
time of a step therefore does not depend on the slice's length, which a disturbed probe may choose
badly.

All batches are full, windows are synchronised at both edges, and nothing compiles in them.
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
"""The probe of a step's time covers at least 1 / _PROBE_SHARE of a slice."""


def warm_up_steps(run: TrainingRun) -> float:
    """Trace and compile the training step; return the compile time in seconds.

    Two steps run from the same start. The second takes as long as the first without compiling.
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
    """Run the requested slices from the same start as a full trial; return the metrics.

    Raises:
        NonFinite: the loss or a metric is NaN or infinite at the end of a pass.
        CompiledWhileTimed: something was traced or compiled in a slice.
    """
    framework = run.model.witness.framework
    start = StartState(run.model)
    size = choose_slice_size(run.steps, _step_s(run, trial.slice_s), trial.slice_s)
    feed = run.feeds.train
    if size.settling_steps:
        part = run.train.first((size.steps + size.settling_steps) * run.batch_size)
        feed = framework.make_feed(part, run.batch_size, run.device)
    _fit(run, feed, epochs=1)  # the first pass of a feed has a cost of its own
    start.restore()
    before_ms = run_canary(run.device, framework.synchronise)
    framework.reset_peak_memory()
    clock = SliceClock(run, trial, size, trial.slices(size.steps * size.passes))
    if clock.wait_for_slice():
        with expect_nothing_compiled(run.model):
            _fit(run, feed, epochs=_ENDLESS, clock=clock)
    peaks = {"peak_rss_mib": peak_rss_mib(), "peak_gpu_mib": framework.peak_gpu_mib()}
    return {
        **_rates(run, trial, clock),
        **{name: peak for name, peak in peaks.items() if peak is not None},
        "canary_ms": max(before_ms, run_canary(run.device, framework.synchronise)),
    }


class SliceClock(keras.callbacks.Callback):
    """A callback that runs the requested slices, and waits for the next request after each."""

    def __init__(
        self, run: TrainingRun, trial: Context, size: SliceSize, requests: Iterator[int]
    ) -> None:
        super().__init__()
        self._run, self._trial, self._size, self._requests = run, trial, size, requests
        self._remaining_passes = self._steps = self._calls = self._slices = 0
        self._seconds = 0.0
        self._began_s = self._cpu_began_s = self._timing_began_s = self._timing_ended_s = 0.0
        self._window: PhaseWindow | None = None
        self._train: Any = None
        self.steps, self.wall_s, self.cpu_s = 0, 0.0, 0.0

    def wait_for_slice(self) -> bool:
        """Wait for the next request and open its window; return False if there is none."""
        steps = next(self._requests, None)
        if steps is None:
            return False
        self._remaining_passes = max(1, round(steps / self._size.steps))
        self._steps, self._seconds = 0, 0.0
        self._run.synchronise()
        self._window = self._trial.begin("train")
        return True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the window of a pass."""
        self.model.witness.on_steps_done = self._steps_done
        if self._size.settling_steps:
            self._calls, self._train = 0, self.model.train_function
            self.model.train_function = self._run_timed
        self._run.synchronise()
        self._began_s, self._cpu_began_s = time.monotonic(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Report the slice after its last pass, and wait for the next one."""
        expect_finite(logs or {}, f"slice {self._slices}")
        self._remaining_passes -= 1
        if self._remaining_passes:
            return
        assert self._window is not None
        self._trial.end(self._window)
        self._slices += 1
        self._trial.slice(self._steps, self._seconds)
        self.model.stop_training = not self.wait_for_slice()

    def _run_timed(self, *arguments: Any) -> Any:
        """Replace the model's train function in a part of a pass, to time its steps separately.

        It stays until the pass ends: on JAX, `fit` loses its state if the function is put back in
        the middle of an epoch.
        """
        outputs = self._train(*arguments)
        self._calls += 1
        if self._calls == self._size.settling_steps:
            self._run.model.witness.framework.synchronise(outputs)
            self._timing_began_s = time.monotonic()
        elif self._calls == self._size.settling_steps + self._size.steps:
            self._run.model.witness.framework.synchronise(outputs)
            self._timing_ended_s = time.monotonic()
        return outputs

    def _steps_done(self) -> None:
        self.model.witness.on_steps_done = None
        self._run.synchronise()
        pass_s = time.monotonic() - self._began_s
        self.cpu_s += time.process_time() - self._cpu_began_s
        self.wall_s += pass_s
        self.steps += self._size.steps
        self._steps += self._size.steps
        self._seconds += self._share_of_pass(pass_s) if self._size.settling_steps else pass_s
        if self._size.settling_steps:
            self.model.train_function = self._train

    def _share_of_pass(self, pass_s: float) -> float:
        """Return the seconds of the timed steps in a whole pass, with a share of its fixed cost."""
        size, steps_s = self._size, self._timing_ended_s - self._timing_began_s
        fixed_s = pass_s - steps_s * (size.settling_steps + size.steps) / size.steps
        return max(steps_s / 2, steps_s + fixed_s * size.steps / self._run.steps)


class _StepProbe:
    """A replacement of a model's train function that measures the time of a step.

    It doubles the number of steps in a window until the window takes `min_window_s`.
    """

    def __init__(self, model: WitnessedModel, min_window_s: float) -> None:
        self._model, self._train, self._min_window_s = model, model.train_function, min_window_s
        self._synchronise = model.witness.framework.synchronise
        self._steps, self._window_steps, self._began_s = 0, 1, 0.0
        self.step_s = 0.0

    def __enter__(self) -> _StepProbe:
        self._model.train_function = self._run_timed
        return self

    def __exit__(self, *raised: object) -> None:
        self._model.train_function = self._train

    def _run_timed(self, *arguments: Any) -> Any:
        if not self._steps:
            self._synchronise()
            self._began_s = time.monotonic()
        outputs = self._train(*arguments)
        self._steps += 1
        if self._steps == self._window_steps:
            self._synchronise(outputs)
            seconds = time.monotonic() - self._began_s
            self.step_s = seconds / self._steps
            self._model.stop_training = seconds >= self._min_window_s
            self._steps, self._window_steps = 0, 2 * self._window_steps
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
    """Return the rates that follow from the step time, the geometric mean over the slices."""
    if not clock.steps or trial.slicing is None:
        return {}
    step_s, batch = trial.slicing.step_s, min(run.batch_size, len(run.train))
    rates = {
        "sample_us": 1e6 * step_s / batch,
        "samples_per_s": batch / step_s,
        "cpu_over_wall": clock.cpu_s / clock.wall_s,
    }
    if run.flops_per_sample is not None:
        rates["model_flops_per_step"] = run.flops_per_sample * batch
        rates["model_flops_per_s"] = run.flops_per_sample * batch / step_s
    return rates
