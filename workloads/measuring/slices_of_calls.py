"""Slices of work that is a loop over calls: predictions of batches, passes of a model."""

import time
from collections.abc import Callable
from typing import Any

from workloads.backends.framework import Framework
from workloads.context import Context
from workloads.measuring.device_state import warm_clocks
from workloads.measuring.step_times import prediction_rates, rates


def time_slices(
    trial: Context,
    framework: Framework,
    run_steps: Callable[[int], Any],
    *,
    batch_size: int,
    flops_per_sample: float | None,
) -> dict[str, float]:
    """Run the requested slices, synchronised at both edges; return the rates of their steps.

    `run_steps` runs the given number of steps of the trial's timed work. It returns values that are
    complete only when all of this work is.
    """
    cpu_s, seconds = 0.0, 0.0
    for steps in trial.slices():
        framework.synchronise()
        warm_clocks(trial.device, framework.synchronise)
        cpu_began_s = time.process_time()
        with trial.phase(trial.timed_work) as window:
            framework.synchronise(run_steps(steps))
        cpu_s += time.process_time() - cpu_began_s
        seconds += window.seconds
    if not trial.turns.done_slices:
        return {}
    rates_of_work = rates if trial.timed_work == "train" else prediction_rates
    return {
        **rates_of_work(trial.turns.step_s, batch_size, flops_per_sample),
        "cpu_over_wall": cpu_s / seconds,
    }
