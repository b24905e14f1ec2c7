"""Other machines than this one, by their `lscpu`, `/proc` and `/sys` in `machines.yaml`."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

MACHINES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text()
)


def present(
    name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, *, has_lscpu: bool = True
) -> Path:
    machine = MACHINES[name]
    files = dict(machine.get("files", {}))
    fields = "".join(f"{key}\t: {text}\n" for key, text in machine.get("cpuinfo", {}).items())
    processors = [f"processor\t: {cpu}\n{fields}" for cpu in range(machine.get("processors", 0))]
    if processors:
        files["proc/cpuinfo"] = "\n".join(processors)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text + "\n")
    commands = folder / "commands"
    commands.mkdir(parents=True)
    if has_lscpu and "lscpu" in machine:
        lines = "".join(f"{key}:  {text}\n" for key, text in machine["lscpu"].items())
        (commands / "lscpu.txt").write_text(lines)
        script = commands / "lscpu"
        script.write_text(f"#!/bin/sh\nexec /bin/cat {commands}/lscpu.txt\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(commands))
    return folder
