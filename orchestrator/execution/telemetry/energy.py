"""The energy of a trial's timed epochs with method and scope, or the reason for its absence."""

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.readings import Recording, growth

LEAST_S = 10.0
"""The least length of all timed epochs together: the counters move about every 100 ms."""

LEAST_WINDOW_S = 1.0
"""The least mean length of one, for the same reason: each has two edges."""

_DENSE = 0.95
"""Shorter epochs are measured if they make at least this share of the time from the first to the
last: next to nothing runs between them."""

_CALLS = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption")
"""The calls of NVML that energy is measured by."""

_NOT_COVERED = "the samples do not cover all of the timed epochs"
_SHARED = "another trainer was at work on the node, and the energy of its CPUs includes both"


def energy_of(recording: Recording) -> tuple[dict[str, float], Telemetry]:
    """Return joules of the timed epochs by scope, and the telemetry with what qualifies their sum.

    A trial on a GPU counts its GPUs (scope `gpu`, method `nvml_counter` or `nvml_power`), and any
    trial the CPU packages if they can be read (`cpu_package`, `rapl`). These include whatever else
    ran on the node, and do not count if another trainer was at work there.
    """
    samples, on_cpu = recording.samples, recording.device == "cpu"
    if on_cpu and all(sample.package_j is None for sample in samples):
        return {}, Telemetry(energy_absent=recording.package_reason or _NOT_COVERED)
    if reason := _too_short(recording):
        return {}, Telemetry(energy_absent=reason)
    gpu_j, method, reason = (None, "", None) if on_cpu else _gpus(recording)
    parts = {} if gpu_j is None else {"gpu": gpu_j}
    is_shared = any(s.node.other_trainers for s in recording.inside() if s.node)
    package_j = growth(((sample, sample.package_j) for sample in samples), recording.windows)
    if package_j and not is_shared:  # a counter that does not move does not count
        parts["cpu_package"] = package_j
        method = f"{method}+rapl" if method else "rapl"
    elif on_cpu:
        reason = _SHARED if is_shared else _NOT_COVERED
    if reason:
        return parts, Telemetry(energy_absent=reason)
    return parts, Telemetry(energy_method=method, energy_scope="+".join(parts))


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


def _gpus(recording: Recording) -> tuple[float | None, str, str | None]:
    """Return the joules of all GPUs of the trial, the method, and why there are none."""
    count = max((len(sample.gpus) for sample in recording.samples), default=0)
    if not count:
        return None, "", recording.gpu_reason or "no GPU could be read"
    total_j, method = 0.0, "nvml_counter"
    for index in range(count):
        readings = [(s, s.gpus[index]) for s in recording.samples if index < len(s.gpus)]
        joules = growth(((s, gpu.energy_j) for s, gpu in readings), recording.windows)
        if not joules:  # the counter is missing, was reset, or does not move
            joules = growth(((s, gpu.integrated_j) for s, gpu in readings), recording.windows)
            method = "nvml_power"
        if not joules:
            errors = recording.gpu_errors[index] if recording.gpu_errors else {}
            reasons = [str(errors[call]) for call in _CALLS if call in errors]
            reasons = reasons or [recording.gpu_reason or _NOT_COVERED]
            return None, "", "; ".join(f"GPU {index}: {reason}" for reason in reasons)
        total_j += joules
    return total_j, method, None
