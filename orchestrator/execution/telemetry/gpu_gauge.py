"""The GPUs of a trial, read through NVML. A reading never raises; it holds what can be read."""

from __future__ import annotations

from collections.abc import Collection

from orchestrator.execution.telemetry.paced import Paced
from orchestrator.execution.telemetry.readings import GpuProblem, GpuReading
from orchestrator.hardware import Gpu, visible_gpus
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError

_PCIE_S = 2.0
"""How often the link's traffic is read: each reading waits for 20 ms, in each direction."""

_PROCESSES_S = 5.0
"""How often the processes that compute there are listed."""

_SHARE = 0.001
"""The most of a core that each of these may take: some drivers spin where others wait."""


class KeptNvml:
    """NVML, opened at the first use and kept open between trials: opening takes long.

    `highest_mhz` is the highest clock of each GPU so far, by its UUID.
    """

    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self.highest_mhz: dict[str, float] = {}

    def get(self) -> Nvml:
        """Return NVML, open.

        Raises:
            NvmlError: it cannot be opened.
        """
        if self._nvml is None:
            self._nvml = Nvml().__enter__()
        return self._nvml

    def close(self) -> None:
        """Close it; the next use opens it again."""
        if self._nvml is not None:
            self._nvml.__exit__(None, None, None)
            self._nvml = None


class _VisibleGpu:
    """One GPU that the trainer sees."""

    def __init__(self, device: NvmlDevice, highest_mhz: dict[str, float]) -> None:
        self.device = device
        self.has_counter = device.number("energy_j") is not None
        self._highest_mhz = highest_mhz
        self._pcie = Paced(self._read_pcie, _PCIE_S, _SHARE)
        self._others = Paced(self._count_others, _PROCESSES_S, _SHARE)

    def quick(self) -> GpuReading:
        """Read the energy counter, or else the power."""
        if self.has_counter:
            return GpuReading(energy_j=self.device.number("energy_j"))
        return GpuReading(power_w=self.device.number("power_w"))

    def whole(self, quick: GpuReading, family: Collection[int], trainers: int) -> GpuReading:
        """Read the rest."""
        device = self.device
        power_w = device.number("power_w") if self.has_counter else quick.power_w
        pcie = self._pcie.value() or (None, None)
        others = self._others.value(family, trainers)
        memory, reasons = device.memory(), device.clock_reasons()
        clock_mhz = device.number("sm_clock_mhz")
        return GpuReading(
            quick.energy_j,
            power_w,
            device.utilization_pct(),
            memory.used_mib if memory else None,
            memory.total_mib if memory else None,
            device.number("temperature_c"),
            clock_mhz,
            device.number("memory_clock_mhz"),
            None if reasons is None else tuple(sorted(reasons)),
            *pcie,
            others,
            highest_sm_clock_mhz=self._highest(clock_mhz),
        )

    def _read_pcie(self) -> tuple[float | None, float | None]:
        return self.device.number("pcie_rx_mib_s"), self.device.number("pcie_tx_mib_s")

    def _count_others(self, family: Collection[int], trainers: int) -> int | None:
        """Return how many processes other than the trainers' compute on the GPU.

        Inside a container NVML's process ids mean nothing. Then `trainers` of them are subtracted.
        """
        pids = self.device.compute_pids()
        if pids is None:
            return None
        strangers = pids.difference(family)
        return len(strangers) if len(strangers) < len(pids) else max(0, len(pids) - trainers)

    def _highest(self, clock_mhz: float | None) -> float | None:
        uuid = self.device.uuid()
        if uuid is not None and clock_mhz is not None:
            clock_mhz = max(clock_mhz, self._highest_mhz.get(uuid, 0.0))
            self._highest_mhz[uuid] = clock_mhz
        return clock_mhz


class GpuGauge:
    """A reader of the GPUs that a trainer sees, made for each trial: GPUs come and go.

    `reason` is why none can be read.
    """

    def __init__(self, nvml: KeptNvml, visible: str | None) -> None:
        """Look the GPUs up; never raise. `visible` is the trainer's `CUDA_VISIBLE_DEVICES`."""
        self._nvml = nvml
        self._gpus: list[_VisibleGpu] = []
        self.reason: str | None = None
        try:
            devices = _visible(nvml.get(), visible)
            self._gpus = [_VisibleGpu(device, nvml.highest_mhz) for device in devices]
            if not self._gpus:
                self.reason = "NVML shows none of the GPUs that the trainer sees"
        except NvmlError as error:
            self.reason = f"no GPU can be read: {error}"

    def close(self) -> None:
        """Release the GPUs. If one was lost, close NVML too, which does not know it any more."""
        if self.reason or any(gpu.device.lost for gpu in self._gpus):
            self._nvml.close()

    @property
    def counts_energy(self) -> bool:
        """Return whether each GPU has an energy counter; if not, its power must be read often."""
        return all(gpu.has_counter for gpu in self._gpus)

    @property
    def problems(self) -> tuple[GpuProblem, ...]:
        """Return why no GPU can be read, and the calls that GPUs refuse."""
        if self.reason is not None:
            return (GpuProblem(self.reason),)
        return tuple(
            GpuProblem(str(error), index, call)
            for index, gpu in enumerate(self._gpus)
            for call, error in sorted(gpu.device.errors.items())
        )

    def read(self, *, family: Collection[int] | None, trainers: int = 1) -> tuple[GpuReading, ...]:
        """Return a reading of each GPU.

        Args:
            family: the trainers' processes; None for energy and power alone, which cost little.
            trainers: how many of them are the trial's and its rivals'.
        """
        readings = tuple(gpu.quick() for gpu in self._gpus)  # all at the same moment
        if family is None:
            return readings
        pairs = zip(self._gpus, readings, strict=True)
        return tuple(gpu.whole(quick, family, trainers) for gpu, quick in pairs)


def _visible(nvml: Nvml, visible: str | None) -> list[NvmlDevice]:
    """Return the GPUs that the trainer sees, in its order."""
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
            gpus.append(Gpu(index, device.name() or "", uuid, 0))
    return [devices[gpu.uuid] for gpu in visible_gpus(tuple(gpus), visible)]
