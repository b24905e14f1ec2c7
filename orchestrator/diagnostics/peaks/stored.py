"""Measured peaks, stored in the sweep home (`peaks.json`) by hardware class and versions."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.hardware import HardwareClass, NodeProfile
from workloads.protocol import Device

FILE_NAME = "peaks.json"
_VERSION = 2
"""The version of the file."""
METHOD = "1"
"""The version of the method of `workloads.measuring.roofline`; a change of it changes this."""
_QUIET = 1.5
"""Rounds of an idle device differ by less; on shared virtual cores by a third."""

_COMPANIONS: Mapping[str, Sequence[str]] = {"jax": ("jaxlib",)}
_OF_GPUS = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate per second: the median of several rounds, and the slowest and fastest of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The measured peaks of a device under one backend, in one precision.

    Args:
        hardware: id of the hardware class.
        backend: whose matrix product and copy it was.
        precision: `float32`, `tf32` or `bf16`.
        flops_per_s: of a matrix product.
        bytes_per_s: of a copy, read and written bytes counted; None with `tf32`, which is one of
            products only.
        versions: of what it may depend on: packages, driver, CUDA, cuDNN.
        node: where it was measured.
        at: when, in UTC (`2026-11-21T16:20:00Z`).
    """

    hardware: str
    backend: str
    precision: str
    flops_per_s: Rate
    bytes_per_s: Rate | None
    versions: Mapping[str, str]
    node: str
    at: str

    @property
    def is_disturbed(self) -> bool:
        """True where rounds differ so much that other work must have taken the machine."""
        rates = filter(None, (self.flops_per_s, self.bytes_per_s))
        return any(rate.high > _QUIET * rate.low for rate in rates)

    def as_json(self) -> dict[str, Any]:
        """Return the peak without its hardware class."""
        body = dataclasses.asdict(self)
        del body["hardware"]
        return body


_PEAKS = TypeAdapter(list[Peak])


def versions(profile: NodeProfile, backend: str, device: Device) -> dict[str, str]:
    """Return the versions of a node that a peak depends on: its key in the store."""
    names = [backend, "keras", *_COMPANIONS.get(backend, ())]
    by_name = {"method": METHOD}
    if device == "gpu":
        names += _OF_GPUS
        by_name["driver"] = profile.driver or "unknown"
    return by_name | {name: profile.packages[name] for name in names if name in profile.packages}


def stored_peaks(home: Path, classes: Iterable[HardwareClass]) -> tuple[Peak, ...]:
    """Return the stored peaks of these classes for the versions of their nodes."""
    stored = _read(home / FILE_NAME)
    return tuple(
        peak
        for hardware in classes
        for peak in stored
        if peak.hardware == hardware.id
        and any(
            versions(node.profile, peak.backend, hardware.device).items() <= peak.versions.items()
            for node in hardware.nodes
        )
    )


def store_peaks(home: Path, peaks: Sequence[Peak]) -> None:
    """Add peaks to the stored ones, and replace those of the same versions.

    Raises:
        OSError: the home cannot be written.
    """
    home.mkdir(parents=True, exist_ok=True)
    all_peaks = {
        (peak.hardware, peak.backend, peak.precision, *sorted(peak.versions.items())): peak
        for peak in (*_read(home / FILE_NAME), *peaks)
    }
    body = {
        "format": "rnnsweep-peaks",
        "version": _VERSION,
        "peaks": [dataclasses.asdict(peak) for peak in all_peaks.values()],
    }
    with tempfile.TemporaryDirectory(dir=home, prefix=f".{FILE_NAME}-") as scratch:
        new = Path(scratch) / FILE_NAME
        new.write_text(json.dumps(body, indent=2), encoding="utf-8")
        new.replace(home / FILE_NAME)  # atomic, for a process that reads it just now


def _read(file: Path) -> list[Peak]:
    """Return the peaks in the file, or none if it is absent or invalid: it can be made again."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body.get("version") != _VERSION:
            return []
        return _PEAKS.validate_python(body["peaks"])
    except (OSError, ValueError, AttributeError, KeyError, TypeError, ValidationError):
        return []
