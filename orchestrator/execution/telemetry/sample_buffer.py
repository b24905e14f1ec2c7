"""A trial's samples, bounded in number however long it runs."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.execution.telemetry.readings import LATE_S, GpuReading, Sample

_EDGES = 1_000
"""The most edges of windows that are kept: more would be of windows too short to count."""


@dataclass(slots=True)
class _Power:
    at_s: float
    watts: float
    total_j: float = 0.0


class SampleBuffer:
    """Samples in the order of time. Every other one is dropped when there are too many.

    Samples next to an edge of a window or to a gap stay, since energy is read off them.
    """

    def __init__(self, limit: int = 8_192, edge_s: float = 1.0) -> None:
        self._limit, self._edge_s = limit, edge_s
        self._kept: list[Sample] = []
        self._edges: deque[float] = deque(maxlen=_EDGES)
        self._power: dict[int, _Power] = {}

    def add(self, sample: Sample) -> None:
        """Keep a sample; drop one that is not later than the previous one."""
        if self._kept:
            since_s = sample.at_s - self._kept[-1].at_s
            if since_s <= 0:
                return
            if since_s > LATE_S:
                sample = replace(sample, late=True)
        gpus = [self._integrated(index, sample) for index in range(len(sample.gpus))]
        self._kept.append(replace(sample, gpus=tuple(gpus)))
        if len(self._kept) >= self._limit:
            self._thin()

    def edge(self, at_s: float) -> None:
        """Note that a window begins or ends then."""
        self._edges.append(at_s)

    def all(self) -> Sequence[Sample]:
        """Return the samples."""
        return tuple(self._kept)

    def _integrated(self, index: int, sample: Sample) -> GpuReading:
        """Integrate power as it comes, so that dropped samples have been counted."""
        reading = sample.gpus[index]
        if reading.power_w is None:
            return reading
        power = self._power.get(index)
        if power is None or sample.slept or sample.at_s - power.at_s > LATE_S:
            power = self._power[index] = _Power(sample.at_s, reading.power_w)
        else:
            power.total_j += (sample.at_s - power.at_s) * (power.watts + reading.power_w) / 2
            power.at_s, power.watts = sample.at_s, reading.power_w
        return replace(reading, integrated_j=power.total_j)

    def _thin(self) -> None:
        edges = sorted(self._edges)
        newest_s = self._kept[-1].at_s
        kept: list[Sample] = []
        since = {True: 0, False: 0}  # whole samples are rarer: each kind is halved by itself
        for index, sample in enumerate(self._kept):
            after = self._kept[index + 1] if index + 1 < len(self._kept) else sample
            whole = sample.node is not None
            since[whole] += 1
            if (
                since[whole] % 2 == 0
                or sample.late
                or after.late
                or sample.slept
                or newest_s - sample.at_s < 2 * self._edge_s
                or self._is_near_edge(sample, edges)
            ):
                kept.append(sample)
        self._kept = kept
        self._limit = max(self._limit, 2 * len(kept))

    def _is_near_edge(self, sample: Sample, edges: Sequence[float]) -> bool:
        at = bisect.bisect_left(edges, sample.at_s)
        near = edges[max(0, at - 1) : at + 1]
        return any(abs(edge_s - sample.at_s) <= self._edge_s for edge_s in near)
