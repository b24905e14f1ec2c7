"""Simulated GPUs, never evidence of real ones: a library in place of NVML returns their values."""

import atexit
import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import pynvml
import pytest

from tests.lacking import skip_here

_SOURCE = Path(__file__).with_name("simulated.c")
FILE = "RNNSWEEP_SIMULATED_NVML"
_MIB = 2**20

NOT_SUPPORTED, DRIVER_NOT_LOADED = 3, 9
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, UNKNOWN = 15, 18, 999

_CALLS = sorted(set(re.findall(r"\bnvml(?:Init|Shutdown|System|Device)\w*", _SOURCE.read_text())))
GPU_CALLS = [call for call in _CALLS if "Device" in call and "Count" not in call]
NODE_CALLS = [call for call in _CALLS if call not in GPU_CALLS]
"""NVML's calls that concern one GPU, and the node, by their C names."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A value that changes by `per_s` per second: every `every_s`, or continuously if that is 0."""

    value: float
    per_s: float = 0.0
    every_s: float = 0.0


Value: TypeAlias = float | Trend | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An `nvmlReturn_t` that a call returns from a number of calls on."""

    code: int  # below 0 the call hangs for that many milliseconds and then succeeds
    from_call: int = 1


Errors: TypeAlias = Mapping[str, int | Refusal]
"""Errors that calls return, by the calls' C names; `*` applies to all calls."""


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """One GPU. Unless `energy_j` is given, it follows from a constant `power_w`."""

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
    clock_reasons: Value = 0.0
    compute_capability: tuple[int, int] = (7, 5)
    mig: bool | None = None
    processes: Sequence[tuple[int, float]] = ()  # process id, and MiB
    errors: Errors = field(default_factory=dict)

    def lines(self, index: int) -> Iterator[str]:
        """Return the entries for simulated.c: numbers have the names and the units of fields."""
        numbers: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        for other in ("name", "uuid", "processes", "errors"):
            del numbers[other]
        numbers["capability_major"], numbers["capability_minor"] = numbers.pop("compute_capability")
        if self.energy_j == -1.0:
            power_w = self.power_w if isinstance(self.power_w, int | float) else 0.0
            numbers["energy_j"] = Trend(1_000.0, per_s=power_w, every_s=0.1)
        yield "gpu"
        yield f"name {self.name}"
        yield f"uuid {self.uuid or f'GPU-{index:08d}-0000-0000-0000-000000000000'}"
        for name, value in numbers.items():
            if value is not None:
                trend = value if isinstance(value, Trend) else Trend(float(value))
                yield f"value {name} {trend.value:.6f} {trend.per_s:.6f} {trend.every_s:.6f}"
        for pid, mib in self.processes:
            yield f"process {pid} {round(mib * _MIB)}"
        yield from _error_lines(self.errors)


@dataclass(frozen=True, slots=True)
class SimulatedNvml:
    gpus: Sequence[SimulatedGpu] = ()
    errors: Errors = field(default_factory=dict)

    def __post_init__(self) -> None:
        supported = {"*", *NODE_CALLS, *GPU_CALLS}
        for call in (*self.errors, *(call for gpu in self.gpus for call in gpu.errors)):
            assert call in supported, f"{call} is not a simulated call"

    def environment(self, folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        path = [str(library().parent), *filter(None, [environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": os.pathsep.join(path), FILE: str(self.write(folder))}

    def in_this_process(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        loaded = ctypes.CDLL(str(library()))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setenv(FILE, str(self.write(folder)))
        monkeypatch.setattr(pynvml, "nvmlLib", loaded)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def write(self, folder: Path) -> Path:
        path = folder / "simulated-nvml.txt"
        lines = [
            f"began {time.monotonic():.6f}",
            "driver 580.95.05",
            "cuda 13000",
            *_error_lines(self.errors),
            *(line for index, gpu in enumerate(self.gpus) for line in gpu.lines(index)),
        ]
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(path)  # atomic, for a process that reads it now
        return path


@functools.cache
def library() -> Path:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        skip_here("no C compiler for the simulated NVML (Debian: gcc, libc6-dev)")
    built = Path(tempfile.mkdtemp(prefix="simulated-nvml-")) / "libnvidia-ml.so.1"
    atexit.register(shutil.rmtree, built.parent, ignore_errors=True)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(_SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        skip_here(f"{compiler} failed (Debian: libc6-dev): {done.stderr.strip()[-300:]}")
    return built


def _error_lines(errors: Errors) -> Iterator[str]:
    for call, error in errors.items():
        refusal = error if isinstance(error, Refusal) else Refusal(error)
        yield f"error {call} {refusal.code} {refusal.from_call}"
