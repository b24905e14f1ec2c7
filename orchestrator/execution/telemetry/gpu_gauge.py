"""The GPUs of a trial, read through NVML. A reading never raises; it holds what can be read."""

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from orchestrator.execution.telemetry.readings import GpuReading
from orchestrator.execution.telemetry.sensors import Paced
from orchestrator.hardware import Gpu, probe, visible_gpus
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError

_PCIE_S = 2.0
"""How often the link's traffic is read: each reading waits for 20 ms, in each direction."""

_PROCESSES_S = 5.0
"""How often the processes that compute there are listed."""


class _VisibleGpu:
    """One GPU that the trainer sees."""

    def __init__(self, uuid: str, device: NvmlDevice) -> None:
        self.uuid, self.device = uuid, device
        self.has_counter = device.number("energy_j") is not None
        number = device.number
        self._pcie = Paced(lambda: (number("pcie_rx_mib_s"), number("pcie_tx_mib_s")), _PCIE_S)
        self._others = Paced(self._count_others, _PROCESSES_S)

    def quick(self) -> GpuReading:
        """Read the energy counter, or else the power."""
        if self.has_counter:
            return GpuReading(energy_j=self.device.number("energy_j"))
        return GpuReading(power_w=self.device.number("power_w"))

    def whole(self, quick: GpuReading, family: Collection[int], trainers: int) -> GpuReading:
        """Read the rest."""
        device = self.device
        memory = device.memory()
        pcie_rx_mib_s, pcie_tx_mib_s = self._pcie.value() or (None, None)
        return replace(
            quick,
            power_w=device.number("power_w") if self.has_counter else quick.power_w,
            utilization_pct=device.utilization_pct(),
            memory_used_mib=memory.used_mib if memory else None,
            memory_total_mib=memory.total_mib if memory else None,
            temperature_c=device.number("temperature_c"),
            sm_clock_mhz=device.number("sm_clock_mhz"),
            memory_clock_mhz=device.number("memory_clock_mhz"),
            clock_reasons=device.clock_reasons(),
            pcie_rx_mib_s=pcie_rx_mib_s,
            pcie_tx_mib_s=pcie_tx_mib_s,
            other_processes=self._others.value(family, trainers),
        )

    def _count_others(self, family: Collection[int], trainers: int) -> int | None:
        """Return how many processes of others use the GPU."""
        # Inside a container NVML's process ids mean nothing: `trainers` of them are subtracted.
        pids = self.device.compute_pids()
        if pids is None:
            return None
        strangers = [pid for pid in pids if pid not in family]
        return len(strangers) if len(strangers) < len(pids) else max(0, len(pids) - trainers)


class GpuGauge:
    """A reader of the GPUs that a trainer sees; `reason` is why none can be read."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self._gpus: list[_VisibleGpu] = []
        self._highest_mhz: dict[str, float] = {}
        self.reason: str | None = None
        self._lost_before: str | None = None

    def find(self) -> None:
        """Find the GPUs of a trial; never raise. GPUs come and go between trials."""
        self._gpus, self.reason, self._lost_before = [], None, None
        try:
            self._nvml = self._nvml or Nvml()
            self._gpus = list(_visible(self._nvml))
            if not self._gpus:
                self.reason = "NVML shows none of the GPUs that the trainer sees"
                self._lost_before = lost_gpu()
        except NvmlError as error:
            self.reason = f"no GPU can be read: {error}"

    def release(self) -> None:
        """End a trial. If a GPU was lost, close NVML, which does not know it any more."""
        if self._nvml and (self.reason or any(gpu.device.lost for gpu in self._gpus)):
            self._nvml.close()
            self._nvml = None

    @property
    def lost(self) -> str | None:
        """The GPUs that fell off the bus, as a reason; None if there are none."""
        lost = ", ".join(gpu.uuid for gpu in self._gpus if gpu.device.lost)
        return f"{lost} fell off the bus" if lost else self._lost_before

    @property
    def counts_energy(self) -> bool:
        """Return whether each GPU has an energy counter; if not, its power must be read often."""
        return all(gpu.has_counter for gpu in self._gpus)

    @property
    def errors(self) -> list[Mapping[str, NvmlError]]:
        """The last error of each call, for each GPU."""
        return [dict(gpu.device.errors) for gpu in self._gpus]

    def read(self, *, family: Collection[int] | None, trainers: int = 1) -> tuple[GpuReading, ...]:
        """Return a reading of each GPU; without `family`, of energy and power alone (cheap)."""
        # `family` are all trainers' processes; `trainers` counts the trial's and its rivals'.
        readings = tuple(gpu.quick() for gpu in self._gpus)  # all at the same moment
        if family is None:
            return readings
        pairs = zip(self._gpus, readings, strict=True)
        return tuple(
            self._with_highest_clock(gpu.uuid, gpu.whole(quick, family, trainers))
            for gpu, quick in pairs
        )

    def _with_highest_clock(self, uuid: str, reading: GpuReading) -> GpuReading:
        if reading.sm_clock_mhz is None:
            return reading
        highest_mhz = max(reading.sm_clock_mhz, self._highest_mhz.get(uuid, 0.0))
        self._highest_mhz[uuid] = highest_mhz
        return replace(reading, highest_sm_clock_mhz=highest_mhz)


def lost_gpu() -> str | None:
    """Return which GPU this process was given and cannot use; None if NVML shows it, or nothing."""
    profile = probe()
    if profile.gpus or not profile.gpu_faults:
        return None
    return f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '')} ({'; '.join(profile.gpu_faults)})"


def gpu_memory_share() -> float:
    """Return the used share of the memory of the fullest GPU of this process; 1 if unknown."""
    try:
        with contextlib.closing(Nvml()) as nvml:
            memories = [gpu.device.memory() for gpu in _visible(nvml)]
    except NvmlError:
        return 1.0
    shares = (memory.used_mib / memory.total_mib if memory else 1.0 for memory in memories)
    return max(shares, default=1.0)


def _visible(nvml: Nvml) -> Iterator[_VisibleGpu]:
    """Yield the GPUs that a trainer of this process sees, in its order."""
    devices: dict[str, NvmlDevice] = {}
    gpus: list[Gpu] = []
    for index in range(nvml.count()):
        try:
            device = nvml.device(index)
        except NvmlError:
            continue  # it fell off the bus
        uuid = device.uuid()
        if uuid is not None:
            devices[uuid] = device
            gpus.append(Gpu(index, "", uuid, None))
    for gpu in visible_gpus(tuple(gpus), os.environ.get("CUDA_VISIBLE_DEVICES")):
        yield _VisibleGpu(gpu.uuid, devices[gpu.uuid])
