"""Recordings to summarise: a GPU whose power is known at every moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from orchestrator.execution.telemetry.readings import (
    GpuReading,
    NodeReading,
    Recording,
    Sample,
    SampleBuffer,
    TimeWindow,
)

GPU = GpuReading(
    utilization_pct=90.0,
    memory_used_mib=1000.0,
    memory_total_mib=4000.0,
    temperature_c=60.0,
    sm_clock_mhz=1500.0,
    memory_clock_mhz=5000.0,
    clock_reasons=frozenset(),
    pcie_rx_mib_s=2.0,
    pcie_tx_mib_s=1.0,
    other_processes=0,
)

WINDOWS = (TimeWindow(10.0, 14.0), TimeWindow(16.0, 20.0), TimeWindow(22.0, 26.0))
"""Timed epochs of 4 s, with validation of 2 s between them."""


def watts(at_s: float) -> float:
    """100 W in timed epochs, 300 W anywhere else."""
    inside = any(window.began_s <= at_s < window.ended_s for window in WINDOWS)
    return 100.0 if inside else 300.0


_COUNTED_J = tuple(accumulate((watts(step / 10 + 0.05) / 10 for step in range(5_000)), initial=0.0))


def joules(at_s: float) -> float:
    """Return the reading of a counter that moves every 0.1 s."""
    return _COUNTED_J[int(at_s * 10 + 1e-6)]


def gpu_samples(
    changes: Callable[[float], Mapping[str, Any]] = lambda at_s: {},
    *,
    has_counter: bool = True,
    until_s: float = 30.0,
) -> list[Sample]:
    """Return samples of one GPU, whole ones each second, as a sampler takes them.

    `changes` are those of a whole reading. Without a counter power is read instead, more often.
    """
    samples, each_s = [], 5 if has_counter else 10
    for index in range(round(until_s * each_s) + 1):
        at_s = index / each_s
        reading = GpuReading(power_w=None if has_counter else watts(at_s))
        is_whole = index % each_s == 0
        if is_whole:
            reading = replace(GPU, power_w=watts(at_s), **changes(at_s))
        reading = replace(reading, energy_j=1e6 + joules(at_s) if has_counter else None)
        samples.append(Sample(at_s, (reading,), node(at_s) if is_whole else None))
    return samples


def node_samples(until_s: int = 30, **changes: Any) -> list[Sample]:
    """Return samples of a node each second, without a GPU."""
    return [Sample(float(at_s), node=node(at_s, **changes)) for at_s in range(until_s + 1)]


def node(at_s: float, **changes: Any) -> NodeReading:
    """Four CPUs: the trainer keeps two busy, others half of one, and the host takes a fifth."""
    reading = NodeReading(
        busy_s=100 + 2.5 * at_s,
        total_s=1000 + 4 * at_s,
        steal_s=0.2 * at_s,
        trainer_s=2 * at_s,
        memory_used_mib=8000.0,
        memory_total_mib=16000.0,
        trainer_mib=1500.0,
        temperature_c=50.0,
        other_trainers=0,
    )
    return replace(reading, **changes)


def recording(
    samples: Sequence[Sample],
    windows: Sequence[TimeWindow] = WINDOWS,
    limit: int = 8_192,
    **changes: Any,
) -> Recording:
    """Of a GPU's trial, its samples stored as a sampler stores them."""
    store = SampleBuffer(limit)
    for window in windows:
        store.edge(window.began_s)
        store.edge(window.ended_s)
    for sample in samples:
        store.add(sample)
    return replace(Recording("gpu", store.all(), windows), **changes)
