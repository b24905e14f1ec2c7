"""Every command of Ray and rnnsweep in `infra/` exists, with its options."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from orchestrator.cli.main import main as rnnsweep
from tests.infra.documents import INFRA, document

FILES = sorted(
    path
    for pattern in ("*.yaml", "*.sbatch", "*.md", "*.Dockerfile")
    for path in INFRA.rglob(pattern)
)
LIST_OPTIONS = """
import json
from ray.scripts.scripts import cli
print("commands:", json.dumps({
    name: [option for parameter in command.params for option in parameter.opts]
    for name, command in cli.commands.items()
}))
"""

Commands = dict[str, set[str]]


@functools.cache
def existing_commands() -> dict[str, Commands]:
    """Return the commands of both programs with their options."""
    shown = subprocess.run(
        [sys.executable, "-c", LIST_OPTIONS], capture_output=True, text=True, check=True
    ).stdout
    ray = json.loads(shown.partition("commands: ")[2])
    ours: Commands = {}
    for name, command in rnnsweep.commands.items():
        assert isinstance(command, click.Command)
        ours[name] = {option for parameter in command.params for option in parameter.opts}
    return {"ray": {name: set(options) for name, options in ray.items()}, "rnnsweep": ours}


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a YAML document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from strings(child)


def commands(path: Path) -> Iterator[str]:
    """Yield the parts of a file that may contain commands, one line each."""
    text = path.read_text()
    if path.suffix == ".yaml":
        for loaded in yaml.safe_load_all(text):
            yield from strings(loaded)
        return
    text = re.sub(r"\\\n\s*", " ", text)
    if path.suffix == ".md":
        yield from (line.strip() for line in text.splitlines() if line.startswith("    "))
        yield from re.findall(r"`([^`]+)`", text)
    else:
        yield from (line for line in text.splitlines() if not line.lstrip().startswith("#"))


def uses() -> Iterator[tuple[Path, str, str, set[str]]]:
    """Yield file, program, command and options of each use."""
    for path in FILES:
        for text in commands(path):
            for use in re.split(r"[;&|]|(?= # )", text):
                match = re.search(
                    r"(?:^|[\s/])(?<!--namespace )(ray|rnnsweep) ([a-z][a-z-]*)(?=\s|$)(.*)", use
                )
                if match:
                    yield path, match[1], match[2], set(re.findall(r"\s(--[\w-]+)", match[3]))


@pytest.mark.parametrize("program", ["ray", "rnnsweep"])
def test_every_command_exists_with_its_options(program: str) -> None:
    for path, used, command, options in uses():
        if used == program:
            assert command in existing_commands()[program], f"{path}: {program} {command}"
            assert options <= existing_commands()[program][command], f"{path}: {program} {command}"


def test_kuberays_start_parameters_are_options_of_ray_start() -> None:
    spec = document(INFRA / "kubernetes/cluster/raycluster.yaml")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        options = {f"--{name}" for name in group["rayStartParams"]}
        assert options <= existing_commands()["ray"]["start"]
