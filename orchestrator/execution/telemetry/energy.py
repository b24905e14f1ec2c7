"""The energy of a trial's timed epochs with method and scope, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.execution.telemetry.counters import counted
from orchestrator.execution.telemetry.readings import GpuProblem, Recording, Sample, TimeWindow

LEAST_S = 10.0
"""The least length of all timed epochs together: the counters move about every 100 ms."""

LEAST_WINDOW_S = 1.0
"""The least mean length of one, for the same reason: each has two edges."""

_DENSE = 0.95
"""Shorter epochs are measured if they make at least this share of the time from the first to the
last: next to nothing runs between them."""

_CALLS = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage")
"""The calls of NVML that energy is measured by."""


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
    reason = _no_meter(recording) or _too_short(recording.windows)
    if reason is not None:
        return Energy(reason=reason)
    shared = _shared(recording)
    package_j = None if shared else _package(recording.samples, recording.windows)
    parts = {} if package_j is None else {"cpu_package": package_j}
    if recording.device == "cpu":
        if package_j is None:
            return Energy(reason=shared or _not_covered(recording))
        return Energy(package_j, "rapl", "cpu_package", parts)
    gpu_j, method, reason = _gpus(recording)
    if gpu_j is None:
        return Energy(parts=parts, reason=reason)
    parts = {"gpu": gpu_j, **parts}
    if package_j is None:
        return Energy(gpu_j, method, "gpu", parts)
    return Energy(gpu_j + package_j, f"{method}+rapl", "gpu+cpu_package", parts)


_NOT_COVERED = "the samples do not cover all of the timed epochs"


def _no_meter(recording: Recording) -> str | None:
    """Return why no energy can be measured here, however long the timed epochs were."""
    if recording.device == "gpu" or any(s.package_j is not None for s in recording.samples):
        return None
    return recording.package_reason or _NOT_COVERED


def _too_short(windows: Sequence[TimeWindow]) -> str | None:
    if not windows:
        return "the workload reported no training phase that could be measured"
    seconds = sum(window.seconds for window in windows)
    if seconds < LEAST_S:
        return f"the timed epochs took {seconds:.1f} s; energy needs at least {LEAST_S:g} s"
    if seconds / len(windows) < LEAST_WINDOW_S and seconds < _DENSE * _span_s(windows):
        return (
            f"the timed epochs took {seconds / len(windows):.2f} s each; energy needs at least"
            f" {LEAST_WINDOW_S:g} s each, to separate them from what runs between them"
        )
    return None


def _span_s(windows: Sequence[TimeWindow]) -> float:
    return windows[-1].ended_s - windows[0].began_s


def _not_covered(recording: Recording) -> str:
    slept = any(sample.slept for sample in recording.samples)
    return "the machine was suspended during the trial" if slept else _NOT_COVERED


def _shared(recording: Recording) -> str | None:
    """Return why the packages' energy is not this trial's alone, as with several GPUs of a node."""
    others = [sample.node.other_trainers for sample in recording.inside() if sample.node]
    if not any(others):
        return None
    return "another trainer was at work on the node, and the energy of its CPUs includes both"


def _package(samples: Sequence[Sample], windows: Sequence[TimeWindow]) -> float | None:
    joules = counted((sample, sample.package_j) for sample in samples).over(windows)
    return joules or None  # a counter that does not move does not count


def _gpus(recording: Recording) -> tuple[float | None, str, str | None]:
    """Return the joules of all GPUs of the trial, the method, and why there are none."""
    count = max((len(sample.gpus) for sample in recording.samples), default=0)
    if not count:
        return None, "", _joined(recording.gpu_problems) or "no GPU could be read"
    joules, methods = 0.0, set[str]()
    for index in range(count):
        gpu_j, method = _gpu(recording, index)
        if gpu_j is None:
            refused = [p for p in recording.gpu_problems if p.gpu == index and p.call in _CALLS]
            return None, "", _joined(refused) or f"GPU {index}: {_not_covered(recording)}"
        joules += gpu_j
        methods.add(method)
    return joules, "nvml_power" if "nvml_power" in methods else "nvml_counter", None


def _joined(problems: Iterable[GpuProblem]) -> str:
    return "; ".join(map(str, problems))


def _gpu(recording: Recording, index: int) -> tuple[float | None, str]:
    """Measure by its counter; if that is missing, was reset or does not move, by its power."""
    readings = [(s, s.gpus[index]) for s in recording.samples if index < len(s.gpus)]
    by_counter = counted((sample, gpu.energy_j) for sample, gpu in readings)
    if joules := by_counter.over(recording.windows):
        return joules, "nvml_counter"
    by_power = counted((sample, gpu.integrated_j) for sample, gpu in readings)
    if joules := by_power.over(recording.windows):
        return joules, "nvml_power"
    return None, ""
