"""Training in slices on request, in one Keras `fit` (`docs/methodology.md`). Imports Keras."""

import time
from collections.abc import Iterator
from typing import Any

import keras

from workloads.context import Context, PhaseWindow, SliceSize, choose_slice_size, expect_finite
from workloads.measuring.canary import peak_memory, run_with_canary, warm_clocks
from workloads.measuring.keras_clocks import ENDLESS, StepClock, expect_nothing_compiled
from workloads.measuring.step_times import rates
from workloads.models.run import StartState, TrainingRun


def run_slices(run: TrainingRun, trial: Context) -> dict[str, float]:
    """Run the requested slices from a full trial's start; return metrics, or raise as it does."""
    framework, start = run.model.witness.framework, StartState(run.model)
    size = choose_slice_size(run.steps, _step_s(run, trial.slice_s), trial.slice_s)
    feed = run.train_feed
    if size.settling_steps:
        feed = run.feed(run.train.first((size.steps + size.settling_steps) * run.batch_size))
    run.fit(feed)  # the first pass of a feed has a cost of its own
    start.restore()

    def work() -> dict[str, float]:
        clock = SliceClock(run, trial, size, trial.slices(size.steps * size.passes))
        if not clock.wait_for_slice():
            return {}
        with expect_nothing_compiled(run.model):
            run.fit(feed, clock, epochs=ENDLESS)
        assert trial.slicing is not None
        batch = min(run.batch_size, len(run.train))
        return {
            **rates(trial.slicing.step_s, batch, run.flops_per_sample),
            "cpu_over_wall": clock.cpu_s / clock.wall_s,
        }

    return run_with_canary(run.device, framework, work) | peak_memory()


class SliceClock(keras.callbacks.Callback):
    """A callback that runs the requested slices, and waits for the next request after each."""

    def __init__(
        self, run: TrainingRun, trial: Context, size: SliceSize, requests: Iterator[int]
    ) -> None:
        super().__init__()
        self._run, self._trial, self._size, self._requests = run, trial, size, requests
        self._remaining_passes = self._steps = self._calls = 0
        self._seconds = 0.0
        self._began_s = self._cpu_began_s = self._timing_began_s = self._timing_ended_s = 0.0
        self._window: PhaseWindow | None = None
        self._train: Any = None
        self.wall_s, self.cpu_s = 0.0, 0.0

    def wait_for_slice(self) -> bool:
        """Wait for the next request and open its window; return False if there is none."""
        steps = next(self._requests, None)
        if steps is None:
            return False
        self._remaining_passes = max(1, round(steps / self._size.steps))
        self._steps, self._seconds = 0, 0.0
        self._run.synchronise()
        warm_clocks(self._run.device, self._run.model.witness.framework.synchronise)
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
        expect_finite(logs or {}, f"pass {epoch}")
        self._remaining_passes -= 1
        if self._remaining_passes:
            return
        assert self._window is not None
        self._trial.end(self._window)
        self._trial.slice(self._steps, self._seconds)
        self.model.stop_training = not self.wait_for_slice()

    def _run_timed(self, *arguments: Any) -> Any:
        """Replace the model's train function in a part of a pass, to time its steps separately."""
        # It stays until the pass ends: on JAX, `fit` loses its state if the function is put back in
        # the middle of an epoch.
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
        self._steps += self._size.steps
        self._seconds += self._share_of_pass(pass_s) if self._size.settling_steps else pass_s
        if self._size.settling_steps:
            self.model.train_function = self._train

    def _share_of_pass(self, pass_s: float) -> float:
        """Return the seconds of the timed steps in a whole pass, with a share of its fixed cost."""
        size, steps_s = self._size, self._timing_ended_s - self._timing_began_s
        fixed_s = pass_s - steps_s * (size.settling_steps + size.steps) / size.steps
        return max(steps_s / 2, steps_s + fixed_s * size.steps / self._run.steps)


def _step_s(run: TrainingRun, slice_s: float) -> float:
    """Return the seconds of a step, from a window that is doubled to a quarter of a slice."""
    step_s = 0.0

    def double(steps: int, seconds: float) -> int:
        nonlocal step_s
        step_s = seconds / steps
        return 0 if seconds >= slice_s / 4 else 2 * steps

    with StepClock(run.model, double):
        run.fit(run.train_feed, epochs=ENDLESS)
    return step_s
