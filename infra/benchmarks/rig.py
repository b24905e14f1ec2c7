"""The arguments, the environment, the sweeps and the result of a benchmark."""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from orchestrator import __version__
from orchestrator.api import run_sweep
from orchestrator.hardware import probe
from orchestrator.scheduling.sweep import RunResult
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri


def environment(*packages: str) -> dict[str, str]:
    """Return hardware, versions of packages, date and load. Call it before the work begins."""
    node = probe()
    gpus = Counter(gpu.name for gpu in node.gpus)
    facts = {
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
    return {name: value for name, value in facts.items() if value}


def run(spec: str, home: Path, address: str | None = None) -> tuple[RunResult, float]:
    # Returns the ended sweep, and the time (UNIX, s) at which its first trials were about to start.
    store = default_mlflow_uri(home, {})
    ended = run_sweep(yaml.safe_load(spec), home=home, tracking_uri=store, address=address)
    state = read(SweepFolder(home, ended.record.name).generation(ended.record.generation))
    assert state is not None
    return ended, state.sessions[-1].at_s


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON and text here")
    return parser


def figure(name: str, value: float, limit: float | None = None) -> dict[str, Any]:
    """Return a row of a table: a figure that is to be at most its limit."""
    return {"name": name, "figure": value, "limit": limit, "missed": bool(limit and value > limit)}


def table(rows: Sequence[Mapping[str, Any]], formats: Mapping[str, str]) -> str:
    """Format rows, each with a `name`, as text: the columns that `formats` lists."""
    cells = [
        ["–" if row.get(key) is None else format(row[key], form) for key, form in formats.items()]
        for row in rows
    ]
    return pd.DataFrame(cells, [row["name"] for row in rows], list(formats)).to_string()


def publish(
    folder: Path | None,
    name: str,
    environment: Mapping[str, str],
    lines: Sequence[str],
    **figures: Any,
) -> None:
    """Print a title, the environment and further lines; with a folder, write them and figures."""
    text = "\n".join([lines[0], ", ".join(map(" ".join, environment.items())), *lines[1:]])
    print(text)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        result = {"benchmark": name, "environment": environment, **figures}
        as_json = json.dumps(result, indent=2, ensure_ascii=False)
        (folder / f"{name}.json").write_text(f"{as_json}\n", encoding="utf-8")
        (folder / f"{name}.txt").write_text(f"{text.rstrip()}\n", encoding="utf-8")
