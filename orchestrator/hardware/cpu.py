"""The model of a node's CPUs, by `/proc/cpuinfo`, and by `lscpu` where the kernel has none."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

CpuFields = Mapping[str, str]


def read_fields(root: Path) -> CpuFields:
    """Return the fields of the first processor in `/proc/cpuinfo`."""
    fields: dict[str, str] = {}
    for line in (text_of(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if value.strip():
            fields.setdefault(key.strip(), " ".join(value.split()))
    return fields


def cpu_model(fields: CpuFields) -> str | None:
    """Return `AMD EPYC 9654 96-Core Processor` or `Neoverse-V1`; None where it is not known."""
    return fields.get("model name") or _model_by_lscpu() or cpu_part(fields)


def cpu_part(fields: CpuFields) -> str | None:
    """Return `ARM 0x41 0xd40`, implementer and part; None where the kernel names the model."""
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if "model name" in fields or implementer is None or part is None:
        return None
    return f"ARM {implementer.lower()} {part.lower()}"


def _model_by_lscpu() -> str | None:
    """Return the first model that `lscpu` lists; None where it is not installed."""
    environ = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=True, timeout=10, env=environ
        )
    except (OSError, subprocess.SubprocessError):
        return None
    for line in done.stdout.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Model name" and value.strip(" -"):
            return " ".join(value.split())
    return None


def text_of(file: Path) -> str | None:
    """Return the text of a file, stripped; None where it is unreadable or empty."""
    try:
        return file.read_text(errors="replace").strip() or None
    except OSError:
        return None
