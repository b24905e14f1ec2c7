"""A trial's telemetry as its outcome keeps it: metrics, their qualifiers, and short curves.

All but the peak memory is of the timed epochs alone, without validation, loading and compiling.
Figures that were not measured are absent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import GpuReading, NodeReading, Recording, Sample
from orchestrator.execution.telemetry.samples import growth
from orchestrator.hardware.nvml import THROTTLING

_GAUGES: tuple[tuple[str, Callable[[GpuReading], float | None], Callable[..., float]], ...] = (
    ("mean_gpu_utilization_pct", lambda gpu: gpu.utilization_pct, fmean),
    ("sm_clock_mhz", lambda gpu: gpu.sm_clock_mhz, fmean),
    ("throttled_pct", lambda gpu: gpu.throttled_pct, fmean),
    ("clock_drop_pct", lambda gpu: gpu.clock_drop_pct, fmean),
    ("max_temperature_c", lambda gpu: gpu.temperature_c, max),
)


def record(
    recording: Recording, started_s: float, reported: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    """Return the metrics and the telemetry of an outcome, and never raise.

    Args:
        recording: all samples of the trial.
        started_s: when the trial began, in seconds since the epoch.
        reported: the workload's own metrics. An energy that it reports itself wins.
    """
    try:
        metrics, telemetry = summarise(recording)
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
            curves={name: tuple(map(_rounded, curve)) for name, curve in values.items()},
        )
    except Exception as error:  # noqa: BLE001  (the outcome has the reason)
        reason = f"telemetry failed: {type(error).__name__}: {error}"
        return {}, Telemetry(energy_absent=reason)


def summarise(recording: Recording) -> tuple[dict[str, float], Telemetry]:
    """Return the metrics by name, with units in the name, and the telemetry without its curves."""
    metrics = dict(_metrics(recording))
    energy = energy_of(recording)
    if energy.joules is not None:
        mean_w = energy.joules / recording.timed_s
        metrics |= {"energy_j": energy.joules, "mean_power_w": mean_w}
    if recording.device == "gpu":  # where not all trials of an arm have the node to themselves
        metrics |= {f"energy_{part}_j": joules for part, joules in energy.parts.items()}
    samples = recording.samples
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    return metrics, Telemetry(
        energy_method=energy.method or None,
        energy_scope=energy.scope or None,
        energy_absent=energy.reason,
        throttle_reasons=_throttle_reasons(recording.inside()),
        other_trainers=_most([sample.node.other_trainers for sample in samples if sample.node]),
        other_gpu_processes=_most([gpu.other_processes for gpu in gpus]),
    )


def _trained_samples(reported: Mapping[str, float]) -> float | None:
    """Return how many samples were trained on."""
    rate, seconds = reported.get("samples_per_s"), reported.get("train_s")
    return rate * seconds if rate and seconds else None


def _rounded(value: float | None) -> float | None:
    """Round to four digits: curves are only drawn, and the journal keeps every one."""
    return None if value is None else float(f"{value:.4g}")


def _metrics(recording: Recording) -> Iterator[tuple[str, float]]:
    """Yield the metrics other than energy."""
    inside = recording.inside()
    for name, value_of, fold in _GAUGES:
        values = [value_of(gpu) for sample in inside for gpu in sample.gpus]
        if measured := [value for value in values if value is not None]:
            yield name, fold(measured)
    if recording.device == "cpu":
        nodes = [sample.node for sample in inside if sample.node]
        if heat := [node.temperature_c for node in nodes if node.temperature_c is not None]:
            yield "max_temperature_c", max(heat)
        if shares := [node.clock_share for node in nodes if node.clock_share is not None]:
            yield "clock_drop_pct", fmean(100 * max(0.0, 1 - share) for share in shares)
        throttled_s = _grown(recording, lambda node: node.throttled_s)
        if throttled_s is not None:
            yield "throttled_pct", min(100.0, 100 * throttled_s / recording.timed_s)
    used = (sum(gpu.memory_used_mib or 0.0 for gpu in s.gpus) for s in recording.samples)
    if peak := max(used, default=0.0):
        yield "peak_gpu_used_mib", peak
    yield from _shares(recording)
    if recording.cost_pct is not None:
        yield "telemetry_cpu_pct", recording.cost_pct


def _shares(recording: Recording) -> Iterator[tuple[str, float]]:
    """Yield the users of the node's CPU time, in percent of the CPUs that the trainer may use."""
    total_s = _grown(recording, lambda node: node.total_s)
    busy_s = _grown(recording, lambda node: node.busy_s)
    steal_s = _grown(recording, lambda node: node.steal_s)
    if not total_s or busy_s is None or steal_s is None:
        return
    trainer_s = _grown(recording, lambda node: node.trainer_s)
    if trainer_s is not None:
        yield "trainer_cpu_pct", min(100.0, 100 * trainer_s / total_s)
        yield "others_cpu_pct", max(0.0, 100 * (busy_s - trainer_s) / total_s)
    yield "steal_pct", 100 * steal_s / total_s


def _grown(recording: Recording, value_of: Callable[[NodeReading], float | None]) -> float | None:
    points = ((s, value_of(s.node)) for s in recording.samples if s.node)
    return growth(points, recording.windows)


def _throttle_reasons(inside: Sequence[Sample]) -> dict[str, float] | None:
    """Return the percentage of samples with each reason; None where no GPU reported any state."""
    gpus = [gpu for sample in inside for gpu in sample.gpus]
    readings = [gpu.clock_reasons for gpu in gpus if gpu.clock_reasons is not None]
    if not readings:
        return None
    seen = Counter(reason for reasons in readings for reason in THROTTLING.intersection(reasons))
    return {reason: 100 * count / len(readings) for reason, count in seen.most_common()}


def _most(counts: Sequence[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)
