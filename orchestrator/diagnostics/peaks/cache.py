"""Measured peaks, kept in the sweep home (`peaks.json`) by hardware class and versions."""

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
"""Of the file."""
METHOD = "1"
"""Of `workloads.measuring.roofline`: a change of how it measures changes this number."""

_PEAKS = TypeAdapter(list[Peak])
_BESIDE: Mapping[str, Sequence[str]] = {"jax": ("jaxlib",)}
_OF_GPUS = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")


def versions(profile: NodeProfile, backend: str, device: Device) -> dict[str, str]:
    """What a peak depends on and a node tells without a trainer: it is kept under these."""
    names = [backend, "keras", *_BESIDE.get(backend, ())]
    found = {"method": METHOD}
    if device == "gpu":
        names += _OF_GPUS
        found["driver"] = profile.driver or "untold"
    return found | {name: profile.packages[name] for name in names if name in profile.packages}


def kept(home: Path, classes: Iterable[HardwareClass]) -> tuple[Peak, ...]:
    """The peaks that were measured for these classes, with the versions that their nodes have."""
    read = _read(home / FILE_NAME)
    found: list[Peak] = []
    for each in classes:
        for peak in read:
            if peak.hardware == each.id and _holds(peak, each):
                found.append(peak)
    return tuple(found)


def keep(home: Path, peaks: Sequence[Peak]) -> None:
    """Keep peaks beside those that are there, in the place of those that they repeat.

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
        Path(name).replace(home / FILE_NAME)  # whole, for whoever reads it just now
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _read(file: Path) -> list[Peak]:
    """What the file holds; nothing where it is absent or of another kind: it can be made again."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body.get("version") != _VERSION:
            return []
        return _PEAKS.validate_python(body["peaks"])
    except (OSError, ValueError, AttributeError, KeyError, TypeError, ValidationError):
        return []


def _holds(peak: Peak, hardware: HardwareClass) -> bool:
    """Whether it was measured with the versions that a node of the class has."""
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
