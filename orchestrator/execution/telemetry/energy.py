"""The energy of a trial's timed epochs, and how and of what it was told; or why it was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.execution.telemetry.counters import counted
from orchestrator.execution.telemetry.readings import Sample, TimeWindow
from orchestrator.execution.telemetry.recording import Recording

LEAST_S = 10.0
"""How long the timed epochs must take together: the counters move about every 100 ms."""

LEAST_WINDOW_S = 1.0
"""How long one must take on average, for the same reason: each has two edges."""

_DENSE = 0.95
"""The share of all time from the first to the last at which shorter ones will do, as there is
next to nothing between them to be told apart."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of the timed epochs; without `joules`, `why_not` says why.

    `method` is `nvml_counter`, `nvml_power` or `rapl`, or two of them joined by `+`; `scope` is
    `gpu`, `gpu+cpu_package` or `cpu_package`. `parts` are joules by scope.
    """

    joules: float | None = None
    method: str = ""
    scope: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    why_not: str = ""


def energy_of(recording: Recording) -> Energy:
    """The energy of the timed epochs.

    A GPU's trial counts its GPUs, and the CPU packages where those can be read; a CPU's trial the
    CPU packages. The packages are the node's: what else ran there is in them, and where another
    trainer was at work they are no trial's.
    """
    why_not = _no_meter(recording) or _too_short(recording.windows)
    if why_not:
        return Energy(why_not=why_not)
    shared = _shared(recording)
    package_j = None if shared else _package(recording.samples, recording.windows)
    parts = {} if package_j is None else {"cpu_package": package_j}
    if recording.device == "cpu":
        if package_j is None:
            return Energy(why_not=shared or _not_covered(recording))
        return Energy(package_j, "rapl", "cpu_package", parts)
    gpu_j, method, why_not = _gpus(recording)
    if gpu_j is None:
        return Energy(parts=parts, why_not=why_not)
    parts = {"gpu": gpu_j, **parts}
    if package_j is None:
        return Energy(gpu_j, method, "gpu", parts)
    return Energy(gpu_j + package_j, f"{method}+rapl", "gpu+cpu_package", parts)


_NOT_COVERED = "the samples do not cover all of the timed epochs"


def _no_meter(recording: Recording) -> str:
    """Why nothing could tell energy here, however long the timed epochs were."""
    if recording.device == "gpu" or any(e.package_j is not None for e in recording.samples):
        return ""
    return recording.why_no_package or _NOT_COVERED


def _too_short(windows: Sequence[TimeWindow]) -> str:
    if not windows:
        return "the workload told no training phase that could be measured"
    seconds = sum(window.seconds for window in windows)
    if seconds < LEAST_S:
        return f"the timed epochs took {seconds:.1f} s, less than the {LEAST_S:g} s it takes"
    if seconds / len(windows) < LEAST_WINDOW_S and seconds < _DENSE * _span_s(windows):
        return (
            f"the timed epochs took {seconds / len(windows):.2f} s each, less than the"
            f" {LEAST_WINDOW_S:g} s it takes to tell them from what is between them"
        )
    return ""


def _span_s(windows: Sequence[TimeWindow]) -> float:
    return windows[-1].ended_s - windows[0].began_s


def _not_covered(recording: Recording) -> str:
    slept = any(each.slept for each in recording.samples)
    return "the machine was suspended meanwhile" if slept else _NOT_COVERED


def _shared(recording: Recording) -> str:
    """Why the packages' energy is not this trial's alone, as of several GPUs of a node at once."""
    others = [each.node.other_trainers or 0 for each in recording.inside() if each.node]
    if not any(others):
        return ""
    return "another trainer was at work on the node, and the energy of its CPUs is of both"


def _package(samples: Sequence[Sample], windows: Sequence[TimeWindow]) -> float | None:
    joules = counted((each, each.package_j) for each in samples).over(windows)
    return joules or None  # a counter that stands still does not count


def _gpus(recording: Recording) -> tuple[float | None, str, str]:
    """Joules of all GPUs of the trial, by which method, and why not."""
    count = max((len(each.gpus) for each in recording.samples), default=0)
    if not count:
        return None, "", "; ".join(recording.gpu_problems) or "no GPU could be read"
    joules, methods = 0.0, set[str]()
    for index in range(count):
        found, method = _gpu(recording, index)
        if found is None:
            told = [each for each in recording.gpu_problems if _is_of(each, index)]
            return None, "", "; ".join(told) or f"GPU {index}: {_not_covered(recording)}"
        joules += found
        methods.add(method)
    return joules, "nvml_power" if "nvml_power" in methods else "nvml_counter", ""


def _is_of(problem: str, index: int) -> bool:
    about = ("TotalEnergy", "PowerUsage")
    return problem.startswith(f"GPU {index}:") and any(word in problem for word in about)


def _gpu(recording: Recording, index: int) -> tuple[float | None, str]:
    """By its counter; where that is missing, was reset or stands still, by its power over time."""
    readings = [(each, each.gpus[index]) for each in recording.samples if index < len(each.gpus)]
    by_counter = counted((sample, each.energy_j) for sample, each in readings)
    if joules := by_counter.over(recording.windows):
        return joules, "nvml_counter"
    by_power = counted((sample, each.integrated_j) for sample, each in readings)
    if joules := by_power.over(recording.windows):
        return joules, "nvml_power"
    return None, ""
