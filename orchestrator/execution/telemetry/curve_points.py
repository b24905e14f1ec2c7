"""A trial's telemetry as curves, under the names of MLflow's own system metrics where it has one.

A GPU is counted among the trial's own, from 0: runs on different GPUs of a node lie over each
other in the UI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from orchestrator.execution.telemetry.readings import GpuReading, NodeReading, Sample, throttled_pct

POINTS = 200
"""How many points a curve has at most."""

_MB = 2**20 / 1e6
"""MLflow's megabytes are those of decimal units."""

_GPU: tuple[tuple[str, Callable[[GpuReading], float | None]], ...] = (
    ("utilization_percentage", lambda each: each.utilization_pct),
    ("memory_usage_megabytes", lambda each: _scaled(each.memory_used_mib, _MB)),
    ("memory_usage_percentage", lambda each: _part(each.memory_used_mib, each.memory_total_mib)),
    ("power_usage_watts", lambda each: each.power_w),
    ("temperature_celsius", lambda each: each.temperature_c),
    ("sm_clock_megahertz", lambda each: each.sm_clock_mhz),
    ("memory_clock_megahertz", lambda each: each.memory_clock_mhz),
    ("throttled_percentage", throttled_pct),
    ("pcie_receive_megabytes_per_second", lambda each: _scaled(each.pcie_rx_mib_s, _MB)),
    ("pcie_transmit_megabytes_per_second", lambda each: _scaled(each.pcie_tx_mib_s, _MB)),
)

_NODE: tuple[tuple[str, Callable[[NodeReading], float | None]], ...] = (
    ("system_memory_usage_megabytes", lambda node: _scaled(node.memory_used_mib, _MB)),
    (
        "system_memory_usage_percentage",
        lambda node: _part(node.memory_used_mib, node.memory_total_mib),
    ),
    ("trainer_memory_usage_megabytes", lambda node: _scaled(node.trainer_mib, _MB)),
    ("cpu_temperature_celsius", lambda node: node.temperature_c),
)


def curves(samples: Sequence[Sample]) -> tuple[list[float], dict[str, list[float | None]]]:
    """Times (of the samples' clock) and, by name, the values up to each; None where there is none.

    Each value is the mean since the time before; a share of CPU time is that of all of it.
    """
    whole = [each for each in samples if each.node is not None]
    if len(whole) < 2:
        return [], {}
    size = -(-(len(whole) - 1) // POINTS)
    groups = [whole[0:1], *(whole[at : at + size] for at in range(1, len(whole), size))]
    found = {
        f"system/{name}": values
        for name, values in _all(groups)
        if any(v is not None for v in values)
    }
    return [group[-1].at_s for group in groups[1:]], found


def _all(groups: Sequence[Sequence[Sample]]) -> Iterator[tuple[str, list[float | None]]]:
    shares = [_shares(before[-1], after[-1]) for before, after in pairwise(groups)]
    for name in ("cpu_utilization", "cpu_trainer", "cpu_others", "cpu_steal"):
        yield f"{name}_percentage", [each.get(name) for each in shares]
    packages = [_watts(before[-1], after[-1]) for before, after in pairwise(groups)]
    yield "cpu_package_power_watts", packages
    for name, tell in _NODE:
        yield name, [_mean(tell(each.node) for each in group if each.node) for group in groups[1:]]
    for index in range(max(len(each.gpus) for group in groups for each in group)):
        for name, look in _GPU:
            values = [
                _mean(look(each.gpus[index]) for each in group if index < len(each.gpus))
                for group in groups[1:]
            ]
            yield f"gpu_{index}_{name}", values


def _shares(before: Sample, after: Sample) -> dict[str, float]:
    """Percent of the CPU time between two samples, of the CPUs that the trainer may use."""
    assert before.node is not None
    assert after.node is not None
    total_s = after.node.total_s - before.node.total_s
    if total_s <= 0:
        return {}
    busy_s = after.node.busy_s - before.node.busy_s
    found = {
        "cpu_utilization": busy_s,
        "cpu_steal": after.node.steal_s - before.node.steal_s,
    }
    if before.node.trainer_s is not None and after.node.trainer_s is not None:
        trainer_s = after.node.trainer_s - before.node.trainer_s
        found |= {"cpu_trainer": trainer_s, "cpu_others": busy_s - trainer_s}
    return {name: min(100.0, max(0.0, 100 * part / total_s)) for name, part in found.items()}


def _watts(before: Sample, after: Sample) -> float | None:
    if before.package_j is None or after.package_j is None:
        return None
    return (after.package_j - before.package_j) / (after.at_s - before.at_s)


def _mean(values: Iterator[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return fmean(told) if told else None


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _part(value: float | None, of: float | None) -> float | None:
    return None if value is None or not of else 100 * value / of
