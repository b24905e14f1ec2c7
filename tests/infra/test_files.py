"""All files of `infra/`: no secrets, READMEs that name them, commands that exist."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.main import main as rnnsweep
from tests.commands import python
from tests.infra.files import CLUSTERS, INFRA, document, documents

FILES = sorted(
    path for folder in CLUSTERS for path in (INFRA / folder).rglob("*") if path.is_file()
)
SECRET = r"\w*(?:TOKEN|PASSWORD|SECRET|USERNAME)\w*"
LIST_OPTIONS = """
import json
from ray.scripts.scripts import cli
print("commands:", json.dumps({
    name: [option for parameter in command.params for option in parameter.opts]
    for name, command in cli.commands.items()
}))
"""

Commands = dict[str, set[str]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_holds_a_secret(path: Path) -> None:
    text = path.read_text()
    if path.name != "README.md":
        values = re.findall(rf"(?<![\w{{]){SECRET}[\"']?[ ]*[:=][ ]*([^\s$*].*)", text)
        assert [value for value in values if not re.match(r"&\w+ \$", value)] == []
        variables = re.findall(rf"name: {SECRET}\s+(\w+)", text)  # of Kubernetes
        assert set(variables) <= {"valueFrom"}
        assert "kind: Secret" not in text


@functools.cache
def existing_commands() -> dict[str, Commands]:
    ray = json.loads(python("-c", LIST_OPTIONS).expect().out.partition("commands: ")[2])
    ours: Commands = {}
    for name, command in rnnsweep.commands.items():
        assert isinstance(command, click.Command)
        ours[name] = {option for parameter in command.params for option in parameter.opts}
    return {"ray": {name: set(options) for name, options in ray.items()}, "rnnsweep": ours}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from strings(child)


def commands(path: Path) -> Iterator[str]:
    """Yield the parts of a file that may contain commands, one line each."""
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    if path.suffix == ".yaml":
        yield from strings(documents(path))
    elif path.suffix == ".md":
        yield from (line.strip() for line in text.splitlines() if line.startswith("    "))
        yield from re.findall(r"`([^`]+)`", text)
    elif path.suffix in (".sbatch", ".Dockerfile"):
        yield from (line for line in text.splitlines() if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_of_ray_and_rnnsweep_exists_with_its_options(path: Path) -> None:
    program = re.compile(r"(?:^|[\s/])(?<!--namespace )(ray|rnnsweep) ([a-z][a-z-]*)(?=\s|$)(.*)")
    for text in commands(path):
        for use in filter(None, map(program.search, re.split(r"[;&|]|(?= # )", text))):
            existing = existing_commands()[use[1]]
            assert use[2] in existing, use[0]
            assert set(re.findall(r"\s(--[\w-]+)", use[3])) <= existing[use[2]], use[0]


def test_kuberays_start_parameters_are_options_of_ray_start() -> None:
    spec = document(INFRA / "kubernetes/cluster/raycluster.yaml")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        options = {f"--{name}" for name in group["rayStartParams"]}
        assert options <= existing_commands()["ray"]["start"]
