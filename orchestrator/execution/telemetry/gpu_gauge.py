"""The GPUs of a trial, through their reader. A reading never raises; it holds what can be read."""

import contextlib
import os
from collections.abc import Collection
from dataclasses import replace

from orchestrator.execution.telemetry.readings import GpuErrors, GpuReading
from orchestrator.execution.telemetry.sensors import Paced
from orchestrator.hardware import probe
from orchestrator.hardware.gpu_readers import (
    READERS,
    GpuDevice,
    GpuError,
    GpuReader,
    OpenGpuReader,
)

_PROCESSES_S = 5.0
"""How often the processes that compute there are listed."""


class _VisibleGpu:
    """One GPU that the trainer sees."""

    def __init__(self, uuid: str, device: GpuDevice) -> None:
        self.uuid, self.device = uuid, device
        self.has_counter = device.energy_j() is not None
        self._strangers = Paced(self._count_strangers, _PROCESSES_S)

    def read_energy(self) -> GpuReading:
        """Read the energy counter, or else the power."""
        if self.has_counter:
            return GpuReading(energy_j=self.device.energy_j())
        return GpuReading(power_w=self.device.power_w())

    def read_rest(self, energy: GpuReading, family: Collection[int], trainers: int) -> GpuReading:
        """Return the reading of the energy with everything else."""
        sample = self.device.sample()
        memory = sample.memory
        return replace(
            energy,
            power_w=self.device.power_w() if self.has_counter else energy.power_w,
            utilization_pct=sample.utilization_pct,
            memory_used_mib=memory.used_mib if memory else None,
            memory_total_mib=memory.total_mib if memory else None,
            temperature_c=sample.temperature_c,
            sm_clock_mhz=sample.sm_clock_mhz,
            clock_state=sample.clock_state,
            other_processes=self._strangers.value(family, trainers),
        )

    def errors(self) -> GpuErrors:
        """Return why its last readings failed."""
        energy = self.device.energy_errors()
        rest = [error for error in self.device.errors.values() if error not in energy]
        return GpuErrors(tuple(map(str, energy)), tuple(map(str, rest)))

    def _count_strangers(self, family: Collection[int], trainers: int) -> int | None:
        """Return how many processes outside the trainers' families use the GPU."""
        # Inside a container the library's process ids mean nothing: then `trainers` of them are
        # subtracted.
        pids = self.device.processes()
        if pids is None:
            return None
        strangers = [pid for pid in pids if pid not in family]
        return len(strangers) if len(strangers) < len(pids) else max(0, len(pids) - trainers)


class GpuGauge:
    """A gauge of the GPUs that a trainer sees; `reason` is why none can be read.

    It keeps the libraries of its readers open between trials, since opening one takes long.
    """

    def __init__(self) -> None:
        self._open: dict[str, OpenGpuReader] = {}
        self._reader: GpuReader | None = None
        self._gpus: list[_VisibleGpu] = []
        self._highest_mhz: dict[str, float] = {}
        self.reason: str | None = None
        self._lost_before: str | None = None

    def find(self) -> None:
        """Find the GPUs of a trial; never raise. GPUs come and go between trials."""
        self._gpus, self._reader, self.reason, self._lost_before = [], None, None, None
        reasons: list[str] = []
        is_shown_none = False
        for reader in READERS:
            self._reader = reader
            try:
                if reader.info.id not in self._open:
                    self._open[reader.info.id] = reader.open()
                self._gpus = _visible(reader, self._open[reader.info.id])
            except GpuError as error:
                reasons.append(f"no GPU can be read: {error}")
                continue
            if self._gpus:
                return
            is_shown_none = True
            reasons.append(f"{reader.info.library} shows none of the GPUs that the trainer sees")
        self.reason = "; ".join(reasons)
        if is_shown_none:
            self._lost_before = lost_gpu()

    def release(self) -> None:
        """End a trial. If a GPU was lost, close its library, which does not know it any more."""
        if self.reason or any(gpu.device.is_lost for gpu in self._gpus):
            for library in self._open.values():
                library.close()
            self._open.clear()

    @property
    def reader_id(self) -> str | None:
        """The id of the reader of its GPUs."""
        return None if self._reader is None else self._reader.info.id

    @property
    def library(self) -> str:
        """The library that is or was asked last."""
        return "no library" if self._reader is None else self._reader.info.library

    @property
    def lost(self) -> str | None:
        """The GPUs that fell off the bus, as a reason; None if there are none."""
        lost = ", ".join(gpu.uuid for gpu in self._gpus if gpu.device.is_lost)
        return f"{lost} fell off the bus" if lost else self._lost_before

    @property
    def counts_energy(self) -> bool:
        """Whether each GPU has an energy counter; if not, its power must be read often."""
        return all(gpu.has_counter for gpu in self._gpus)

    @property
    def errors(self) -> list[GpuErrors]:
        """Why the last readings of each GPU failed."""
        return [gpu.errors() for gpu in self._gpus]

    def read(self, *, family: Collection[int] | None, trainers: int = 1) -> tuple[GpuReading, ...]:
        """Return a reading of each GPU; without `family`, of energy and power alone (cheap)."""
        # `family` are the processes of all trainers of a round, `trainers` the number of trainers.
        energies = tuple(gpu.read_energy() for gpu in self._gpus)  # all at the same moment
        if family is None:
            return energies
        return tuple(
            self._with_highest_clock(gpu.uuid, gpu.read_rest(energy, family, trainers))
            for gpu, energy in zip(self._gpus, energies, strict=True)
        )

    def _with_highest_clock(self, uuid: str, reading: GpuReading) -> GpuReading:
        """Return a reading with the highest clock of its GPU so far, to tell a slowed one by."""
        if reading.sm_clock_mhz is None:
            return reading
        highest_mhz = max(reading.sm_clock_mhz, self._highest_mhz.get(uuid, 0.0))
        self._highest_mhz[uuid] = highest_mhz
        return replace(reading, highest_sm_clock_mhz=highest_mhz)


def lost_gpu() -> str | None:
    """Return which GPU this process was given and cannot use; None if it is shown, or none was."""
    profile = probe()
    if profile.gpus or not profile.gpu_faults:
        return None
    given = os.environ.get(profile.gpu_terms.visibility_variable, "")
    return f"GPU {given} ({'; '.join(profile.gpu_faults)})"


def gpu_memory_share() -> float:
    """Return the used share of the memory of the fullest GPU of this process; 1 if unknown."""
    for reader in READERS:
        try:
            with contextlib.closing(reader.open()) as library:
                memories = [gpu.device.memory() for gpu in _visible(reader, library)]
        except GpuError:
            continue
        if memories:
            return max(memory.used_mib / memory.total_mib if memory else 1.0 for memory in memories)
    return 1.0


def _visible(reader: GpuReader, library: OpenGpuReader) -> list[_VisibleGpu]:
    """Return the GPUs that a trainer of this process sees, in its order."""
    devices: dict[int, GpuDevice] = {}
    uuids: dict[int, str] = {}
    for index, device in enumerate(library.devices()):
        if isinstance(device, GpuError):
            continue  # it fell off the bus
        uuid = device.uuid()
        if uuid is not None:
            devices[index], uuids[index] = device, uuid
    visible = reader.visible_indices(uuids, os.environ)
    return [_VisibleGpu(uuids[index], devices[index]) for index in visible]
