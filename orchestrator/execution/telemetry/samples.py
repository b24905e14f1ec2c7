"""A trial's samples, bounded in number, and growing totals interpolated between them."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.execution.telemetry.readings import GpuReading, Sample, TimeWindow

_LATE_S = 2.5
"""Power is not integrated between samples further apart than this: nobody knows what was drawn."""

_EDGE_S = 1.0
"""Samples this close to an edge of a window stay, since energy is read off them."""

_EDGES = 1_000
"""The most edges that are kept: more would be of windows too short to count."""

_BEYOND_S = 0.5
"""How far beyond the first and last sample a total is extrapolated, for an edge between samples."""


class SampleBuffer:
    """Samples in the order of time.

    Samples of energy alone stay next to the edges of windows only. Every other one is dropped when
    there are too many.
    """

    def __init__(self, limit: int = 8_192) -> None:
        self._limit = limit
        self._kept: list[Sample] = []
        self._recent: deque[Sample] = deque()
        self._edges: list[float] = []
        self._power: dict[int, tuple[float, float, float]] = {}

    def add(self, sample: Sample) -> None:
        """Keep a sample; drop one that is not later than the previous one."""
        if self._recent and sample.at_s <= self._recent[-1].at_s:
            return
        gpus = tuple(self._integrated(index, sample) for index in range(len(sample.gpus)))
        self._recent.append(replace(sample, gpus=gpus))
        while sample.at_s - self._recent[0].at_s > 2 * _EDGE_S:
            oldest = self._recent.popleft()
            if oldest.node is not None or self._must_stay(oldest):
                self._kept.append(oldest)
        if len(self._kept) > self._limit:
            numbered = enumerate(self._kept)
            self._kept = [s for number, s in numbered if number % 2 or self._must_stay(s)]
            self._limit = max(self._limit, 2 * len(self._kept))

    def edge(self, at_s: float) -> None:
        """Note that a window begins or ends then."""
        bisect.insort(self._edges, at_s)
        del self._edges[:-_EDGES]

    def all(self) -> Sequence[Sample]:
        """Return the samples."""
        return (*self._kept, *self._recent)

    def _integrated(self, index: int, sample: Sample) -> GpuReading:
        """Integrate power as it comes, so that dropped samples have been counted."""
        reading = sample.gpus[index]
        if reading.power_w is None:
            return reading
        before_s, before_w, total_j = self._power.get(index, (sample.at_s, 0.0, 0.0))
        since_s = sample.at_s - before_s
        if sample.slept or since_s > _LATE_S:
            total_j = 0.0
        else:
            total_j += since_s * (before_w + reading.power_w) / 2
        self._power[index] = sample.at_s, reading.power_w, total_j
        return replace(reading, integrated_j=total_j)

    def _must_stay(self, sample: Sample) -> bool:
        at = bisect.bisect_left(self._edges, sample.at_s)
        near = self._edges[max(0, at - 1) : at + 1]
        return sample.slept or any(abs(edge_s - sample.at_s) <= _EDGE_S for edge_s in near)


def growth(
    points: Iterable[tuple[Sample, float | None]], windows: Sequence[TimeWindow]
) -> float | None:
    """Return how much a counter grew in the windows together; None if that is unknown.

    It is unknown around a moment where the count falls, since the counter was reset, or where the
    machine was suspended. Samples that are far apart are no hole: the counter kept counting.
    """
    at_s, total, holes = list[float](), list[float](), list[int]()
    slept = False
    for sample, count in points:
        slept = slept or sample.slept
        if count is None:
            continue
        if total and (slept or count < total[-1]):
            holes.append(len(total))
        slept = False
        at_s.append(sample.at_s)
        total.append(count)
    if len(at_s) < 2 or not windows:
        return None

    def interval(edge_s: float) -> int:
        return min(max(bisect.bisect_right(at_s, edge_s) - 1, 0), len(at_s) - 2)

    def value(edge_s: float, index: int) -> float:
        share = (edge_s - at_s[index]) / (at_s[index + 1] - at_s[index])
        return total[index] + share * (total[index + 1] - total[index])

    grown = 0.0
    for window in windows:
        first, last = interval(window.began_s), interval(window.ended_s)
        if window.began_s < at_s[0] - _BEYOND_S or window.ended_s > at_s[-1] + _BEYOND_S:
            return None
        if any(first < hole <= last + 1 for hole in holes):
            return None
        grown += value(window.ended_s, last) - value(window.began_s, first)
    return grown
