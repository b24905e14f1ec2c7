"""The one wrapper of NVML. A reading that fails is None, with its reason in `errors`."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pynvml
import yaml

_MIB = 2**20

_TABLES = yaml.safe_load(Path(__file__).with_name("nvml.yaml").read_text())
_NUMBERS: Mapping[str, list[Any]] = _TABLES["numbers"]
_REASONS: Mapping[int, str] = _TABLES["reasons"]

THROTTLING = frozenset(_REASONS.values()).difference(_TABLES["harmless"])
"""The reasons for lower clocks that slow down a busy GPU."""


class NvmlError(RuntimeError):
    """A failed call of NVML. `code` is its `nvmlReturn_t`; None where NVML gave no answer."""

    def __init__(self, call: str, code: int | None, reason: str) -> None:
        super().__init__(call, code, reason)
        self.call, self.code, self.reason = call, code, reason

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}"

    @property
    def no_library(self) -> bool:
        """True where the machine has no NVML at all: no NVIDIA driver is installed."""
        return self.code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND

    @property
    def lost(self) -> bool:
        """True where the GPU fell off the bus, or needs a reset."""
        return self.code in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)


@dataclass(frozen=True, slots=True)
class Memory:
    """A GPU's memory in MiB. An old driver counts its own part as used: `NvmlDevice.memory`."""

    total_mib: float
    used_mib: float


class NvmlDevice:
    """One GPU. `errors` has the last error of each call, by the call's name."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.errors: dict[str, NvmlError] = {}

    @property
    def lost(self) -> bool:
        """True where a reading failed because the GPU fell off the bus."""
        return any(error.lost for error in self.errors.values())

    def number(self, name: str) -> float | None:
        """Return the reading of that name in `nvml.yaml`, whose unit ends the name."""
        call, divisor, *constants = _NUMBERS[name]
        value = self._read(call, *(getattr(pynvml, constant) for constant in constants))
        return None if value is None else float(value) / divisor

    def count(self, name: str) -> int | None:
        """Return a reading that is a whole number."""
        value = self.number(name)
        return None if value is None else int(value)

    def name(self) -> str | None:
        """Return `NVIDIA H200`."""
        return cast("str | None", self._read("nvmlDeviceGetName"))

    def uuid(self) -> str | None:
        """Return `GPU-…`, the same in every process and after every start."""
        return cast("str | None", self._read("nvmlDeviceGetUUID"))

    def memory(self) -> Memory | None:
        """Return its memory, without the driver's own part where NVML can separate it."""
        call = "nvmlDeviceGetMemoryInfo"
        memory = self._read(call, pynvml.nvmlMemory_v2) or self._read(call)
        return memory and Memory(memory.total / _MIB, memory.used / _MIB)

    def compute_capability(self) -> str | None:
        """Return `9.0`."""
        pair = self._read("nvmlDeviceGetCudaComputeCapability")
        return pair and ".".join(map(str, pair))

    def utilization_pct(self) -> float | None:
        """Return the share of the last sampling period (up to 1 s) in which a kernel ran."""
        rates = self._read("nvmlDeviceGetUtilizationRates")
        return rates and float(rates.gpu)

    def clock_reasons(self) -> frozenset[str] | None:
        """Return the reasons for its clocks, of `nvml.yaml`; `other` for those of newer drivers."""
        for kind in ("Event", "Throttle"):
            mask = self._read(f"nvmlDeviceGetCurrentClocks{kind}Reasons")
            if mask is not None:
                names = {name for bit, name in _REASONS.items() if mask & bit}
                return frozenset(names | ({"other"} if int(mask) & ~sum(_REASONS) else set()))
        return None

    def compute_pids(self) -> tuple[int, ...] | None:
        """Return the ids of the processes that compute on it; 0 for each of another container."""
        processes = self._read("nvmlDeviceGetComputeRunningProcesses")
        return None if processes is None else tuple(int(process.pid) for process in processes)

    def mode(self, name: Literal["Ecc", "Mig"]) -> bool | None:
        """Return whether its memory corrects errors, or whether it is split into parts."""
        modes = self._read(f"nvmlDeviceGet{name}Mode")
        return None if modes is None else bool(modes[0])

    def _read(self, call: str, *arguments: Any) -> Any:
        """Call NVML; return None and note the error if that fails."""
        try:
            value = _call(call, self._handle, *arguments)
        except NvmlError as error:
            self.errors[call] = error
            return None
        self.errors.pop(call, None)
        return value


class Nvml:
    """NVML, opened, or an `NvmlError`. Threads may share it, and several may be open at once."""

    def __init__(self) -> None:
        _call("nvmlInit")

    def close(self) -> None:
        """Close it; never raise."""
        with contextlib.suppress(NvmlError):
            _call("nvmlShutdown")

    def count(self) -> int:
        """Return the number of the node's GPUs; raise `NvmlError` if NVML does not report it."""
        return int(_call("nvmlDeviceGetCount"))

    def device(self, index: int) -> NvmlDevice:
        """Return a GPU by its index on the bus, or raise `NvmlError`: none, or it fell off."""
        return NvmlDevice(_call("nvmlDeviceGetHandleByIndex", index))

    def driver(self) -> str | None:
        """Return the driver's version, `580.95.05`; None where NVML does not report it."""
        with contextlib.suppress(NvmlError):
            return str(_call("nvmlSystemGetDriverVersion"))
        return None

    def cuda(self) -> str | None:
        """Return the newest CUDA of the driver, `13.0`; None where NVML does not report it."""
        with contextlib.suppress(NvmlError):
            version = int(_call("nvmlSystemGetCudaDriverVersion_v2"))
            return f"{version // 1000}.{version % 1000 // 10}"
        return None


def _call(name: str, *arguments: Any) -> Any:
    """Call a function of pynvml; turn any error into an `NvmlError`."""
    try:
        return getattr(pynvml, name)(*arguments)
    except pynvml.NVMLError as error:
        reason = f"NVML error {error.value}"
        with contextlib.suppress(Exception):  # a code that pynvml has no words for
            reason = str(error)
        raise NvmlError(name, int(error.value), reason) from error
    except pynvml.NVMLLibraryMismatchError as error:
        code = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        raise NvmlError(name, code, "this driver is too old for it") from error
    except Exception as error:  # pynvml decodes what a broken driver wrote, for one
        raise NvmlError(name, None, f"{type(error).__name__}: {error}") from error
