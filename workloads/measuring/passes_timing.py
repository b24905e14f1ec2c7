"""The time of a model's passes over one batch: no optimizer, no metrics, no data pipeline.

`step_ms` is a forward and backward pass, `forward_ms` a forward pass in inference mode.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workloads.backends.framework import Framework
from workloads.backends.passes import Passes
from workloads.context import Context
from workloads.measuring.device_state import warm_clocks
from workloads.measuring.slices_of_calls import time_slices
from workloads.measuring.step_times import step_metrics
from workloads.measuring.turn_clock import TurnClock
from workloads.settings import TrainingPlan

_SINGLE_STEPS = 100
"""Maximum number of passes that are timed one by one, for the median and the 95th percentile."""


@dataclass(frozen=True, slots=True)
class PassesTiming:
    """The passes of a trial on its batch, and the measurement of their time."""

    trial: Context
    plan: TrainingPlan
    framework: Framework
    passes: Passes
    batch: Any
    flops_per_sample: float | None

    def run_each_once(self) -> None:
        """Run each pass that is timed."""
        if self.trial.timed_work == "train":
            self.framework.synchronise(self.passes.forward_backward(self.batch))
        if self.trial.timed_work == "predict" or self.trial.measure == "full":
            self.framework.synchronise(self.passes.forward(self.batch))

    def time_whole(self) -> dict[str, float]:
        """Time forward and backward passes in turns, then forward passes, and single ones."""
        steps, trial = self.plan.timed_steps, self.trial
        synchronise = self.framework.synchronise
        samples = steps * self.plan.batch_size
        clock = TurnClock(
            trial, self.plan, samples, synchronise, lambda: warm_clocks(trial.device, synchronise)
        )
        if clock.begin(self._run(self.passes.forward_backward, 1)):
            clock.begin_pass()
            for _ in range(steps):
                clock.end_step(self.passes.forward_backward(self.batch))
            clock.end_pass()
        trial.turns.rest("finish")
        with trial.phase("forward") as forward:
            self._run(self.passes.forward, steps)
        with trial.phase("steps"):
            single = [
                self._run(self.passes.forward_backward, 1) for _ in range(min(steps, _SINGLE_STEPS))
            ]
        return {
            **clock.metrics(self.flops_per_sample),
            "forward_ms": 1_000 * forward.seconds / steps,
            **step_metrics(single),
        }

    def time_slices(self) -> dict[str, float]:
        """Run slices of the timed pass as they are requested."""
        timed_pass = self.passes.timed(self.trial.timed_work)

        def run_passes(steps: int) -> Any:
            outputs = None
            for _ in range(steps):
                outputs = timed_pass(self.batch)
            return outputs

        return time_slices(
            self.trial,
            self.framework,
            run_passes,
            batch_size=self.plan.batch_size,
            flops_per_sample=self.flops_per_sample,
        )

    def _run(self, step: Callable[[Any], Any], steps: int) -> float:
        """Run steps, synchronise, and return the seconds."""
        outputs, began_s = None, time.monotonic()
        for _ in range(steps):
            outputs = step(self.batch)
        self.framework.synchronise(outputs)
        return time.monotonic() - began_s
