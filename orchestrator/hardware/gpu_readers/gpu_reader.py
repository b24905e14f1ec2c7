"""What rnnsweep asks of a library that reads GPUs: the types that a reader implements.

A reader's life on a node:

1. `registry.READERS` has one `GpuReader` of each kind. It holds nothing.
2. `GpuReader.open()` opens the vendor's library and returns an `OpenGpuReader`. A probe opens,
   asks and closes it. The telemetry of GPU trials keeps it open between trials.
3. `OpenGpuReader.devices()` returns the node's GPUs in the order of their indices.
4. `GpuDevice.facts()` is asked once by a probe. `energy_j()` or `power_w()` is read up to ten times
   a second while a trial trains, `sample()` once a second, `processes()` every 5 s.

The rule for every reading: return None for what the GPU or its driver does not report, never 0, and
never raise. The reason is kept in `GpuDevice.errors`. Only `open`, `devices` and `facts` raise, and
only a `GpuError`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.hardware.profile import Gpu, GpuReaderInfo, NoGpus


class GpuError(RuntimeError):
    """A call of a reader's library that failed; `call` is the function, for a search engine."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(call, reason)
        self.call, self.reason = call, reason

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}"


class GpuLibraryMissing(GpuError):
    """The reader's library is not on this machine: it has no GPU of this kind, or no driver."""


class GpuLost(GpuError):
    """The GPU has stopped answering for good: it fell off the bus, or needs a reset."""


@dataclass(frozen=True, slots=True)
class GpuDriver:
    """The driver's version, such as `580.95.05`, and the newest CUDA that it runs, if any."""

    version: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """A GPU's memory in MiB. `used_mib` includes the driver's part only if it is inseparable."""

    total_mib: float
    used_mib: float


@dataclass(frozen=True, slots=True)
class ClockState:
    """Why a GPU's clock is as it is.

    `throttling` has the reasons that slow down a busy GPU, by the names of the vendor's tools
    (`sw_power_cap`, `hw_thermal_slowdown`). `is_intended` is True where a low clock is due to the
    GPU's own load or to the user's wish, as in every trial: it is idle, at its power limit, or set
    to this clock.
    """

    throttling: frozenset[str] = frozenset()
    is_intended: bool = False


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Load, memory, heat and clocks of a GPU at one moment.

    `utilization_pct` is the share of the last sampling period in which a kernel ran. `sm_clock_mhz`
    is the clock of the compute units.
    """

    utilization_pct: float | None = None
    memory: GpuMemory | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    clock_state: ClockState | None = None


class GpuDevice(ABC):
    """One GPU of an open reader. `errors` has the last error of each call, by the call's name."""

    errors: Mapping[str, GpuError]

    @property
    def is_lost(self) -> bool:
        """Whether a reading failed because the GPU stopped answering for good."""
        return any(isinstance(error, GpuLost) for error in self.errors.values())

    @abstractmethod
    def uuid(self) -> str | None:
        """Return an id that is the same in every process and after every start of the machine."""

    @abstractmethod
    def facts(self) -> Gpu:
        """Return what the GPU is; raise `GpuError` if it is lost or has no name.

        The name becomes a part of its hardware class, so it names the model, not the card.
        """

    @abstractmethod
    def sample(self) -> GpuSample:
        """Read load, memory, heat and clocks. It is called once a second: a few ms at most."""

    def energy_j(self) -> float | None:
        """Read a counter of joules that only grows; None where the GPU has none.

        It is called 5 times a second, to interpolate the energy at the edges of an epoch.
        """
        return None

    def power_w(self) -> float | None:
        """Read the power. Where there is no energy counter, it is integrated, at 10 Hz."""
        return None

    def energy_errors(self) -> Sequence[GpuError]:
        """Return why the last readings of power and energy failed; nothing where they succeeded."""
        return ()

    def memory(self) -> GpuMemory | None:
        """Read the memory: before another trainer starts on a GPU that warm trainers hold."""
        return self.sample().memory

    def processes(self) -> Sequence[int] | None:
        """Return the ids of the processes that compute on the GPU; None where nobody knows.

        A process of another container counts too, with whatever id the library has for it.
        """
        return None


class OpenGpuReader(ABC):
    """A vendor's library, opened. Threads may share it, and several may be open at once."""

    @abstractmethod
    def close(self) -> None:
        """Close the library; never raise. A lost GPU is seen again only by a new `open`."""

    @abstractmethod
    def devices(self) -> Sequence[GpuDevice | GpuError]:
        """Return the GPUs by index, or the error of one that does not answer in its place.

        Raise `GpuError` if the library does not say how many GPUs there are.
        """

    def driver(self) -> GpuDriver:
        """Return the driver's version, as far as it is reported."""
        return GpuDriver()


class GpuReader(ABC):
    """A kind of GPU that rnnsweep can find, and read while a trial runs on it."""

    info: GpuReaderInfo

    @abstractmethod
    def open(self) -> OpenGpuReader:
        """Open the library, or raise `GpuError`; `GpuLibraryMissing` where it is not installed."""

    def absence(self, root: Path) -> NoGpus:
        """Return why there is no library, after `GpuLibraryMissing`; `root` holds `proc` and `sys`.

        A machine that has no such GPU is no problem; a GPU on the bus without its driver is one.
        """
        return NoGpus(f"no {self.info.vendor} driver is installed ({self.info.library} is absent)")

    def visible_indices(
        self, uuids: Mapping[int, str], environ: Mapping[str, str]
    ) -> tuple[int, ...]:
        """Return the indices of the GPUs that a framework in this environment sees, in its order.

        `uuids` has the node's GPUs by index. Libraries that read GPUs ignore such variables; Ray
        sets them to give a trial its GPU. By default the variable of `info` is a list of indices or
        beginnings of UUIDs, which ends at the first entry that names no GPU; without the variable
        all are visible.
        """
        value = environ.get(self.info.visibility_variable)
        return tuple(uuids) if value is None else listed_indices(value.split(","), uuids)

    def showing_only(self, uuids: Sequence[str]) -> Mapping[str, str]:
        """Return the environment variables with which frameworks see these GPUs only.

        Without UUIDs they see none: so a CPU trial leaves the GPUs of its node alone.
        """
        return {self.info.visibility_variable: ",".join(uuids) or "-1"}


def listed_indices(entries: Iterable[str], uuids: Mapping[int, str]) -> tuple[int, ...]:
    """Return the indices that entries name: an index, or the beginning of exactly one UUID.

    The first entry that names no GPU ends the list.
    """
    chosen: list[int] = []
    for entry in filter(None, map(str.strip, entries)):
        matching = [
            index
            for index, uuid in uuids.items()
            if entry == str(index)
            or (not entry.isdecimal() and uuid.lower().startswith(entry.lower()))
        ]
        if len(matching) != 1:
            break
        if matching[0] not in chosen:
            chosen.append(matching[0])
    return tuple(chosen)
