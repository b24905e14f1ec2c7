"""A trial's telemetry as its outcome keeps it: metrics, their qualifiers, and short curves.

All but the peak memory is of the timed epochs alone, without validation, loading and compiling.
Figures that were not measured are absent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.counters import counted
from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import (
    GpuReading,
    NodeReading,
    Recording,
    Sample,
    clock_drop_pct,
    throttled_pct,
)
from orchestrator.hardware.nvml import THROTTLING


@dataclass(frozen=True, slots=True)
class Summary:
    """Metrics by name, with units in the name, and the telemetry without its curves."""

    metrics: dict[str, float]
    telemetry: Telemetry


def summarise(recording: Recording) -> Summary:
    """Return the summary of a trial."""
    metrics = dict(_metrics(recording))
    energy = energy_of(recording)
    if energy.joules is not None:
        seconds = sum(window.seconds for window in recording.windows)
        metrics |= {"energy_j": energy.joules, "mean_power_w": energy.joules / seconds}
    if recording.device == "gpu":  # where not all trials of an arm have the node to themselves
        metrics |= {f"energy_{part}_j": joules for part, joules in energy.parts.items()}
    is_measured = energy.joules is not None
    samples = recording.samples
    telemetry = Telemetry(
        energy_method=energy.method if is_measured else None,
        energy_scope=energy.scope if is_measured else None,
        energy_absent=energy.reason,
        throttle_reasons=_throttle_reasons(recording.inside()),
        other_trainers=_most([sample.node.other_trainers for sample in samples if sample.node]),
        other_gpu_processes=_most(
            [gpu.other_processes for sample in samples for gpu in sample.gpus]
        ),
    )
    return Summary(metrics, telemetry)


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
        return _record(recording, started_s, reported)
    except Exception as error:  # noqa: BLE001  (the outcome has the reason)
        reason = f"telemetry failed: {type(error).__name__}: {error}"
        return {}, Telemetry(energy_absent=reason)


def _record(
    recording: Recording, started_s: float, reported: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    summary = summarise(recording)
    metrics, telemetry = summary.metrics, summary.telemetry
    if "energy_j" in reported:
        telemetry = replace(
            telemetry, energy_method="workload", energy_scope=None, energy_absent=None
        )
    elif "energy_j" in metrics and (samples := _trained_samples(reported)):
        metrics["energy_per_sample_j"] = metrics["energy_j"] / samples
    metrics = {name: value for name, value in metrics.items() if name not in reported}
    at_s, values = curves(recording.samples)
    begin_s = started_s - (time.time() - time.monotonic())  # on the clock of the samples
    return metrics, replace(
        telemetry,
        at_s=tuple(round(time_s - begin_s, 2) for time_s in at_s),
        curves={name: tuple(map(_rounded, curve)) for name, curve in values.items()},
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
    gpu = recording.device == "gpu"
    gauges: tuple[tuple[str, Callable[[GpuReading], float | None], Callable[..., float]], ...] = (
        ("mean_gpu_utilization_pct", lambda gpu: gpu.utilization_pct, fmean),
        ("sm_clock_mhz", lambda gpu: gpu.sm_clock_mhz, fmean),
        ("throttled_pct", throttled_pct, fmean),
        ("clock_drop_pct", clock_drop_pct, fmean),
        ("max_temperature_c", lambda gpu: gpu.temperature_c, max),
    )
    for name, value_of, fold in gauges:
        values = [value_of(gpu) for sample in inside for gpu in sample.gpus]
        if measured := [value for value in values if value is not None]:
            yield name, fold(measured)
    if not gpu:
        yield from _cpus(recording, [sample.node for sample in inside if sample.node])
    if peak := max((_memory(sample) for sample in recording.samples), default=0.0):
        yield "peak_gpu_used_mib", peak
    yield from _shares(recording)
    if recording.cost_pct is not None:
        yield "telemetry_cpu_pct", recording.cost_pct


def _cpus(recording: Recording, inside: Sequence[NodeReading]) -> Iterator[tuple[str, float]]:
    """Yield temperature and clocks of the CPUs where they are the trial's device."""
    if heat := [node.temperature_c for node in inside if node.temperature_c is not None]:
        yield "max_temperature_c", max(heat)
    if shares := [node.clock_share for node in inside if node.clock_share is not None]:
        yield "clock_drop_pct", fmean(100 * max(0.0, 1 - share) for share in shares)
    nodes = [(sample, sample.node) for sample in recording.samples if sample.node]
    throttled_s = counted((sample, node.throttled_s) for sample, node in nodes).over(
        recording.windows
    )
    if throttled_s is not None:
        seconds = sum(window.seconds for window in recording.windows)
        yield "throttled_pct", min(100.0, 100 * throttled_s / seconds)


def _shares(recording: Recording) -> Iterator[tuple[str, float]]:
    """Yield the users of the node's CPU time, in percent of the CPUs that the trainer may use."""

    def over(value_of: Callable[[NodeReading], float | None]) -> float | None:
        nodes = [(sample, sample.node) for sample in recording.samples if sample.node]
        return counted((sample, value_of(node)) for sample, node in nodes).over(recording.windows)

    total_s = over(lambda node: node.total_s)
    if not total_s:
        return
    busy_s, steal_s = over(lambda node: node.busy_s), over(lambda node: node.steal_s)
    trainer_s = over(lambda node: node.trainer_s)
    if trainer_s is not None:
        yield "trainer_cpu_pct", min(100.0, 100 * trainer_s / total_s)
        if busy_s is not None:
            yield "others_cpu_pct", max(0.0, 100 * (busy_s - trainer_s) / total_s)
    if steal_s is not None:
        yield "steal_pct", 100 * steal_s / total_s


def _memory(sample: Sample) -> float:
    return sum(gpu.memory_used_mib or 0.0 for gpu in sample.gpus)


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
