"""A GPU's utilisation, memory, power, temperature and energy over a window, as NVML tells them."""

from __future__ import annotations

import statistics
import time
from types import TracebackType
from typing import Any, Self

from orchestrator.hardware import probe
from orchestrator.hardware.nvml import Nvml, NvmlError

_EVERY_S = 0.1
"""NVML's own figures change about as often."""

_TOLD = ("power_w", "energy_j", "temperature_c", "utilization_pct", "memory_mib")


class NoMeter(RuntimeError):
    """NVML sees no GPU, or will not tell of it."""


class Meter:
    """Reads the first visible GPU whenever it is told to, ten times a second at most."""

    def __init__(self) -> None:
        self._samples: list[dict[str, float]] = []

    def __enter__(self) -> Self:
        gpus = probe().gpus
        if not gpus:
            raise NoMeter("NVML sees no GPU")
        self._nvml = Nvml()
        try:
            self._gpu = self._nvml.__enter__().device_of(gpus[0].uuid)
        except NvmlError as error:
            raise NoMeter(f"NVML does not tell of {gpus[0].name}: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nvml.__exit__(kind, error, trace)

    def read(self) -> None:
        """Take a sample, unless the last one is fresh; what the GPU does not tell is left out."""
        now_s = time.monotonic()
        if self._samples and now_s - self._samples[-1]["at_s"] < _EVERY_S:
            return
        memory = self._gpu.memory()
        told = {
            "power_w": self._gpu.power_w(),
            "energy_j": self._gpu.energy_j(),
            "temperature_c": self._gpu.temperature_c(),
            "utilization_pct": self._gpu.utilization_pct(),
            "memory_mib": memory.used_mib if memory else None,
        }
        known = {name: value for name, value in told.items() if value is not None}
        self._samples.append({"at_s": now_s, **known})

    def summary(self) -> dict[str, Any]:
        """Means and largest values; `energy_j` by NVML's counter, and by power over time."""
        silent = [name for name in _TOLD if not any(name in s for s in self._samples)]
        told: dict[str, Any] = {"samples": len(self._samples), "not told": ", ".join(silent)}
        for name in _TOLD:
            if values := [each[name] for each in self._samples if name in each]:
                if name == "energy_j":
                    told[name] = values[-1] - values[0]
                else:
                    told |= {f"mean {name}": statistics.fmean(values), f"max {name}": max(values)}
        if self._samples:
            told["window_s"] = self._samples[-1]["at_s"] - self._samples[0]["at_s"]
        if "mean power_w" in told:
            told["energy_j by power"] = told["mean power_w"] * told["window_s"]
        return told

    def implausible(self) -> list[str]:
        """What cannot be true of a GPU at work, of what NVML tells."""
        told = self.summary()
        bounds = {
            "energy_j": (1e-9, float("inf")),
            "mean power_w": (1e-9, 2_000.0),
            "max temperature_c": (1.0, 120.0),
            "max utilization_pct": (1.0, 100.0),
            "max memory_mib": (1.0, float("inf")),
        }
        wrong = [
            f"{name} is {told.get(name)}"
            for name, (low, high) in bounds.items()
            if name in told and not low <= told[name] <= high
        ]
        counted, integrated = told.get("energy_j", 0.0), told.get("energy_j by power", 0.0)
        if (
            counted
            and integrated
            and told["window_s"] >= 1
            and not 0.5 <= counted / integrated <= 2
        ):
            wrong.append(f"energy is {counted:.0f} J by the counter, {integrated:.0f} J by power")
        return wrong
