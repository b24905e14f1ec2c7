"""`synthetic`: the recurrent layers alone, forward and backward, on random input.

Braun 2018 and DeepBench report the same measurement: no data, no head, no optimizer. `step_ms` is
a forward and backward pass, `forward_ms` a forward pass in inference mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.context import Context
from workloads.measuring.canary import run_canary
from workloads.measuring.measurement import measure_utilization, prepare_framework
from workloads.memory import peak_rss_mib
from workloads.models.flops import recurrent_flops, training_flops
from workloads.settings.synthetic import SyntheticSettings

if TYPE_CHECKING:
    from workloads.frameworks import Framework
    from workloads.models.passes import Passes

_SINGLE_STEPS = 100
"""Maximum number of passes that are timed one by one, for the median and the 95th percentile."""


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `synthetic`."""
    settings = SyntheticSettings(**trial.settings)
    with prepare_framework(trial) as framework:
        return _run_trial(trial, settings, framework)


def random_inputs(settings: SyntheticSettings, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Draw a batch of shape (batch_size, sequence_length, features), uniform in [-1, 1]."""
    shape = settings.batch_size, settings.sequence_length, settings.features
    return np.random.default_rng([seed, 2]).uniform(-1, 1, shape).astype(np.float32)


def build(settings: SyntheticSettings, trial: Context) -> Any:
    """Build the recurrent layers alone; every step has an output."""
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import seed_of  # noqa: PLC0415
    from workloads.models.initial_weights import set_initial_weights  # noqa: PLC0415
    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    seed = seed_of(trial, 0)
    layers = recurrent_stack(settings, trial.implementation, return_sequences=True, seed=seed)
    model = keras.Sequential(
        [keras.Input((settings.sequence_length, settings.features)), *layers], name="synthetic"
    )
    set_initial_weights(model, trial.seed)
    return model


def _run_trial(
    trial: Context, settings: SyntheticSettings, framework: Framework
) -> dict[str, float]:
    from workloads.evidence import Stack, prove_passes  # noqa: PLC0415
    from workloads.models import passes  # noqa: PLC0415 - imports the framework

    with trial.phase("load"):
        model_passes = passes.make_passes(build(settings, trial), trial.implementation)
        batch = model_passes.place(random_inputs(settings, trial.seed))
        framework.synchronise()
    compile_s = _warm_up(trial, framework, model_passes, batch)
    before_ms = run_canary(trial.device, framework.synchronise)
    framework.reset_peak_memory()
    time_passes = _time_full if trial.measure == "full" else _time_slices
    metrics = time_passes(trial, framework, settings, model_passes, batch)
    metrics["canary_ms"] = max(before_ms, run_canary(trial.device, framework.synchronise))
    peaks = {"peak_gpu_mib": framework.peak_gpu_mib(), "peak_rss_mib": peak_rss_mib()}
    metrics |= {name: mib for name, mib in peaks.items() if mib is not None}
    directions = 2 if settings.bidirectional else 1
    stack = Stack(settings.layers, directions, settings.sequence_length)
    proof = prove_passes(model_passes, batch, stack, trial.implementation)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    if trial.measure == "full":
        metrics |= measure_utilization(trial, framework, metrics)
    return {**metrics, "compile_s": compile_s}


def _warm_up(trial: Context, framework: Framework, passes: Passes, batch: Any) -> float:
    """Compile; return the compile time in seconds."""
    seconds = []
    with trial.phase("compile"):
        for _ in range(3):
            began_s = time.monotonic()
            framework.synchronise([passes.forward(batch), passes.forward_backward(batch)])
            seconds.append(time.monotonic() - began_s)
    return max(0.0, seconds[0] - seconds[-1])


def _time_full(
    trial: Context, framework: Framework, settings: SyntheticSettings, passes: Passes, batch: Any
) -> dict[str, float]:
    from workloads.measuring.keras_clocks import step_metrics  # noqa: PLC0415 - imports the framework

    steps = settings.timed_steps
    with trial.phase("forward") as forward:
        _run_steps(framework, passes.forward, batch, steps)
    cpu_began_s = time.process_time()
    with trial.phase("train") as train:
        _run_steps(framework, passes.forward_backward, batch, steps)
    cpu_s = time.process_time() - cpu_began_s
    with trial.phase("steps"):
        single = _time_single_steps(
            framework, passes.forward_backward, batch, min(steps, _SINGLE_STEPS)
        )
    return {
        "forward_ms": 1_000 * forward.seconds / steps,
        "step_ms": 1_000 * train.seconds / steps,
        **_rates(settings, train.seconds / steps),
        "cpu_over_wall": cpu_s / train.seconds,
        **step_metrics(single),
    }


def _time_slices(
    trial: Context, framework: Framework, settings: SyntheticSettings, passes: Passes, batch: Any
) -> dict[str, float]:
    """Run slices of forward and backward passes as they are requested."""
    steps, probe_s = 1, 0.0
    while probe_s < trial.slice_s / 4:
        began_s = time.monotonic()
        _run_steps(framework, passes.forward_backward, batch, steps)
        probe_s = time.monotonic() - began_s
        steps *= 2
    suggested_steps = max(1, round(trial.slice_s * (steps // 2) / probe_s))
    cpu_s, seconds = 0.0, 0.0
    for slice_steps in trial.slices(suggested_steps):
        cpu_began_s = time.process_time()
        with trial.phase("train") as window:
            _run_steps(framework, passes.forward_backward, batch, slice_steps)
        cpu_s += time.process_time() - cpu_began_s
        seconds += window.seconds
        trial.slice(slice_steps, window.seconds)
    if trial.slicing is None or not trial.slicing.done_slices:
        return {}
    return {**_rates(settings, trial.slicing.step_s), "cpu_over_wall": cpu_s / seconds}


def _rates(settings: SyntheticSettings, step_s: float) -> dict[str, float]:
    """Return the rates of a forward and backward pass from its seconds."""
    flops = settings.batch_size * training_flops(
        recurrent_flops(settings, inputs=settings.features, steps=settings.sequence_length)
    )
    return {
        "sample_us": 1e6 * step_s / settings.batch_size,
        "samples_per_s": settings.batch_size / step_s,
        "model_flops_per_step": float(flops),
        "model_flops_per_s": flops / step_s,
    }


def _run_steps(framework: Framework, step: Callable[[Any], Any], batch: Any, steps: int) -> None:
    outputs = None
    for _ in range(steps):
        outputs = step(batch)
    framework.synchronise(outputs)


def _time_single_steps(
    framework: Framework, step: Callable[[Any], Any], batch: Any, steps: int
) -> list[float]:
    seconds = []
    for _ in range(steps):
        began_s = time.monotonic()
        framework.synchronise(step(batch))
        seconds.append(time.monotonic() - began_s)
    return seconds
