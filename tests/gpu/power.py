"""A GPU's utilisation, memory, power, temperature and energy over a window, read from NVML."""

from __future__ import annotations

import statistics
import time
from types import TracebackType
from typing import Any, Self

from orchestrator.hardware import probe
from orchestrator.hardware.nvml import Nvml, NvmlError

_EVERY_S = 0.1
"""NVML updates its figures about as often."""

_READINGS = ("power_w", "energy_j", "temperature_c", "utilization_pct", "memory_mib")


class NoMeter(RuntimeError):
    """NVML sees no GPU, or reports nothing about it."""


class Meter:
    """Reads the first visible GPU on request, at most ten times a second."""

    def __init__(self) -> None:
        self._samples: list[dict[str, float]] = []

    def __enter__(self) -> Self:
        gpus = probe().gpus
        if not gpus:
            raise NoMeter("NVML sees no GPU")
        self._nvml = Nvml()
        try:
            self._gpu = self._nvml.__enter__().device(gpus[0].index)
        except NvmlError as error:
            raise NoMeter(f"NVML reports nothing about {gpus[0].name}: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nvml.__exit__(kind, error, trace)

    def read(self) -> None:
        """Take a sample unless the last one is fresh; skip values that the GPU does not report."""
        now_s = time.monotonic()
        if self._samples and now_s - self._samples[-1]["at_s"] < _EVERY_S:
            return
        memory = self._gpu.memory()
        readings = {
            "power_w": self._gpu.number("power_w"),
            "energy_j": self._gpu.number("energy_j"),
            "temperature_c": self._gpu.number("temperature_c"),
            "utilization_pct": self._gpu.utilization_pct(),
            "memory_mib": memory.used_mib if memory else None,
        }
        available = {name: value for name, value in readings.items() if value is not None}
        self._samples.append({"at_s": now_s, **available})

    def summary(self) -> dict[str, Any]:
        """Return means and maxima; `energy_j` by NVML's counter, and by power over time."""
        missing = [name for name in _READINGS if not any(name in s for s in self._samples)]
        summary: dict[str, Any] = {"samples": len(self._samples)}
        summary["not reported"] = ", ".join(missing)
        for name in _READINGS:
            if values := [sample[name] for sample in self._samples if name in sample]:
                if name == "energy_j":
                    summary[name] = values[-1] - values[0]
                else:
                    summary |= {f"mean {name}": statistics.fmean(values)}
                    summary |= {f"max {name}": max(values)}
        if self._samples:
            summary["window_s"] = self._samples[-1]["at_s"] - self._samples[0]["at_s"]
        if "mean power_w" in summary:
            summary["energy_j by power"] = summary["mean power_w"] * summary["window_s"]
        return summary

    def implausible(self) -> list[str]:
        """Return descriptions of values that are impossible for a GPU at work."""
        summary = self.summary()
        bounds = {
            "energy_j": (1e-9, float("inf")),
            "mean power_w": (1e-9, 2_000.0),
            "max temperature_c": (1.0, 120.0),
            "max utilization_pct": (1.0, 100.0),
            "max memory_mib": (1.0, float("inf")),
        }
        wrong = [
            f"{name} is {summary.get(name)}"
            for name, (low, high) in bounds.items()
            if name in summary and not low <= summary[name] <= high
        ]
        counted, integrated = summary.get("energy_j", 0.0), summary.get("energy_j by power", 0.0)
        if (
            counted
            and integrated
            and summary["window_s"] >= 1
            and not 0.5 <= counted / integrated <= 2
        ):
            wrong.append(f"energy is {counted:.0f} J by the counter, {integrated:.0f} J by power")
        return wrong
