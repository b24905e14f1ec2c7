"""What a benchmark ran on, and how its result is kept: for a person and for a script."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from orchestrator import __version__
from orchestrator.hardware import probe


def told(*packages: str) -> dict[str, str]:
    """Hardware, versions and date; how busy the machine was, so to be asked before work begins.

    Args:
        packages: those whose versions matter, by the names that they are installed by.
    """
    node = probe()
    gpus = Counter(gpu.name for gpu in node.gpus)
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": node.cpu_model,
        "cpus": str(node.cpus),
        "memory": f"{node.memory_mib / 1024:.0f} GiB",
        "gpus": ", ".join(f"{count} × {name}" for name, count in gpus.items()),
        "driver": node.driver or "",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": node.system,
        "python": node.python,
        "rnnsweep": __version__,
        **{package: version(package) for package in packages},
    }
    return {name: value for name, value in found.items() if value}


def heading(environment: Mapping[str, str]) -> str:
    """It in one line."""
    return ", ".join(f"{name} {value}" for name, value in environment.items())


def keep(folder: Path, name: str, found: Mapping[str, object], text: str) -> None:
    """Write NAME.json and NAME.txt into a folder, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json = json.dumps(found, indent=2, ensure_ascii=False)
    (folder / f"{name}.json").write_text(f"{as_json}\n", encoding="utf-8")
    (folder / f"{name}.txt").write_text(f"{text.rstrip()}\n", encoding="utf-8")
