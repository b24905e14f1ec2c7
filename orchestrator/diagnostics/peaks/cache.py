"""Measured peaks, stored in the sweep home (`peaks.json`) by hardware class and versions."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator.hardware import HardwareClass, NodeProfile
from orchestrator.hardware.peak import Peak
from workloads.protocol import Device

FILE_NAME = "peaks.json"
_VERSION = 2
"""The version of the file."""
METHOD = "1"
"""The version of the method of `workloads.measuring.roofline`; a change of it changes this."""

_PEAKS = TypeAdapter(list[Peak])
_COMPANIONS: Mapping[str, Sequence[str]] = {"jax": ("jaxlib",)}
_OF_GPUS = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")


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
        if peak.hardware == hardware.id and _is_valid(peak, hardware)
    )


def store_peaks(home: Path, peaks: Sequence[Peak]) -> None:
    """Add peaks to the stored ones, and replace those of the same versions.

    Raises:
        OSError: the home cannot be written.
    """
    home.mkdir(parents=True, exist_ok=True)
    new = {_key(peak): peak for peak in (*_read(home / FILE_NAME), *peaks)}
    body = {
        "format": "rnnsweep-peaks",
        "version": _VERSION,
        "peaks": [dataclasses.asdict(peak) for peak in new.values()],
    }
    descriptor, name = tempfile.mkstemp(dir=home, prefix=f".{FILE_NAME}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(body, file, indent=2)
        Path(name).replace(home / FILE_NAME)  # atomic, for a process that reads it just now
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _read(file: Path) -> list[Peak]:
    """Return the peaks in the file, or none if it is absent or invalid: it can be made again."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body.get("version") != _VERSION:
            return []
        return _PEAKS.validate_python(body["peaks"])
    except (OSError, ValueError, AttributeError, KeyError, TypeError, ValidationError):
        return []


def _is_valid(peak: Peak, hardware: HardwareClass) -> bool:
    """Return whether it was measured with the versions of a node of the class."""
    return any(
        versions(node.profile, peak.backend, hardware.device).items() <= peak.versions.items()
        for node in hardware.nodes
    )


def _key(peak: Peak) -> tuple[str, ...]:
    return (
        peak.hardware,
        peak.backend,
        peak.precision,
        *(f"{name}={version}" for name, version in sorted(peak.versions.items())),
    )
