"""A trial's telemetry as its outcome keeps it: metrics, their qualifiers, and short curves.

All metrics but the peak memory are of the timed epochs alone. Where these are short, the CPU time
of others is observed for some seconds around them. Figures that were not measured are absent.
Curves are of the whole trial, and named like MLflow's own system metrics where these exist. Their
GPUs are numbered from 0 within the trial, so that the UI overlays different GPUs.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry import readings

POINTS = 200
"""The most points of a curve."""

LEAST_S = 10.0
"""The least length of all timed epochs together: the counters move about every 100 ms."""

LEAST_WINDOW_S = 1.0
"""The least mean length of one, for the same reason: each has two edges."""

LOAD_S = 2.0
"""How long the CPU time of others is observed at least, if the trial lasts so long: two intervals
between samples. The kernel counts it in steps of 10 ms."""

LEAST_LOAD_S = 0.5
"""In a shorter trial the recording of the previous one would outweigh other processes."""

_DENSE = 0.95
"""Shorter epochs are measured if they make at least this share of the time from the first to the
last: next to nothing runs between them."""

_NOT_COVERED = "the samples do not cover all of the timed epochs"
_SHARED = "another trainer ran on the node, and the energy of its CPUs includes both"

_MB = 2**20 / 1e6
"""MLflow's megabytes are decimal."""

GpuValue = Callable[[readings.GpuReading], float | None]
NodeValue = Callable[[readings.NodeReading], float | None]

_GAUGES: Mapping[str, tuple[GpuValue, Callable[..., float]]] = {
    "mean_gpu_utilization_pct": (lambda gpu: gpu.utilization_pct, fmean),
    "sm_clock_mhz": (lambda gpu: gpu.sm_clock_mhz, fmean),
    "throttled_pct": (lambda gpu: gpu.throttled_pct, fmean),
    "clock_drop_pct": (lambda gpu: gpu.clock_drop_pct, fmean),
    "max_temperature_c": (lambda gpu: gpu.temperature_c, max),
}

_GPU_CURVES: Mapping[str, GpuValue] = {
    "utilization_percentage": lambda gpu: gpu.utilization_pct,
    "memory_usage_megabytes": lambda gpu: _scaled(gpu.memory_used_mib, _MB),
    "memory_usage_percentage": lambda gpu: _percent(gpu.memory_used_mib, gpu.memory_total_mib),
    "power_usage_watts": lambda gpu: gpu.power_w,
    "temperature_celsius": lambda gpu: gpu.temperature_c,
    "sm_clock_megahertz": lambda gpu: gpu.sm_clock_mhz,
    "throttled_percentage": lambda gpu: gpu.throttled_pct,
}

_NODE_CURVES: Mapping[str, NodeValue] = {
    "system_memory_usage_megabytes": lambda node: node.memory_used_mib * _MB,
    "system_memory_usage_percentage": lambda node: _percent(
        node.memory_used_mib, node.memory_total_mib
    ),
    "trainer_memory_usage_megabytes": lambda node: _scaled(node.trainer_mib, _MB),
    "cpu_temperature_celsius": lambda node: node.temperature_c,
}


def record(
    recording: readings.Recording, started_s: float, reported: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    """Return the metrics and the telemetry of an outcome, and never raise.

    `started_s` is in seconds since the epoch. An energy that the workload `reported` itself wins.
    """
    try:
        metrics, telemetry = summarise_telemetry(recording)
        if "energy_j" in reported:
            telemetry = replace(
                telemetry, energy_method="workload", energy_scope=None, energy_absent=None
            )
        elif "energy_j" in metrics and (samples := _trained_samples(reported)):
            metrics["energy_per_sample_j"] = metrics["energy_j"] / samples
        at_s, values = curves(recording.samples)
        begin_s = started_s - (time.time() - time.monotonic())  # on the clock of the samples
        return {name: value for name, value in metrics.items() if name not in reported}, replace(
            telemetry,
            at_s=tuple(round(time_s - begin_s, 2) for time_s in at_s),
            curves={  # rounded: they are only drawn, and the journal keeps every one
                name: tuple(None if value is None else float(f"{value:.4g}") for value in curve)
                for name, curve in values.items()
            },
        )
    except Exception as error:  # noqa: BLE001  (the outcome has the reason)
        reason = f"telemetry failed: {type(error).__name__}: {error}"
        return {}, Telemetry(energy_absent=reason)


def _trained_samples(reported: Mapping[str, float]) -> float:
    """Return the samples of the timed epochs, by the rate of a user's own loop if need be; or 0."""
    by_rate = reported.get("samples_per_s", 0.0) * reported.get("train_s", 0.0)
    return reported.get("train_samples", by_rate)


def summarise_telemetry(recording: readings.Recording) -> tuple[dict[str, float], Telemetry]:
    """Return the metrics by name, with units in the name, and the telemetry without its curves."""
    metrics = dict(_metrics(recording))
    parts, telemetry = energy_of(recording)
    if telemetry.energy_absent is None:
        joules = sum(parts.values())
        metrics |= {"energy_j": joules, "mean_power_w": joules / recording.timed_s}
    if recording.device == "gpu":  # where not all trials of an arm have the node to themselves
        metrics |= {f"energy_{part}_j": joules for part, joules in parts.items()}
    samples = recording.samples
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    return metrics, replace(
        telemetry,
        throttle_reasons=_throttle_reasons(recording.inside()),
        other_trainers=_most(sample.node.other_trainers for sample in samples if sample.node),
        other_gpu_processes=_most(gpu.other_processes for gpu in gpus),
    )


def curves(samples: Sequence[readings.Sample]) -> tuple[list[float], dict[str, list[float | None]]]:
    """Return times (of the samples' clock) and, by name, a value for each of them or None."""
    # A value is the mean since the previous time; a share is of all CPU time since then.
    whole = [sample for sample in samples if sample.node is not None]
    if len(whole) < 2:
        return [], {}
    size = -(-(len(whole) - 1) // POINTS)
    groups = [whole[0:1], *(whole[at : at + size] for at in range(1, len(whole), size))]
    measured = {
        f"system/{name}": values
        for name, values in _all_curves(groups)
        if any(value is not None for value in values)
    }
    return [group[-1].at_s for group in groups[1:]], measured


def _metrics(recording: readings.Recording) -> Iterator[tuple[str, float]]:
    """Yield the metrics other than energy."""
    inside = recording.inside()
    for name, (value_of, fold) in _GAUGES.items():
        if measured := _measured(value_of(gpu) for sample in inside for gpu in sample.gpus):
            yield name, fold(measured)
    if recording.device == "cpu":
        nodes = [sample.node for sample in inside if sample.node]
        if heat := _measured(node.temperature_c for node in nodes):
            yield "max_temperature_c", max(heat)
        if shares := _measured(node.clock_share for node in nodes):
            yield "clock_drop_pct", fmean(100 * max(0.0, 1 - share) for share in shares)
        throttled_s = _grown(recording, lambda node: node.throttled_s)
        if throttled_s is not None:
            yield "throttled_pct", min(100.0, 100 * throttled_s / recording.timed_s)
    used = (sum(gpu.memory_used_mib or 0.0 for gpu in s.gpus) for s in recording.samples)
    if peak := max(used, default=0.0):
        yield "peak_gpu_used_mib", peak
    users = _cpu_shares(lambda value_of: _grown(recording, value_of))
    if "trainer" in users:
        yield "trainer_cpu_pct", users["trainer"]
    load = _cpu_shares(lambda value_of: _grown(recording, value_of, _load_windows(recording)))
    names = {"others": "others_cpu_pct", "steal": "steal_pct"}
    yield from ((name, load[user]) for user, name in names.items() if user in load)
    if recording.cost_pct is not None:
        yield "telemetry_cpu_pct", recording.cost_pct


def _cpu_shares(growth_of: Callable[[NodeValue], float | None]) -> dict[str, float]:
    """Return the users of the node's CPU time, in percent of the CPUs that the trainer may use."""
    total_s, busy_s = growth_of(lambda node: node.total_s), growth_of(lambda node: node.busy_s)
    steal_s = growth_of(lambda node: node.steal_s)
    trainer_s = growth_of(lambda node: node.trainer_s)
    if not total_s or busy_s is None or steal_s is None:
        return {}
    seconds = {"utilization": busy_s, "steal": steal_s}
    if trainer_s is not None:
        seconds |= {"trainer": trainer_s, "others": busy_s - trainer_s}
    return {user: min(100.0, max(0.0, 100 * s / total_s)) for user, s in seconds.items()}


def _grown(
    recording: readings.Recording,
    value_of: NodeValue,
    windows: Sequence[readings.TimeWindow] | None = None,
) -> float | None:
    """Return by how much a counter of the node grew inside the windows; the timed ones, usually."""
    points = ((s, value_of(s.node)) for s in recording.samples if s.node)
    return readings.growth(points, recording.windows if windows is None else windows)


def _load_windows(recording: readings.Recording) -> Sequence[readings.TimeWindow]:
    """Return the windows over which the CPU time of others is observed.

    They are the timed ones, if these are long enough to tell. Otherwise they are one window around
    all of them, as long as that takes and the samples of the trial reach: the trainer's own work
    there is known, and does not count. It is none for a trial that was too short for that as well:
    what others took during it is unknown.
    """
    timed = recording.windows
    sampled_s = [sample.at_s for sample in recording.samples if sample.node]
    if not timed or recording.timed_s >= LOAD_S or len(sampled_s) < 2:
        return timed
    began_s, ended_s = timed[0].began_s, timed[-1].ended_s
    missing_s = max(0.0, LOAD_S - (ended_s - began_s))
    before_s = min(missing_s / 2, max(0.0, began_s - sampled_s[0]))
    after_s = min(missing_s - before_s, max(0.0, sampled_s[-1] - ended_s))
    before_s = min(missing_s - after_s, max(0.0, began_s - sampled_s[0]))
    wide = readings.TimeWindow(began_s - before_s, ended_s + after_s)
    return [wide] if wide.seconds >= LEAST_LOAD_S else []


def _throttle_reasons(inside: Sequence[readings.Sample]) -> dict[str, float] | None:
    """Return the percentage of samples with each reason; None where no GPU reported any state."""
    gpus = [gpu for sample in inside for gpu in sample.gpus]
    states = [gpu.clock_state for gpu in gpus if gpu.clock_state is not None]
    if not states:
        return None
    seen = Counter(reason for state in states for reason in state.throttling)
    return {reason: 100 * count / len(states) for reason, count in seen.most_common()}


def _all_curves(
    groups: Sequence[Sequence[readings.Sample]],
) -> Iterator[tuple[str, list[float | None]]]:
    """Yield each curve with its name: a value for each group of samples except the first."""
    grown = [_growth(before[-1], after[-1]) for before, after in pairwise(groups)]
    for name in dict.fromkeys(name for shares in grown for name in shares):
        yield name, [shares.get(name) for shares in grown]
    for name, value_of in _NODE_CURVES.items():
        nodes = [[sample.node for sample in group if sample.node] for group in groups[1:]]
        yield name, [_mean(map(value_of, group)) for group in nodes]
    for index in range(max(len(sample.gpus) for group in groups for sample in group)):
        gpus = [[s.gpus[index] for s in group if index < len(s.gpus)] for group in groups[1:]]
        for name, gpu_value in _GPU_CURVES.items():
            yield f"gpu_{index}_{name}", [_mean(map(gpu_value, group)) for group in gpus]


def _growth(before: readings.Sample, after: readings.Sample) -> dict[str, float]:
    """Return percentages of the CPU time between two samples, and the power of the CPUs."""

    def growth_of(value_of: NodeValue) -> float | None:
        ends = [value_of(sample.node) for sample in (before, after) if sample.node]
        return None if ends[0] is None or ends[1] is None else ends[1] - ends[0]

    shares = _cpu_shares(growth_of)
    grown = {f"cpu_{user}_percentage": share for user, share in shares.items()}
    if before.package_j is not None and after.package_j is not None:
        watts = (after.package_j - before.package_j) / (after.at_s - before.at_s)
        grown["cpu_package_power_watts"] = watts
    return grown


def _measured(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    measured = _measured(values)
    return fmean(measured) if measured else None


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _percent(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else 100 * value / whole


def energy_of(recording: readings.Recording) -> tuple[dict[str, float], Telemetry]:
    """Return joules of the timed epochs by scope, and the telemetry with what qualifies their sum.

    A trial on a GPU counts its GPUs (scope `gpu`; the method is the reader's id with `_counter` or
    `_power`), and any trial the CPU packages if they can be read (`cpu_package`, `rapl`). These
    include whatever else ran on the node, and do not count if another trainer was at work there.
    """
    samples, on_cpu = recording.samples, recording.device == "cpu"
    if on_cpu and all(sample.package_j is None for sample in samples):
        return {}, Telemetry(energy_absent=recording.package_reason or _NOT_COVERED)
    if reason := _reason_too_short(recording):
        return {}, Telemetry(energy_absent=reason)
    gpu_j, method, reason = (None, "", None) if on_cpu else _gpus(recording)
    parts = {} if gpu_j is None else {"gpu": gpu_j}
    is_shared = any(s.node.other_trainers for s in recording.inside() if s.node)
    package_j = readings.growth(
        ((sample, sample.package_j) for sample in samples), recording.windows
    )
    if package_j and not is_shared:  # a counter that does not move does not count
        parts["cpu_package"] = package_j
        method = f"{method}+rapl" if method else "rapl"
    elif on_cpu:
        reason = _SHARED if is_shared else _NOT_COVERED
    if reason:
        return parts, Telemetry(energy_absent=reason)
    return parts, Telemetry(energy_method=method, energy_scope="+".join(parts))


def _reason_too_short(recording: readings.Recording) -> str | None:
    """Return why energy cannot be measured in such short windows; None if it can."""
    windows, seconds = recording.windows, recording.timed_s
    if not windows:
        return "the workload reported no training phase"
    if seconds < LEAST_S:
        return f"the timed epochs took {seconds:.1f} s; energy needs at least {LEAST_S:g} s"
    span_s = windows[-1].ended_s - windows[0].began_s
    if seconds / len(windows) < LEAST_WINDOW_S and seconds < _DENSE * span_s:
        return (
            f"the timed epochs took {seconds / len(windows):.2f} s each; energy needs at least"
            f" {LEAST_WINDOW_S:g} s each"
        )
    return None


def _gpus(recording: readings.Recording) -> tuple[float | None, str, str | None]:
    """Return the joules of all GPUs of the trial, the method, and why there are none."""
    count = max((len(sample.gpus) for sample in recording.samples), default=0)
    if not count:
        return None, "", recording.gpu_reason or "no GPU could be read"
    total_j, method = 0.0, f"{recording.gpu_reader}_counter"
    for index in range(count):
        pairs = [(s, s.gpus[index]) for s in recording.samples if index < len(s.gpus)]
        joules = readings.growth(((s, gpu.energy_j) for s, gpu in pairs), recording.windows)
        if not joules:  # the counter is missing, was reset, or does not move
            joules = readings.growth(((s, gpu.integrated_j) for s, gpu in pairs), recording.windows)
            method = f"{recording.gpu_reader}_power"
        if not joules:
            errors = recording.gpu_errors[index].energy if recording.gpu_errors else ()
            reasons = list(errors) or [recording.gpu_reason or _NOT_COVERED]
            return None, "", "; ".join(f"GPU {index}: {reason}" for reason in reasons)
        total_j += joules
    return total_j, method, None
