"""The GPUs of a trial, read through NVML. A reading never raises; it holds what can be read."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from orchestrator.execution.telemetry.readings import GpuProblem, GpuReading
from orchestrator.hardware import Gpu, visible_gpus
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError

_PCIE_S = 2.0
"""How often the link's traffic is read: each reading waits for 20 ms, in each direction."""

_PROCESSES_S = 5.0
"""How often the processes that compute there are listed."""

_SHARE = 0.001
"""The most of a core that each of these may take: some drivers spin where others wait."""


@dataclass(slots=True)
class _VisibleGpu:
    """One GPU, and its values that are read less often than the rest."""

    device: NvmlDevice
    has_counter: bool
    highest_mhz: dict[str, float]
    pcie: tuple[float | None, float | None] = (None, None)
    others: int | None = None
    next_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def is_time_for(self, reading: str, every_s: float) -> Iterator[bool]:
        """Yield whether it is time to read that; what the block then costs sets the next time."""
        now_s, spent_s = time.monotonic(), time.thread_time()
        if now_s < self.next_s.get(reading, 0.0):
            yield False
            return
        yield True
        spent_s = time.thread_time() - spent_s
        self.next_s[reading] = now_s + max(every_s, spent_s / _SHARE)


class KeptNvml:
    """NVML, opened at the first use and kept open between trials: opening takes long."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self.highest_mhz: dict[str, float] = {}
        """The highest clock of each GPU so far, by its UUID."""

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


class GpuGauge:
    """A reader of the GPUs that a trainer sees, made for each trial: GPUs come and go.

    `reason` is why none can be read.
    """

    def __init__(self, nvml: KeptNvml, visible: str | None) -> None:
        """Look the GPUs up; never raise.

        Args:
            nvml: what to ask.
            visible: the trainer's `CUDA_VISIBLE_DEVICES`.
        """
        self._nvml = nvml
        self._gpus: list[_VisibleGpu] = []
        self.reason: str | None = None
        try:
            self._gpus = [
                _VisibleGpu(device, device.number("energy_j") is not None, nvml.highest_mhz)
                for device in _visible(nvml.get(), visible)
            ]
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
        readings = [_quick(gpu) for gpu in self._gpus]  # all at the same moment
        if family is None:
            return tuple(readings)
        return tuple(
            _whole(gpu, quick, family, trainers)
            for gpu, quick in zip(self._gpus, readings, strict=True)
        )


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


def _quick(gpu: _VisibleGpu) -> GpuReading:
    if gpu.has_counter:
        return GpuReading(energy_j=gpu.device.number("energy_j"))
    return GpuReading(power_w=gpu.device.number("power_w"))


def _whole(
    gpu: _VisibleGpu, quick: GpuReading, family: Collection[int], trainers: int
) -> GpuReading:
    device = gpu.device
    power_w = device.number("power_w") if gpu.has_counter else quick.power_w
    with gpu.is_time_for("pcie", _PCIE_S) as is_time:
        if is_time:
            gpu.pcie = device.number("pcie_rx_mib_s"), device.number("pcie_tx_mib_s")
    with gpu.is_time_for("processes", _PROCESSES_S) as is_time:
        if is_time:
            gpu.others = _others(device.compute_pids(), family, trainers)
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
        *gpu.pcie,
        gpu.others,
        highest_sm_clock_mhz=_highest(gpu, clock_mhz),
    )


def _highest(gpu: _VisibleGpu, clock_mhz: float | None) -> float | None:
    uuid = gpu.device.uuid()
    if uuid is None or clock_mhz is None:
        return clock_mhz
    highest_mhz = max(clock_mhz, gpu.highest_mhz.get(uuid, 0.0))
    gpu.highest_mhz[uuid] = highest_mhz
    return highest_mhz


def _others(pids: frozenset[int] | None, family: Collection[int], trainers: int) -> int | None:
    """Return how many processes other than the trainers' compute on the GPU.

    Inside a container NVML's process ids mean nothing. Then `trainers` of them are subtracted.
    """
    if pids is None:
        return None
    strangers = pids.difference(family)
    return len(strangers) if len(strangers) < len(pids) else max(0, len(pids) - trainers)
