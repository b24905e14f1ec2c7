"""Checks of times, memory and power."""

import os
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from orchestrator.execution.telemetry import Instruments, Sampler, record
from orchestrator.hardware import probe
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Outcome, judged
from tests.gpu.proofs import eligible, proven, some, unproven

_MEMORY_SHAPE = "char_rnn"
_SPEED = ("step_ms", "step_ms_median", "forward_ms", "model_flops_utilization_pct")


def speed(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Time passes of every kernel at the published shapes, and of a loop written by hand."""
    for shape in lab.sizes.shapes:
        arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
        if shape.with_xla and backend == "tensorflow":
            arms.append("tensorflow/portable+xla")
        portable: Mapping[str, Any] = {}
        for arm in arms:
            settings = {**shape.settings, "timed_steps": lab.sizes.timed_steps}
            answer = lab.ask("synthetic", arm, settings)
            measured = {**proven(answer), **some(answer, *_SPEED)}
            portable = portable or measured
            measured |= _ratios(portable, measured, "step_ms", "forward_ms")
            expected = {"shape": settings, "source": shape.source, "published": shape.published}
            yield judged("speed", shape.name, arm, unproven(answer), measured, expected)
        if backend == "torch":
            settings = {**shape.settings, "timed_steps": lab.sizes.timed_steps}
            answer = lab.ask("probes:hand_written", "torch/portable", settings)
            measured, by_hand = some(answer, "step_ms"), "torch/by hand"
            yield judged("speed", shape.name, by_hand, answer.reason or "", measured)


def memory(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Measure the peak memory of each kernel, each in a process of its own."""
    shape = next((s for s in lab.sizes.shapes if s.name == _MEMORY_SHAPE), lab.sizes.shapes[0])
    arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
    settings = {**shape.settings, "timed_steps": 3}
    portable: Mapping[str, Any] = {}
    for arm in arms:
        answer = lab.ask("synthetic", arm, settings, environ=os.environ)
        measured = some(answer, "peak_gpu_mib", "peak_rss_mib")
        portable = portable or measured
        measured |= _ratios(portable, measured, "peak_gpu_mib", "peak_rss_mib")
        is_missing = lab.device == "gpu" and "peak_gpu_mib" not in measured
        reason = unproven(answer) or ("no peak_gpu_mib" if is_missing else "")
        yield judged("memory", shape.name, arm, reason, measured)


def telemetry(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that NVML's power, energy, temperature and memory are plausible during a trial."""
    arm, shape = eligible(lab, backend)[-1], lab.sizes.shapes[0]
    settings: dict[str, Any] = {**shape.settings, "layers": 1, "bidirectional": False}
    first = lab.ask("synthetic", arm, {**settings, "timed_steps": 20})
    if first.reason:
        yield judged("telemetry", shape.name, arm, first.reason, {})
        return
    settings["timed_steps"] = int(
        np.clip(1_000 * lab.sizes.power_s / first.metrics["step_ms"], 2, 1_000_000)
    )
    if not probe().gpus:
        yield Outcome("telemetry", shape.name, "skipped", backend, arm, "NVML sees no GPU")
        return
    sampler = Sampler("gpu", lab.pid(backend), Instruments())
    sampler.start()
    answer = lab.ask("synthetic", arm, settings, listen=sampler.take)
    recording = sampler.stop()
    measured: dict[str, Any] = {**record(recording, time.time(), {})[0]}
    inside = [gpu for sample in recording.inside() for gpu in sample.gpus[:1]]
    watts = [gpu.power_w for gpu in inside if gpu.power_w is not None]
    measured |= {"samples": len(inside), "window_s": recording.timed_s}
    errors = [str(error) for gpu in recording.gpu_errors for error in gpu.values()]
    measured["not reported"] = recording.gpu_reason or "; ".join(errors)
    if watts:
        measured["energy_j by power"] = statistics.fmean(watts) * recording.timed_s
    reason = unproven(answer) or implausible(measured)
    yield judged("telemetry", shape.name, arm, reason, measured)


def implausible(measured: Mapping[str, Any]) -> str:
    """Return the figures that are impossible for a GPU at work, or an empty text."""
    names = ["energy_gpu_j", "energy_j by power", "mean_power_w", "max_temperature_c"]
    names += ["mean_gpu_utilization_pct", "peak_gpu_used_mib"]
    wrong = [f"{name} is {measured[name]:g}" for name in names if measured.get(name, 1.0) <= 0]
    counted, integrated = (
        measured.get(name, 0.0) for name in ("energy_gpu_j", "energy_j by power")
    )
    if counted and integrated and not 0.5 <= counted / integrated <= 2:
        wrong.append(f"energy is {counted:.0f} J by the counter, {integrated:.0f} J by power")
    return "; ".join(wrong)


def _ratios(
    portable: Mapping[str, Any], measured: Mapping[str, Any], *names: str
) -> dict[str, float]:
    present = [name for name in names if measured.get(name) and name in portable]
    return {f"{name} portable/this": portable[name] / measured[name] for name in present}
