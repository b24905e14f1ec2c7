"""A trial's telemetry as curves, named like MLflow's own system metrics where these exist.

GPUs are numbered from 0 within the trial, so that the UI overlays runs on different GPUs of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from orchestrator.execution.telemetry.readings import GpuReading, NodeReading, Sample

POINTS = 200
"""The most points of a curve."""

_MB = 2**20 / 1e6
"""MLflow's megabytes are decimal."""

_GPU: tuple[tuple[str, Callable[[GpuReading], float | None]], ...] = (
    ("utilization_percentage", lambda gpu: gpu.utilization_pct),
    ("memory_usage_megabytes", lambda gpu: _scaled(gpu.memory_used_mib, _MB)),
    ("memory_usage_percentage", lambda gpu: _percent(gpu.memory_used_mib, gpu.memory_total_mib)),
    ("power_usage_watts", lambda gpu: gpu.power_w),
    ("temperature_celsius", lambda gpu: gpu.temperature_c),
    ("sm_clock_megahertz", lambda gpu: gpu.sm_clock_mhz),
    ("memory_clock_megahertz", lambda gpu: gpu.memory_clock_mhz),
    ("throttled_percentage", lambda gpu: gpu.throttled_pct),
    ("pcie_receive_megabytes_per_second", lambda gpu: _scaled(gpu.pcie_rx_mib_s, _MB)),
    ("pcie_transmit_megabytes_per_second", lambda gpu: _scaled(gpu.pcie_tx_mib_s, _MB)),
)

_NODE: tuple[tuple[str, Callable[[NodeReading], float | None]], ...] = (
    ("system_memory_usage_megabytes", lambda node: _scaled(node.memory_used_mib, _MB)),
    (
        "system_memory_usage_percentage",
        lambda node: _percent(node.memory_used_mib, node.memory_total_mib),
    ),
    ("trainer_memory_usage_megabytes", lambda node: _scaled(node.trainer_mib, _MB)),
    ("cpu_temperature_celsius", lambda node: node.temperature_c),
)


def curves(samples: Sequence[Sample]) -> tuple[list[float], dict[str, list[float | None]]]:
    """Return times (of the samples' clock) and, by name, a value for each of them or None.

    A value is the mean since the previous time. A share of CPU time is of all CPU time since then.
    """
    whole = [sample for sample in samples if sample.node is not None]
    if len(whole) < 2:
        return [], {}
    size = -(-(len(whole) - 1) // POINTS)
    groups = [whole[0:1], *(whole[at : at + size] for at in range(1, len(whole), size))]
    measured = {
        f"system/{name}": values
        for name, values in _all(groups)
        if any(v is not None for v in values)
    }
    return [group[-1].at_s for group in groups[1:]], measured


def _all(groups: Sequence[Sequence[Sample]]) -> Iterator[tuple[str, list[float | None]]]:
    grown = [_growth(before[-1], after[-1]) for before, after in pairwise(groups)]
    for name in dict.fromkeys(name for growth in grown for name in growth):
        yield name, [growth.get(name) for growth in grown]
    for name, value_of in _NODE:
        nodes = [[sample.node for sample in group if sample.node] for group in groups[1:]]
        yield name, [_mean(map(value_of, readings)) for readings in nodes]
    for index in range(max(len(sample.gpus) for group in groups for sample in group)):
        gpus = [[s.gpus[index] for s in group if index < len(s.gpus)] for group in groups[1:]]
        for name, gpu_value in _GPU:
            yield f"gpu_{index}_{name}", [_mean(map(gpu_value, readings)) for readings in gpus]


def _growth(before: Sample, after: Sample) -> dict[str, float]:
    """Return percentages of the CPU time between two samples, and the power of the CPUs."""
    first, last = before.node, after.node
    assert first is not None
    assert last is not None
    seconds = {"utilization": last.busy_s - first.busy_s, "steal": last.steal_s - first.steal_s}
    if first.trainer_s is not None and last.trainer_s is not None:
        seconds["trainer"] = last.trainer_s - first.trainer_s
        seconds["others"] = seconds["utilization"] - seconds["trainer"]
    total_s = last.total_s - first.total_s
    grown = {
        f"cpu_{name}_percentage": min(100.0, max(0.0, 100 * part / total_s))
        for name, part in seconds.items()
        if total_s > 0
    }
    if before.package_j is not None and after.package_j is not None:
        watts = (after.package_j - before.package_j) / (after.at_s - before.at_s)
        grown["cpu_package_power_watts"] = watts
    return grown


def _mean(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _percent(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else 100 * value / whole
