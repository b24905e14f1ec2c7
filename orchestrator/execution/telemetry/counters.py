"""What grows with time (energy, CPU seconds), read off between its samples."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.execution.telemetry.readings import Sample, TimeWindow

_BEYOND_S = 0.5
"""How far beyond the first and last sample a track is continued: an edge between two samples."""


@dataclass(frozen=True, slots=True)
class Track:
    """A total over time, and between which samples it is not known how it grew.

    `holes` are indices of the samples that end such a stretch.
    """

    at_s: Sequence[float]
    total: Sequence[float]
    holes: frozenset[int] = frozenset()

    def over(self, windows: Sequence[TimeWindow]) -> float | None:
        """How much it grew in the windows together; None where that is not known."""
        grown = [self._grown(window) for window in windows]
        known = [each for each in grown if each is not None]
        return sum(known) if known and len(known) == len(grown) else None

    def _grown(self, window: TimeWindow) -> float | None:
        if len(self.at_s) < 2:
            return None
        if window.began_s < self.at_s[0] - _BEYOND_S or window.ended_s > self.at_s[-1] + _BEYOND_S:
            return None
        first, last = self._interval(window.began_s), self._interval(window.ended_s)
        if any(first < hole <= last + 1 for hole in self.holes):
            return None
        return self._total_at(window.ended_s, last) - self._total_at(window.began_s, first)

    def _interval(self, at_s: float) -> int:
        """The index of the sample that begins the stretch which a time is in."""
        return min(max(bisect.bisect_right(self.at_s, at_s) - 1, 0), len(self.at_s) - 2)

    def _total_at(self, at_s: float, index: int) -> float:
        before_s, after_s = self.at_s[index], self.at_s[index + 1]
        share = (at_s - before_s) / (after_s - before_s)
        return self.total[index] + share * (self.total[index + 1] - self.total[index])


def counted(points: Iterable[tuple[Sample, float | None]]) -> Track:
    """A counter's track, from samples and its counts.

    There is a hole where the count falls, for it was begun anew, and where the machine was
    suspended. That samples are far apart takes nothing from a counter: it went on counting.
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
