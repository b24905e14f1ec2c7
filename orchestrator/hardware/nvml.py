"""The one file that speaks to NVML: what a GPU tells of itself, read by typed calls.

Opening NVML, or a GPU, raises `NvmlError`. A reading never raises: what a GPU does not tell is
None, and why stands in the device's `untold`. Nothing is 0 because it could not be read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import pynvml

T = TypeVar("T")

_MIB = 2**20

_NO_LIBRARY = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
_NO_FUNCTION = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)

REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Why a GPU's clocks are not as high as they may be, by bit; names as in NVIDIA's tools."""

THROTTLING = frozenset(REASONS.values()) - {
    "gpu_idle",
    "applications_clocks_setting",
    "display_clock_setting",
}
"""Those reasons that slow down a GPU at work against somebody's wish."""


class NvmlError(RuntimeError):
    """NVML refused a call. `code` is its `nvmlReturn_t`; None where it is no answer of NVML's."""

    def __init__(self, call: str, code: int | None, said: str) -> None:
        super().__init__(call, code, said)
        self.call, self.code, self.said = call, code, said

    def __str__(self) -> str:
        return f"{self.call}: {self.said}"

    @property
    def no_library(self) -> bool:
        """Whether there is no NVML on this machine at all: no NVIDIA driver is installed."""
        return self.code == _NO_LIBRARY

    @property
    def lost(self) -> bool:
        """Whether the GPU fell off the bus, or does nothing more before it is reset."""
        return self.code in _LOST


@dataclass(frozen=True, slots=True)
class Memory:
    """A GPU's memory in MiB. An old driver counts its own part as used: `NvmlDevice.memory`."""

    total_mib: float
    used_mib: float


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A GPU's link to its host: generation and lanes now (fewer at rest), and the most it can."""

    generation: int | None
    lanes: int | None
    max_generation: int | None
    max_lanes: int | None


class NvmlDevice:
    """One GPU. `untold` has the last refusal of each call, by the call's name."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.untold: dict[str, NvmlError] = {}

    @property
    def lost(self) -> bool:
        """Whether a reading met a GPU that fell off the bus."""
        return any(error.lost for error in self.untold.values())

    def name(self) -> str | None:
        """`NVIDIA H200`."""
        return self._tell("nvmlDeviceGetName", str)

    def uuid(self) -> str | None:
        """`GPU-…`: the same in every process and after every start."""
        return self._tell("nvmlDeviceGetUUID", str)

    def memory(self) -> Memory | None:
        """Its memory, by the call that counts the driver's own part apart, where there is one."""
        split = self._tell("nvmlDeviceGetMemoryInfo_v2", _memory)
        return split or self._tell("nvmlDeviceGetMemoryInfo", _memory)

    def compute_capability(self) -> tuple[int, int] | None:
        """`(9, 0)`."""
        return self._tell("nvmlDeviceGetCudaComputeCapability", lambda told: (told[0], told[1]))

    def utilization_pct(self) -> float | None:
        """The share of the last sampling period (up to 1 s) in which a kernel ran."""
        return self._tell("nvmlDeviceGetUtilizationRates", lambda told: float(told.gpu))

    def power_w(self) -> float | None:
        """What it draws: the last instant, or the last second on an Ampere or later."""
        return self._tell("nvmlDeviceGetPowerUsage", _thousandth)

    def power_limit_w(self) -> float | None:
        """What it may draw, after every limit that is set."""
        return self._tell("nvmlDeviceGetEnforcedPowerLimit", _thousandth)

    def energy_j(self) -> float | None:
        """What it has drawn since the driver was loaded; changes about every 100 ms."""
        return self._tell("nvmlDeviceGetTotalEnergyConsumption", _thousandth)

    def temperature_c(self) -> float | None:
        """Of its chip."""
        return self._tell("nvmlDeviceGetTemperature", float, pynvml.NVML_TEMPERATURE_GPU)

    def sm_clock_mhz(self) -> float | None:
        """Of its multiprocessors, now."""
        return self._tell("nvmlDeviceGetClockInfo", float, pynvml.NVML_CLOCK_SM)

    def memory_clock_mhz(self) -> float | None:
        """Of its memory, now."""
        return self._tell("nvmlDeviceGetClockInfo", float, pynvml.NVML_CLOCK_MEM)

    def max_sm_clock_mhz(self) -> float | None:
        """The highest clock of its multiprocessors."""
        return self._tell("nvmlDeviceGetMaxClockInfo", float, pynvml.NVML_CLOCK_SM)

    def max_memory_clock_mhz(self) -> float | None:
        """The highest clock of its memory."""
        return self._tell("nvmlDeviceGetMaxClockInfo", float, pynvml.NVML_CLOCK_MEM)

    def clock_reasons(self) -> frozenset[str] | None:
        """Why its clocks are not higher, of `REASONS`; what newer drivers add is `other`."""
        new = self._tell("nvmlDeviceGetCurrentClocksEventReasons", _reasons)
        if new is not None:
            return new
        return self._tell("nvmlDeviceGetCurrentClocksThrottleReasons", _reasons)

    def pcie_rx_mib_s(self) -> float | None:
        """From the host, over the last 20 ms: the call waits for them."""
        return self._tell("nvmlDeviceGetPcieThroughput", _of_kib, pynvml.NVML_PCIE_UTIL_RX_BYTES)

    def pcie_tx_mib_s(self) -> float | None:
        """To the host, over the last 20 ms: the call waits for them."""
        return self._tell("nvmlDeviceGetPcieThroughput", _of_kib, pynvml.NVML_PCIE_UTIL_TX_BYTES)

    def pcie_link(self) -> PcieLink:
        """Its link to the host."""
        return PcieLink(
            self._tell("nvmlDeviceGetCurrPcieLinkGeneration", int),
            self._tell("nvmlDeviceGetCurrPcieLinkWidth", int),
            self._tell("nvmlDeviceGetMaxPcieLinkGeneration", int),
            self._tell("nvmlDeviceGetMaxPcieLinkWidth", int),
        )

    def compute_pids(self) -> frozenset[int] | None:
        """The processes that compute on it, by the numbers that they have outside containers."""
        return self._tell(
            "nvmlDeviceGetComputeRunningProcesses",
            lambda told: frozenset(int(each.pid) for each in told),
        )

    def ecc(self) -> bool | None:
        """Whether its memory corrects errors; None where it cannot."""
        return self._tell("nvmlDeviceGetEccMode", lambda told: bool(told[0]))

    def mig(self) -> bool | None:
        """Whether it is cut into parts; None where it cannot be."""
        return self._tell("nvmlDeviceGetMigMode", lambda told: bool(told[0]))

    def _tell(self, call: str, read: Callable[[Any], T], *arguments: Any) -> T | None:
        try:
            with _asking(call):
                function = getattr(pynvml, call, None)
                if call == "nvmlDeviceGetMemoryInfo_v2":  # one function, two calls
                    function, arguments = pynvml.nvmlDeviceGetMemoryInfo, (pynvml.nvmlMemory_v2,)
                if function is None:
                    raise NvmlError(call, _NO_FUNCTION, "pynvml is too old for it")
                told = read(function(self._handle, *arguments))
        except NvmlError as error:
            self.untold[call] = error
            return None
        self.untold.pop(call, None)
        return told


class Nvml:
    """NVML, opened. A context manager; threads may share it, and several may be open at once."""

    def __enter__(self) -> Nvml:
        """Open it.

        Raises:
            NvmlError: there is none, its driver is not loaded or of another version, ….
        """
        with _asking("nvmlInit"):
            pynvml.nvmlInit()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(NvmlError), _asking("nvmlShutdown"):
            pynvml.nvmlShutdown()

    def count(self) -> int:
        """How many GPUs the node has.

        Raises:
            NvmlError: it does not tell.
        """
        with _asking("nvmlDeviceGetCount"):
            return int(pynvml.nvmlDeviceGetCount())

    def device(self, index: int) -> NvmlDevice:
        """The GPU of an index, in the order of the bus.

        Raises:
            NvmlError: there is none, or it fell off the bus.
        """
        with _asking("nvmlDeviceGetHandleByIndex"):
            return NvmlDevice(pynvml.nvmlDeviceGetHandleByIndex(index))

    def device_of(self, uuid: str) -> NvmlDevice:
        """The GPU of a UUID.

        Raises:
            NvmlError: there is none, or it fell off the bus.
        """
        with _asking("nvmlDeviceGetHandleByUUID"):
            return NvmlDevice(pynvml.nvmlDeviceGetHandleByUUID(uuid))

    def driver(self) -> str | None:
        """The driver's version, `580.95.05`; None where NVML does not tell."""
        with contextlib.suppress(NvmlError), _asking("nvmlSystemGetDriverVersion"):
            return str(pynvml.nvmlSystemGetDriverVersion())
        return None

    def cuda(self) -> str | None:
        """The newest CUDA that the driver can run, `13.0`; None where NVML does not tell."""
        with contextlib.suppress(NvmlError), _asking("nvmlSystemGetCudaDriverVersion_v2"):
            version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
            return f"{version // 1000}.{version % 1000 // 10}"
        return None


@contextlib.contextmanager
def _asking(call: str) -> Iterator[None]:
    """Any error of a call as one of ours."""
    try:
        yield
    except NvmlError:
        raise
    except pynvml.NVMLError as error:
        raise NvmlError(call, int(error.value), _said(error)) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise NvmlError(call, _NO_FUNCTION, "this driver is too old for it") from error
    except Exception as error:  # pynvml decodes what a broken driver wrote, for one
        raise NvmlError(call, None, f"{type(error).__name__}: {error}") from error


def _said(error: Any) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a code that pynvml has no words for, asked of the library)
        return f"NVML error {error.value}"


def _memory(told: Any) -> Memory:
    return Memory(told.total / _MIB, told.used / _MIB)


def _thousandth(told: Any) -> float:
    return float(told) / 1000


def _of_kib(told: Any) -> float:
    return float(told) / 1024


def _reasons(mask: Any) -> frozenset[str]:
    names = {name for bit, name in REASONS.items() if mask & bit}
    return frozenset(names | ({"other"} if int(mask) & ~sum(REASONS) else set()))
