"""`synthetic`: the recurrent layers alone, forward and backward, on random input.

Braun 2018 and DeepBench report the same measurement: no data, no head, no optimizer. `step_ms` is
a forward and backward pass, `forward_ms` a forward pass in inference mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.context import Context
from workloads.measuring.canary import peak_memory, run_with_canary, warm_clocks
from workloads.measuring.measurement import measure_utilization, prepare_framework
from workloads.settings import SyntheticSettings

if TYPE_CHECKING:
    from workloads.backends.framework import Framework
    from workloads.backends.passes import Passes

_SINGLE_STEPS = 100
"""Maximum number of passes that are timed one by one, for the median and the 95th percentile."""


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `synthetic`."""
    with prepare_framework(trial) as framework:
        return _run_trial(trial, SyntheticSettings(**trial.settings), framework)


def random_inputs(settings: SyntheticSettings, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Draw a batch of shape (batch_size, sequence_length, features), uniform in [-1, 1]."""
    shape = settings.batch_size, settings.sequence_length, settings.features
    return np.random.default_rng([seed, 2]).uniform(-1, 1, shape).astype(np.float32)


def _run_trial(
    trial: Context, settings: SyntheticSettings, framework: Framework
) -> dict[str, float]:
    from workloads.backends.kernel_evidence import Stack  # noqa: PLC0415 - framework
    from workloads.measuring.keras_clocks import time_warm_up  # noqa: PLC0415
    from workloads.models.built_in import passes_model  # noqa: PLC0415
    from workloads.models.layers import training_flops  # noqa: PLC0415

    with trial.phase("load"):
        model = passes_model(settings, trial)
        passes = framework.make_passes(model, trial.implementation)
        batch = passes.place(random_inputs(settings, trial.seed))
        framework.synchronise()
    with trial.phase("compile"):
        compile_s = time_warm_up(
            lambda: framework.synchronise([passes.forward(batch), passes.forward_backward(batch)])
        )
    flops = training_flops(model, settings.sequence_length)
    timing = _Timing(trial, settings, framework, passes, batch, flops)
    is_full = trial.measure == "full"
    metrics = run_with_canary(trial.device, framework, timing.full if is_full else timing.slices)
    metrics |= {**peak_memory(), "compile_s": compile_s}
    stack = Stack(settings.layers, settings.directions, settings.sequence_length)
    proof = framework.prove_passes(passes, batch, stack, trial.implementation)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    return metrics | (measure_utilization(trial, framework, metrics) if is_full else {})


@dataclass(frozen=True, slots=True)
class _Timing:
    """The passes of a trial on its batch, and the measurement of their time."""

    trial: Context
    settings: SyntheticSettings
    framework: Framework
    passes: Passes
    batch: Any
    flops_per_sample: int

    def full(self) -> dict[str, float]:
        """Time forward passes, forward and backward passes, and single ones of these."""
        from workloads.measuring.keras_clocks import step_metrics  # noqa: PLC0415 - framework

        steps, trial = self.settings.timed_steps, self.trial
        with trial.phase("forward") as forward:
            self._run(self.passes.forward, steps)
        cpu_began_s = time.process_time()
        with trial.phase("train") as train:
            self._run(self.passes.forward_backward, steps)
        cpu_s = time.process_time() - cpu_began_s
        with trial.phase("steps"):
            single = [
                self._run(self.passes.forward_backward, 1) for _ in range(min(steps, _SINGLE_STEPS))
            ]
        return {
            "forward_ms": 1_000 * forward.seconds / steps,
            "step_ms": 1_000 * train.seconds / steps,
            **self._rates(train.seconds / steps),
            "cpu_over_wall": cpu_s / train.seconds,
            **step_metrics(single),
        }

    def slices(self) -> dict[str, float]:
        """Run slices of forward and backward passes as they are requested."""
        trial, step = self.trial, self.passes.forward_backward
        cpu_s, seconds = 0.0, 0.0
        for steps in trial.slices():
            warm_clocks(trial.device, self.framework.synchronise)
            cpu_began_s = time.process_time()
            with trial.phase("train") as window:
                self._run(step, steps)
            cpu_s += time.process_time() - cpu_began_s
            seconds += window.seconds
        assert trial.slicing is not None
        if not trial.slicing.done_slices:
            return {}
        return {**self._rates(trial.slicing.step_s), "cpu_over_wall": cpu_s / seconds}

    def _run(self, step: Callable[[Any], Any], steps: int) -> float:
        """Run steps, synchronise, and return the seconds."""
        outputs, began_s = None, time.monotonic()
        for _ in range(steps):
            outputs = step(self.batch)
        self.framework.synchronise(outputs)
        return time.monotonic() - began_s

    def _rates(self, step_s: float) -> dict[str, float]:
        from workloads.measuring.keras_clocks import rates  # noqa: PLC0415 - framework

        return rates(step_s, self.settings.batch_size, self.flops_per_sample)
