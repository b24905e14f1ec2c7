"""Readings of a node and its GPUs as plain data, up to the recording of a whole trial.

Absent values are None, never 0.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.hardware.nvml import THROTTLING
from workloads.protocol import Device

_INTENDED = frozenset(
    {"gpu_idle", "sw_power_cap", "applications_clocks_setting", "display_clock_setting"}
)
"""Reasons for a low clock that are the GPU's own load, or the user's wish: as in every trial."""


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
    memory_clock_mhz: float | None = None
    clock_reasons: tuple[str, ...] | None = None
    pcie_rx_mib_s: float | None = None
    pcie_tx_mib_s: float | None = None
    other_processes: int | None = None
    integrated_j: float | None = None
    highest_sm_clock_mhz: float | None = None

    @property
    def throttled_pct(self) -> float | None:
        """100 if the GPU was slowed down against the user's wish, else 0."""
        reasons = self.clock_reasons
        return None if reasons is None else 100.0 * bool(THROTTLING.intersection(reasons))

    @property
    def clock_drop_pct(self) -> float | None:
        """How far the clock is below the highest one seen; 0 if the GPU's own load is why."""
        if self.sm_clock_mhz is None or not self.highest_sm_clock_mhz:
            return None
        if _INTENDED.intersection(self.clock_reasons or ()):
            return 0.0
        return max(0.0, 100 * (1 - self.sm_clock_mhz / self.highest_sm_clock_mhz))


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A reading of the node.

    Seconds are growing CPU seconds, summed over the CPUs that the trainer may use. `total_s`
    includes idle time. `trainer_s` counts the trainer and its descendants, and its rivals where
    several are timed in turns. `clock_share` is the fastest CPU's clock as a share of its
    guaranteed one. `throttled_s` grows while the CPUs are too hot for their clock.
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
    """Everything read at one moment, in seconds of the monotonic clock.

    `gpus` are the trial's, in its order. `package_j` is the growing energy of the CPUs. `slept`:
    the machine was suspended since the previous one, while the clock stood still.
    """

    at_s: float
    gpus: tuple[GpuReading, ...] = ()
    node: NodeReading | None = None
    package_j: float | None = None
    slept: bool = False


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
class GpuProblem:
    """A reason why readings are absent: of one GPU and one call of NVML, or of all GPUs."""

    text: str
    gpu: int | None = None
    call: str | None = None

    def __str__(self) -> str:
        return self.text if self.gpu is None else f"GPU {self.gpu}: {self.text}"


@dataclass(frozen=True, slots=True)
class Recording:
    """A trial's samples and the windows of its timed epochs, which do not overlap.

    `gpu_problems` are reasons why readings of its GPUs are absent; `package_reason` is the reason
    why the energy of the CPU is. `cost_pct` is what the sampling took, in percent of one core.
    """

    device: Device
    samples: Sequence[Sample]
    windows: Sequence[TimeWindow]
    gpu_problems: Sequence[GpuProblem] = ()
    package_reason: str | None = None
    cost_pct: float | None = None

    def of(self, device: Device, windows: Sequence[TimeWindow]) -> Recording:
        """Return the part of one trial among several that took turns.

        A CPU's trial has no GPU in it, as if it had run alone.
        """
        if device == "gpu":
            return replace(self, windows=windows)
        samples = [replace(sample, gpus=()) for sample in self.samples]
        return replace(self, device=device, samples=samples, windows=windows, gpu_problems=())

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
