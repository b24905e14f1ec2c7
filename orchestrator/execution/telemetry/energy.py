"""The energy of a trial's timed epochs with method and scope, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.execution.telemetry.readings import Recording
from orchestrator.execution.telemetry.samples import growth

LEAST_S = 10.0
"""The least length of all timed epochs together: the counters move about every 100 ms."""

LEAST_WINDOW_S = 1.0
"""The least mean length of one, for the same reason: each has two edges."""

_DENSE = 0.95
"""Shorter epochs are measured if they make at least this share of the time from the first to the
last: next to nothing runs between them."""

_CALLS = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage")
"""The calls of NVML that energy is measured by."""

_NOT_COVERED = "the samples do not cover all of the timed epochs"


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of the timed epochs, or the reason why they are unknown.

    `method` is `nvml_counter`, `nvml_power` or `rapl`, or two of them joined by `+`; `scope` is
    `gpu`, `gpu+cpu_package` or `cpu_package`. `parts` are joules by scope.
    """

    joules: float | None = None
    method: str = ""
    scope: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None


def energy_of(recording: Recording) -> Energy:
    """Return the energy of the timed epochs.

    A trial on a GPU counts its GPUs, and the CPU packages if they can be read. A trial on the CPU
    counts the CPU packages. These are the node's: they include whatever else ran there. If another
    trainer was at work there, they do not count.
    """
    samples = recording.samples
    if recording.device == "cpu" and all(sample.package_j is None for sample in samples):
        return Energy(reason=recording.package_reason or _NOT_COVERED)
    reason = _too_short(recording)
    if reason is not None:
        return Energy(reason=reason)
    is_shared = any(s.node.other_trainers for s in recording.inside() if s.node)
    package_j = None
    if not is_shared:  # a counter that does not move does not count
        counts = ((sample, sample.package_j) for sample in samples)
        package_j = growth(counts, recording.windows) or None
    parts = {} if package_j is None else {"cpu_package": package_j}
    if recording.device == "cpu" and package_j is not None:
        return Energy(package_j, "rapl", "cpu_package", parts)
    if recording.device == "cpu":
        reason = "another trainer was at work on the node, and the energy of its CPUs includes both"
        return Energy(reason=reason if is_shared else _not_covered(recording))
    gpu_j, method, reason = _gpus(recording)
    if gpu_j is None:
        return Energy(parts=parts, reason=reason)
    parts = {"gpu": gpu_j, **parts}
    if package_j is None:
        return Energy(gpu_j, method, "gpu", parts)
    return Energy(gpu_j + package_j, f"{method}+rapl", "gpu+cpu_package", parts)


def _too_short(recording: Recording) -> str | None:
    windows, seconds = recording.windows, recording.timed_s
    if not windows:
        return "the workload reported no training phase that could be measured"
    if seconds < LEAST_S:
        return f"the timed epochs took {seconds:.1f} s; energy needs at least {LEAST_S:g} s"
    span_s = windows[-1].ended_s - windows[0].began_s
    if seconds / len(windows) < LEAST_WINDOW_S and seconds < _DENSE * span_s:
        return (
            f"the timed epochs took {seconds / len(windows):.2f} s each; energy needs at least"
            f" {LEAST_WINDOW_S:g} s each, to separate them from what runs between them"
        )
    return None


def _not_covered(recording: Recording) -> str:
    slept = any(sample.slept for sample in recording.samples)
    return "the machine was suspended during the trial" if slept else _NOT_COVERED


def _gpus(recording: Recording) -> tuple[float | None, str, str | None]:
    """Return the joules of all GPUs of the trial, the method, and why there are none."""
    problems = recording.gpu_problems
    count = max((len(sample.gpus) for sample in recording.samples), default=0)
    if not count:
        return None, "", "; ".join(map(str, problems)) or "no GPU could be read"
    total_j, method = 0.0, "nvml_counter"
    for index in range(count):
        readings = [(s, s.gpus[index]) for s in recording.samples if index < len(s.gpus)]
        joules = growth(((s, gpu.energy_j) for s, gpu in readings), recording.windows)
        if not joules:  # the counter is missing, was reset, or does not move
            joules = growth(((s, gpu.integrated_j) for s, gpu in readings), recording.windows)
            method = "nvml_power"
        if not joules:
            refused = [str(p) for p in problems if p.gpu == index and p.call in _CALLS]
            return None, "", "; ".join(refused) or f"GPU {index}: {_not_covered(recording)}"
        total_j += joules
    return total_j, method, None
