"""The Dockerfiles: what they copy exists, versions come from the lock, and no secret gets in."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.infra.documents import INFRA, ROOT, locked

IMAGES = INFRA / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))
INSTRUCTIONS = {"FROM", "RUN", "ENV", "ARG", "WORKDIR", "COPY", "USER", "EXPOSE", "CMD"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """Each instruction and its arguments, with continued lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (name, arguments)
        for name, _, arguments in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def copied(path: Path) -> list[str]:
    """What a Dockerfile takes from the repository."""
    return [
        source
        for name, arguments in instructions(path)
        if name == "COPY"
        for source in arguments.split()[:-1]
    ]


def taken(dockerfile: Path) -> list[str]:
    """The patterns of a `.dockerignore` that let something in."""
    lines = dockerfile.with_name(f"{dockerfile.name}.dockerignore").read_text().splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    assert kept[0] == "*", "everything else stays out"
    return [line[1:] for line in kept if line.startswith("!")]


def test_there_are_two() -> None:
    assert [path.name for path in DOCKERFILES] == ["mlflow.Dockerfile", "node.Dockerfile"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
class TestDockerfile:
    def test_is_made_of_instructions(self, path: Path) -> None:
        assert {name for name, _ in instructions(path)} <= INSTRUCTIONS
        assert instructions(path)[0][0] == "FROM"

    def test_copies_what_exists_and_is_let_into_the_build(self, path: Path) -> None:
        assert copied(path)
        for source in copied(path):
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, pattern) for pattern in taken(path)), source
        assert set(taken(path)) == set(copied(path))

    def test_starts_from_python_3_11_under_a_short_name(self, path: Path) -> None:
        stages = re.findall(r"^FROM \S+ AS (\w+)$", path.read_text(), re.MULTILINE)
        bases = {rest.split()[0] for name, rest in instructions(path) if name == "FROM"}
        assert bases - set(stages) == {"python:3.11-slim"}

    def test_does_not_run_as_root(self, path: Path) -> None:
        for stage in path.read_text().split("\nFROM ")[1:]:
            if "pip install" in stage:
                assert re.search(r"^USER (?!root)", stage, re.MULTILINE)

    def test_holds_no_secret(self, path: Path) -> None:
        assert not re.search(r"(TOKEN|PASSWORD|SECRET)\w*=", path.read_text())

    def test_installs_what_is_locked(self, path: Path) -> None:
        installed = [
            rest for name, rest in instructions(path) if name == "RUN" and "pip install" in rest
        ]
        assert installed
        for command in installed:
            assert "requirements-cluster.lock" in command or "--no-deps" in command, command


@pytest.mark.parametrize("package", ["ray", "mlflow"])
def test_the_lock_alone_says_which_version_of_ray_and_mlflow(package: str) -> None:
    assert locked(package)
    for path in (*DOCKERFILES, *IMAGES.glob("*.txt")):
        text = path.read_text()
        assert not re.search(rf"^{package}(\[\w+\])?[=<>~]", text, re.MULTILINE), path
        assert f"rayproject/{package}" not in text


def test_a_node_starts_with_a_token_only() -> None:
    environment = [rest for name, rest in instructions(IMAGES / "node.Dockerfile") if name == "ENV"]
    assert "RAY_AUTH_MODE=token" in " ".join(environment).split()


def test_rnnsweep_can_be_built_from_what_is_copied(tmp_path: Path) -> None:
    for source in copied(IMAGES / "node.Dockerfile"):
        here, there = ROOT / source, tmp_path / source
        if here.is_dir():
            shutil.copytree(here, there, dirs_exist_ok=True)
        else:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)
    wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "."]
    done = subprocess.run(
        [sys.executable, *wheel], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.glob("rnnsweep-*.whl")
    inside = zipfile.ZipFile(made).namelist()
    assert {"orchestrator/cli/main.py", "workloads/__main__.py"} <= set(inside)


def test_what_the_lock_does_not_pin_is_pinned_here() -> None:
    from_the_lock = {"mlflow[auth]", "psycopg2-binary"}
    for path in IMAGES.glob("*.txt"):
        wanted = re.findall(r"^[a-z].*$", path.read_text(), re.MULTILINE)
        assert wanted, path
        for requirement in set(wanted) - from_the_lock:
            assert re.fullmatch(r"[\w-]+==[\w.]+", requirement), requirement
