"""A trial's telemetry in a few numbers: metrics named as in MLflow, and notes in words.

Everything but the peak of memory is of the timed epochs alone: what runs between them (validation)
and around them (loading, compiling) is not in it. What was not told is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.core.disturbance import ON_THE_GPU
from orchestrator.execution.telemetry.counters import counted
from orchestrator.execution.telemetry.energy import energy_of
from orchestrator.execution.telemetry.readings import (
    GpuReading,
    NodeReading,
    Sample,
    clock_drop_pct,
    throttled_pct,
)
from orchestrator.execution.telemetry.recording import Recording
from orchestrator.hardware.nvml import THROTTLING


@dataclass(frozen=True, slots=True)
class Summary:
    """Metrics by name, units in the name; notes by name, of `trial.NOTES`."""

    metrics: dict[str, float]
    notes: dict[str, str]


def summarise(recording: Recording) -> Summary:
    """The summary of a trial."""
    metrics = dict(_metrics(recording))
    energy = energy_of(recording)
    notes = {"neighbours": _neighbours(recording.samples)}
    if energy.joules is None:
        notes["energy_absent"] = energy.why_not
    else:
        seconds = sum(window.seconds for window in recording.windows)
        metrics |= {"energy_j": energy.joules, "mean_power_w": energy.joules / seconds}
        notes |= {"energy_method": energy.method, "energy_scope": energy.scope}
    if recording.device == "gpu":  # where not all trials of an arm have the node to themselves
        metrics |= {f"energy_{part}_j": joules for part, joules in energy.parts.items()}
    inside = recording.inside()
    if (reasons := _throttle_reasons(inside)) is not None:
        notes["throttle_reasons"] = reasons
    return Summary(metrics, {name: text for name, text in notes.items() if text})


def _metrics(recording: Recording) -> Iterator[tuple[str, float]]:
    """Those that need no energy."""
    inside = recording.inside()
    gpu = recording.device == "gpu"
    gauges: tuple[tuple[str, Callable[[GpuReading], float | None], Callable[..., float]], ...] = (
        ("mean_gpu_utilization_pct", lambda each: each.utilization_pct, fmean),
        ("sm_clock_mhz", lambda each: each.sm_clock_mhz, fmean),
        ("throttled_pct", throttled_pct, fmean),
        ("clock_drop_pct", clock_drop_pct, fmean),
        ("max_temperature_c", lambda each: each.temperature_c, max),
    )
    for name, tell, fold in gauges:
        told = [value for each in inside for one in each.gpus if (value := tell(one)) is not None]
        if told:
            yield name, fold(told)
    if not gpu:
        yield from _cpus(recording, [each.node for each in inside if each.node])
    if peak := max((_memory(each) for each in recording.samples), default=0.0):
        yield "peak_gpu_used_mib", peak
    yield from _shares(recording)
    if recording.cost_pct is not None:
        yield "telemetry_cpu_pct", recording.cost_pct


def _cpus(recording: Recording, inside: Sequence[NodeReading]) -> Iterator[tuple[str, float]]:
    """The heat of the CPUs and what it did to their clocks, where they are the trial's device."""
    if heat := [node.temperature_c for node in inside if node.temperature_c is not None]:
        yield "max_temperature_c", max(heat)
    if shares := [node.clock_share for node in inside if node.clock_share is not None]:
        yield "clock_drop_pct", fmean(100 * max(0.0, 1 - share) for share in shares)
    nodes = [(each, each.node) for each in recording.samples if each.node]
    throttled_s = counted((sample, node.throttled_s) for sample, node in nodes).over(
        recording.windows
    )
    if throttled_s is not None:
        seconds = sum(window.seconds for window in recording.windows)
        yield "throttled_pct", min(100.0, 100 * throttled_s / seconds)


def _shares(recording: Recording) -> Iterator[tuple[str, float]]:
    """Whose the node's CPU time was, in percent of the CPUs that the trainer may use."""

    def over(tell: Callable[[NodeReading], float | None]) -> float | None:
        nodes = [(each, each.node) for each in recording.samples if each.node]
        return counted((sample, tell(node)) for sample, node in nodes).over(recording.windows)

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
    return sum(each.memory_used_mib or 0.0 for each in sample.gpus)


def _throttle_reasons(inside: Sequence[Sample]) -> str | None:
    """`sw_power_cap 80 %, sync_boost 2 %`: the share of the samples that each was seen in."""
    told = [
        one.clock_reasons for each in inside for one in each.gpus if one.clock_reasons is not None
    ]
    if not told:
        return None
    seen = Counter(reason for reasons in told for reason in THROTTLING.intersection(reasons))
    shares = (f"{reason} {100 * count / len(told):.0f} %" for reason, count in seen.most_common())
    return ", ".join(shares) or "none"


def _neighbours(samples: Sequence[Sample]) -> str:
    """Who else was at work on the node and its GPUs: the most that was seen at once."""
    trainers = [each.node.other_trainers for each in samples if each.node]
    processes = [one.other_processes for each in samples for one in each.gpus]
    found = [
        (
            _most(trainers),
            "other trainer at work on the node",
            "other trainers at work on the node",
        ),
        (_most(processes), f"other process {ON_THE_GPU}", f"other processes {ON_THE_GPU}"),
    ]
    if all(count is None for count, _, _ in found):
        return ""
    told = [f"{count} {one if count == 1 else more}" for count, one, more in found if count]
    return ", ".join(told) or "none"


def _most(counts: Sequence[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)
