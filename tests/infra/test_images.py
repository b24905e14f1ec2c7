"""The Dockerfiles: copied files exist, versions come from the lock, no secret is included."""

import re
import shutil
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.commands import python
from tests.infra.files import INFRA, ROOT

IMAGES = INFRA / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))


def instructions(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (name, arguments)
        for name, _, arguments in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def copied_paths(path: Path) -> list[str]:
    copies = [arguments.split() for name, arguments in instructions(path) if name == "COPY"]
    return [source for copy in copies for source in copy[:-1]]


def included_patterns(dockerfile: Path) -> list[str]:
    lines = dockerfile.with_name(f"{dockerfile.name}.dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*", "everything else is excluded"
    return [line[1:] for line in patterns if line.startswith("!")]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
class TestDockerfile:
    def test_copies_existing_files_that_dockerignore_includes(self, path: Path) -> None:
        assert copied_paths(path)
        for source in copied_paths(path):
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, pattern) for pattern in included_patterns(path)), source
        assert set(included_patterns(path)) == set(copied_paths(path))

    def test_starts_from_python_3_11_and_does_not_run_as_root(self, path: Path) -> None:
        stages = re.findall(r"^FROM \S+ AS (\w+)$", path.read_text(), re.MULTILINE)
        bases = {rest.split()[0] for name, rest in instructions(path) if name == "FROM"}
        assert bases - set(stages) == {"python:3.11-slim"}
        for stage in path.read_text().split("\nFROM ")[1:]:
            if "pip install" in stage:
                assert re.search(r"^USER (?!root)", stage, re.MULTILINE)


@pytest.mark.full
def test_rnnsweep_can_be_built_from_the_copied_files(tmp_path: Path) -> None:
    for source in copied_paths(IMAGES / "node.Dockerfile"):
        here, there = ROOT / source, tmp_path / source
        if here.is_dir():
            shutil.copytree(here, there, dirs_exist_ok=True)
        else:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)
    wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "."]
    python(*wheel, cwd=tmp_path).expect()
    (wheel_path,) = tmp_path.glob("rnnsweep-*.whl")
    names = {"orchestrator/cli/main.py", "workloads/__main__.py", "rnnsweep/__init__.py"}
    names |= {f"orchestrator/sweeps/{path.name}" for path in (ROOT / "sweeps").glob("*.*")}
    names |= {"orchestrator/spec/spec.schema.json", "orchestrator/cli/progress.schema.json"}
    assert names <= set(zipfile.ZipFile(wheel_path).namelist())
