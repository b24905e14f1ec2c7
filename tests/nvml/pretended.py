"""GPUs that are not there: a library that stands in for NVML, told what to say.

For tests of placement, of telemetry and of the handling of errors. Nothing that it tells is ever
evidence of a GPU: no kernel runs on it, and no figure of it means anything.

    environment = Pretended([PretendedGpu(power_w=70.0)]).environment(tmp_path)

gives the variables with which a child process (pynvml loads `libnvidia-ml.so.1`) sees one GPU;
`Pretended(…).in_this_process(monkeypatch, tmp_path)` shows it to this one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pynvml
import pytest

from tests.lacking import skip_here

LIBRARY = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).with_name("pretended.c")
_FILE = "RNNSWEEP_PRETENDED_NVML"
_MIB = 2**20

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 3, 4, 6, 9
FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, UNKNOWN = 13, 15, 18, 999

NODE_CALLS = (
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount_v2",
)
"""The calls of NVML's that are of no GPU, by their C names."""

GPU_CALLS = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetCudaComputeCapability",
)
"""The calls of a GPU, by their C names."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a value goes on from `from_s` (after the pretence began): `value`, and `per_s` a second.

    It moves every `every_s` seconds, or all the time where that is 0.
    """

    value: float
    per_s: float = 0.0
    from_s: float = 0.0
    every_s: float = 0.0


Value: TypeAlias = float | Course | Sequence[Course] | None
"""A number, a course, several (the last that has begun holds), or None: not supported."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call returns this `nvmlReturn_t`, from so many seconds and from its so-manieth time on.

    A code below 0 has it hang for so many milliseconds, and then tell what it would.
    """

    code: int
    from_s: float = 0.0
    from_call: int = 1


Errors: TypeAlias = Mapping[str, int | Refusal]
"""What calls return instead of telling, by their C names; `*` for all of them."""


@dataclass(frozen=True, slots=True)
class PretendedGpu:
    """One GPU. `energy_j` follows from a constant `power_w` unless it is given."""

    name: str = "NVIDIA T4"
    uuid: str = ""
    memory_mib: float = 15_360.0
    memory_used_mib: Value = 1_024.0
    memory_reserved_mib: Value = 256.0
    utilization_pct: Value = 90.0
    power_w: Value = 70.0
    power_limit_w: Value = 70.0
    energy_j: Value = -1.0
    temperature_c: Value = 55.0
    sm_clock_mhz: Value = 1_500.0
    memory_clock_mhz: Value = 5_000.0
    max_sm_clock_mhz: Value = 1_590.0
    max_memory_clock_mhz: Value = 5_001.0
    clock_reasons: Value = 0.0
    pcie_rx_kib_s: Value = 2_048.0
    pcie_tx_kib_s: Value = 1_024.0
    pcie_generation: Value = 3.0
    pcie_lanes: Value = 16.0
    compute_capability: tuple[int, int] = (7, 5)
    ecc: bool | None = True
    mig: bool | None = None
    processes: Mapping[int, float] = field(default_factory=dict)
    """MiB by process."""
    errors: Errors = field(default_factory=dict)

    def lines(self, index: int) -> Iterator[str]:
        """This GPU, as the library reads it."""
        yield "gpu"
        yield f"name {self.name}"
        yield f"uuid {self.uuid or f'GPU-{index:08d}-0000-0000-0000-000000000000'}"
        values: dict[str, tuple[Value, float]] = {
            "memory": (self.memory_mib, _MIB),
            "memory_used": (self.memory_used_mib, _MIB),
            "memory_reserved": (self.memory_reserved_mib, _MIB),
            "utilization": (self.utilization_pct, 1),
            "power_mw": (self.power_w, 1000),
            "power_limit_mw": (self.power_limit_w, 1000),
            "energy_mj": (self._energy(), 1000),
            "temperature0": (self.temperature_c, 1),
            "clock1": (self.sm_clock_mhz, 1),
            "clock2": (self.memory_clock_mhz, 1),
            "max_clock1": (self.max_sm_clock_mhz, 1),
            "max_clock2": (self.max_memory_clock_mhz, 1),
            "clock_reasons": (self.clock_reasons, 1),
            "pcie_kib_s0": (self.pcie_tx_kib_s, 1),
            "pcie_kib_s1": (self.pcie_rx_kib_s, 1),
            "pcie_generation": (self.pcie_generation, 1),
            "pcie_lanes": (self.pcie_lanes, 1),
            "capability_major": (self.compute_capability[0], 1),
            "capability_minor": (self.compute_capability[1], 1),
            "ecc": (self.ecc, 1),
            "mig": (self.mig, 1),
        }
        for name, (value, scale) in values.items():
            for course in _courses(value):
                numbers = (
                    course.from_s,
                    course.value * scale,
                    course.per_s * scale,
                    course.every_s,
                )
                yield f"value {name} {' '.join(f'{number:.6f}' for number in numbers)}"
        for pid, mib in self.processes.items():
            yield f"process {pid} {round(mib * _MIB)}"
        yield from _error_lines(self.errors)

    def _energy(self) -> Value:
        if self.energy_j != -1.0:
            return self.energy_j
        power_w = self.power_w if isinstance(self.power_w, int | float) else 0.0
        return Course(1_000.0, per_s=power_w, every_s=0.1)


@dataclass(frozen=True, slots=True)
class Pretended:
    """A node's NVML: its GPUs, and what its calls return instead of telling."""

    gpus: Sequence[PretendedGpu] = ()
    errors: Errors = field(default_factory=dict)
    driver: str = "580.95.05"
    cuda: int = 13_000

    def __post_init__(self) -> None:
        known = {"*", *NODE_CALLS, *GPU_CALLS}
        for call in (*self.errors, *(call for gpu in self.gpus for call in gpu.errors)):
            assert call in known, f"{call} is none of the calls that are pretended"

    def environment(self, folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The variables that show these GPUs to a child process, from now on.

        Skips the test where there is no C compiler. A later call with the same folder changes what
        is pretended, for processes that look already, too.
        """
        built = library()
        path = [str(built.parent), *filter(None, [environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": os.pathsep.join(path), _FILE: str(self.write(folder))}

    def in_this_process(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Show these GPUs to pynvml in this process, until the test ends."""
        loaded = ctypes.CDLL(str(library()))
        monkeypatch.setenv(_FILE, str(self.write(folder)))
        monkeypatch.setattr(pynvml, "nvmlLib", loaded)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def write(self, folder: Path) -> Path:
        """The file that the library reads; it begins now."""
        path = folder / "pretended-nvml.txt"
        lines = [
            f"began {time.monotonic():.6f}",
            f"driver {self.driver}",
            f"cuda {self.cuda}",
            *_error_lines(self.errors),
            *(line for index, gpu in enumerate(self.gpus) for line in gpu.lines(index)),
        ]
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(path)  # whole, for a process that reads it just now
        return path


class CannotBuild(RuntimeError):
    """The library cannot be built on this machine."""


def library() -> Path:
    """The library, built once for this process; skips the test where nothing here can build it."""
    try:
        return _built()
    except CannotBuild as error:
        skip_here(f"{error}: apt-get install gcc libc6-dev, for the stand-in for NVML")


def compiler() -> str | None:
    """The C compiler's path; None where there is none."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build(folder: Path) -> Path:
    """Build the library in a folder.

    Raises:
        CannotBuild: there is no C compiler, or it lacks the C library's headers.
    """
    found = compiler()
    if found is None:
        raise CannotBuild("no C compiler here (cc, gcc or clang)")
    built = folder / LIBRARY
    options = ["-shared", "-fPIC", "-O1"]
    command = [found, *options, "-o", str(built), str(_SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{found} failed: {done.stderr.strip()[-300:]}")
    return built


@functools.cache
def _built() -> Path:
    _KEPT.append(tempfile.TemporaryDirectory(prefix="pretended-nvml-"))
    return build(Path(_KEPT[-1].name))


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Folders that go when the process ends."""


def _courses(value: Value) -> Sequence[Course]:
    if value is None:
        return ()
    if isinstance(value, Course):
        return (value,)
    return (Course(float(value)),) if isinstance(value, int | float) else value


def _error_lines(errors: Errors) -> Iterator[str]:
    for call, told in errors.items():
        refusal = told if isinstance(told, Refusal) else Refusal(told)
        yield f"error {call} {refusal.code} {refusal.from_s:.6f} {refusal.from_call}"
