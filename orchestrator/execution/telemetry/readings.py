"""Readings of a node and its GPUs, up to a whole trial's; absent values are None, never 0."""

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from orchestrator.hardware.gpu_readers import ClockState
from workloads.protocol import Device

_LATE_S = 2.5
"""Power is not integrated between samples further apart than this: nobody knows what was drawn."""

_EDGE_S = 1.0
"""Samples this close to an edge of a window stay, since energy is read off them."""

_EDGES = 1_000
"""The most edges that are kept: more would be of windows too short to count."""

_BEYOND_S = 0.5
"""How far beyond the first and last sample a total is extrapolated, for an edge between samples."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of one GPU. `energy_j` and `power_w` are read more often than the rest.

    `integrated_j` is the integral of its power so far, which starts again at 0 after a gap.
    `highest_sm_clock_mhz` is the highest clock seen so far, in this trial or before.
    """

    energy_j: float | None = None
    power_w: float | None = None
    utilization_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    clock_state: ClockState | None = None
    other_processes: int | None = None
    integrated_j: float | None = None
    highest_sm_clock_mhz: float | None = None

    @property
    def throttled_pct(self) -> float | None:
        """100 if the GPU was slowed down against the user's wish, else 0."""
        return None if self.clock_state is None else 100.0 * bool(self.clock_state.throttling)

    @property
    def clock_drop_pct(self) -> float | None:
        """How far the clock is below the highest one seen; 0 if the GPU's own load is why."""
        if self.sm_clock_mhz is None or not self.highest_sm_clock_mhz:
            return None
        if self.clock_state is not None and self.clock_state.is_intended:
            return 0.0
        return max(0.0, 100 * (1 - self.sm_clock_mhz / self.highest_sm_clock_mhz))


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A reading of the node.

    Seconds are growing CPU seconds, summed over the CPUs that the trainer may use. `total_s`
    includes idle time. `trainer_s` counts the trainer and its descendants, and all trainers of a
    round. `clock_share` is the fastest CPU's clock as a share of its guaranteed one. `throttled_s`
    grows while the CPUs are too hot for their clock.
    """

    busy_s: float
    total_s: float
    steal_s: float
    trainer_s: float | None
    memory_used_mib: float
    memory_total_mib: float
    trainer_mib: float | None = None
    temperature_c: float | None = None
    other_trainers: int | None = None
    clock_share: float | None = None
    throttled_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """All readings of a moment (monotonic clock), GPUs in the trial's order; `package_j` grows."""

    at_s: float
    gpus: tuple[GpuReading, ...] = ()
    node: NodeReading | None = None
    package_j: float | None = None


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A stretch of timed epochs' training, in seconds of the monotonic clock."""

    began_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class GpuErrors:
    """Why readings of a GPU failed at the end: of its power and energy, and of all else."""

    energy: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """A trial's samples and the windows of its timed epochs, which do not overlap.

    `gpu_reader` is the id of what read its GPUs. `gpu_reason` is why none of them could be read,
    and `gpu_errors` has, for each of them, what could not be read last.
    `package_reason` is why the energy of the CPU is absent.
    `cost_pct` is what the sampling took, in percent of one core.
    """

    device: Device
    samples: Sequence[Sample]
    windows: Sequence[TimeWindow]
    gpu_reason: str | None = None
    gpu_errors: Sequence[GpuErrors] = ()
    package_reason: str | None = None
    cost_pct: float | None = None
    gpu_reader: str | None = None

    def of(self, device: Device, windows: Sequence[TimeWindow]) -> Self:
        """Return the part of one trial among several; a CPU's trial has no GPU in it."""
        if device == "gpu":
            return replace(self, windows=windows)
        samples = [replace(sample, gpus=()) for sample in self.samples]
        return replace(self, device=device, samples=samples, windows=windows)

    @property
    def timed_s(self) -> float:
        """The length of the windows together."""
        return sum(window.seconds for window in self.windows)

    def inside(self) -> list[Sample]:
        """Return the samples that were taken in the timed epochs."""
        begins = [window.began_s for window in self.windows]

        def holds(sample: Sample) -> bool:
            at = bisect.bisect_right(begins, sample.at_s) - 1
            return at >= 0 and sample.at_s < self.windows[at].ended_s

        return [sample for sample in self.samples if holds(sample)]


class SampleBuffer:
    """Samples in the order of time; every other one is dropped when there are too many."""

    # Samples of energy alone stay next to the edges of windows only.

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
        if since_s > _LATE_S:
            total_j = 0.0
        else:
            total_j += since_s * (before_w + reading.power_w) / 2
        self._power[index] = sample.at_s, reading.power_w, total_j
        return replace(reading, integrated_j=total_j)

    def _must_stay(self, sample: Sample) -> bool:
        """Return whether a sample lies next to an edge: energy in a window is read off there."""
        at = bisect.bisect_left(self._edges, sample.at_s)
        near = self._edges[max(0, at - 1) : at + 1]
        return any(abs(edge_s - sample.at_s) <= _EDGE_S for edge_s in near)


def merged(windows: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return the windows in order, those that touch or overlap as one: nothing counts twice."""
    result: list[TimeWindow] = []
    for window in sorted(windows, key=lambda window: window.began_s):
        if window.seconds <= 0:
            continue
        if result and window.began_s <= result[-1].ended_s:
            result[-1] = TimeWindow(result[-1].began_s, max(result[-1].ended_s, window.ended_s))
        else:
            result.append(window)
    return result


def growth(
    points: Iterable[tuple[Sample, float | None]], windows: Sequence[TimeWindow]
) -> float | None:
    """Return how much a counter grew in the windows; None where it was reset, or not read."""
    counted = [(sample.at_s, count) for sample, count in points if count is not None]
    if len(counted) < 2 or not windows:
        return None
    at_s, total = np.array(counted).T
    edges_s = np.array([(window.began_s, window.ended_s) for window in windows])
    if edges_s.min() < at_s[0] - _BEYOND_S or edges_s.max() > at_s[-1] + _BEYOND_S:
        return None
    step = np.clip(np.searchsorted(at_s, edges_s, "right") - 1, 0, len(at_s) - 2)
    resets = np.flatnonzero(np.diff(total) < 0)
    if ((step[:, :1] <= resets) & (resets <= step[:, 1:])).any():
        return None
    slope = np.diff(total) / np.diff(at_s)
    counts = total[step] + slope[step] * (edges_s - at_s[step])  # interpolated
    return float(np.diff(counts).sum())
