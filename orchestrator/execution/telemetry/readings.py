"""What is read of a node and its GPUs at one moment, as plain data. Absent is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.hardware.nvml import THROTTLING

LATE_S = 2.5
"""SampleBuffer further apart than this leave a gap: nobody knows what was drawn in it."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU of the trial. `energy_j` and `power_w` are read more often than the rest.

    `integrated_j` is the integral of its power so far, which begins anew after a gap.
    `highest_sm_clock_mhz` is the highest that its clock was seen at, in this trial or before.
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


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The node. Seconds are CPU seconds that grow, summed over the CPUs that the trainer may use.

    `total_s` counts idle time too. `trainer_s` are the trainer's and its descendants', and those
    of its rivals where several are timed in turns. `clock_share` is the fastest CPU's clock by its
    guaranteed one; `throttled_s` grows while the CPUs are too hot for their clock.
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
    """One moment: seconds of the monotonic clock, and what was read then.

    `gpus` are the trial's, in its order. `package_j` is the energy of the CPUs, which grows.
    `late`: it came more than `LATE_S` after the one before. `slept`: the machine was suspended in
    between, while that clock stood still.
    """

    at_s: float
    gpus: tuple[GpuReading, ...] = ()
    node: NodeReading | None = None
    package_j: float | None = None
    late: bool = False
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


def throttled_pct(reading: GpuReading) -> float | None:
    """100 where the GPU was slowed down against somebody's wish, 0 where not."""
    reasons = reading.clock_reasons
    return None if reasons is None else 100.0 * bool(THROTTLING.intersection(reasons))


_WANTED = frozenset(
    {"gpu_idle", "sw_power_cap", "applications_clocks_setting", "display_clock_setting"}
)
"""Reasons for a low clock that are the GPU's own load, or somebody's wish: as in every trial."""


def clock_drop_pct(reading: GpuReading) -> float | None:
    """How far a GPU's clock lies below the highest seen of it, unless its load is why."""
    clock_mhz, highest_mhz = reading.sm_clock_mhz, reading.highest_sm_clock_mhz
    if clock_mhz is None or not highest_mhz:
        return None
    if _WANTED.intersection(reading.clock_reasons or ()):
        return 0.0
    return max(0.0, 100 * (1 - clock_mhz / highest_mhz))


def merged(windows: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Windows in their order, those that touch or overlap as one: nothing is counted twice."""
    found: list[TimeWindow] = []
    for window in sorted(windows, key=lambda each: each.began_s):
        if window.seconds <= 0:
            continue
        if found and window.began_s <= found[-1].ended_s:
            found[-1] = TimeWindow(found[-1].began_s, max(found[-1].ended_s, window.ended_s))
        else:
            found.append(window)
    return found
