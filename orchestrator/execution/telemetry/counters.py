"""Growing totals (energy, CPU seconds), interpolated between their samples."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.execution.telemetry.readings import Sample, TimeWindow

_BEYOND_S = 0.5
"""How far beyond the first and last sample a track is extrapolated, for an edge between samples."""


@dataclass(frozen=True, slots=True)
class Track:
    """A total over time.

    `holes` are indices of samples: how the total grew just before one of these is unknown.
    """

    at_s: Sequence[float]
    total: Sequence[float]
    holes: frozenset[int] = frozenset()

    def over(self, windows: Sequence[TimeWindow]) -> float | None:
        """Return how much it grew in the windows together; None if that is unknown."""
        growths = [self._growth(window) for window in windows]
        measured = [growth for growth in growths if growth is not None]
        return sum(measured) if measured and len(measured) == len(growths) else None

    def _growth(self, window: TimeWindow) -> float | None:
        if len(self.at_s) < 2:
            return None
        if window.began_s < self.at_s[0] - _BEYOND_S or window.ended_s > self.at_s[-1] + _BEYOND_S:
            return None
        first, last = self._interval(window.began_s), self._interval(window.ended_s)
        if any(first < hole <= last + 1 for hole in self.holes):
            return None
        return self._total_at(window.ended_s, last) - self._total_at(window.began_s, first)

    def _interval(self, at_s: float) -> int:
        """Return the index of the last sample before a time."""
        return min(max(bisect.bisect_right(self.at_s, at_s) - 1, 0), len(self.at_s) - 2)

    def _total_at(self, at_s: float, index: int) -> float:
        before_s, after_s = self.at_s[index], self.at_s[index + 1]
        share = (at_s - before_s) / (after_s - before_s)
        return self.total[index] + share * (self.total[index + 1] - self.total[index])


def counted(points: Iterable[tuple[Sample, float | None]]) -> Track:
    """Return a counter's track, from samples and its counts.

    There is a hole where the count falls, since the counter was reset, and where the machine was
    suspended. Samples that are far apart are no hole: the counter kept counting.
    """
    at_s, total, holes = list[float](), list[float](), set[int]()
    slept = False
    for sample, count in points:
        slept = slept or sample.slept
        if count is None:
            continue
        if total and (slept or count < total[-1]):
            holes.add(len(total))
        slept = False
        at_s.append(sample.at_s)
        total.append(count)
    return Track(at_s, total, frozenset(holes))
