"""An own model is inspected again when something that its inspection depends on has changed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.version import import_path
from orchestrator.execution.inspection_cache import remembered
from workloads.model_facts import (
    InspectionAnswer,
    InspectionRequest,
    ModelFacts,
    ModelFault,
)
from workloads.own_code import file_state

REQUEST = InspectionRequest("mine:build", ("torch/auto",), ({"units": 4},))
FOUND = ModelFacts(("loss",), None, ())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.py").write_text("def build(settings): ...\n")
    (tmp_path / "data.csv").write_text("1, 2\n")
    return tmp_path


def inspections(
    change: Callable[[], object] = lambda: None,
    *,
    second: InspectionRequest = REQUEST,
    found: ModelFacts | ModelFault = FOUND,
) -> int:
    """Ask twice, with a change between; return how often the model was inspected."""
    calls = list[str]()

    def inspect() -> InspectionAnswer:
        calls.append("inspected")
        data = str(Path("data.csv").absolute())
        state = file_state(data)
        return InspectionAnswer(found, {data: state} if state else {})

    assert remembered(REQUEST, {}, inspect).found == found
    change()
    assert remembered(second, {}, inspect).found == found
    return len(calls)


def test_the_same_model_is_inspected_once() -> None:
    assert inspections() == 1
    assert inspections() == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda: Path("mine.py").write_text("def build(settings): return 1\n"),
        lambda: Path("data.csv").write_text("1, 2, 3\n"),
        lambda: Path("data.csv").unlink(),
    ],
)
def test_changed_code_or_data_are_inspected_again(change: Callable[[], object]) -> None:
    assert inspections(change) == 2


def test_other_settings_are_inspected_too() -> None:
    other = InspectionRequest("mine:build", ("torch/auto",), ({"units": 8},))
    assert inspections(second=other) == 2


def test_a_fault_of_the_moment_is_not_kept() -> None:
    assert inspections(found=ModelFault("failed", "no memory is left")) == 2
    assert inspections(found=ModelFault("refused", "two outputs")) == 1


def test_files_that_python_reads_are_noted_and_its_own_are_not(folder: Path) -> None:
    program = (
        "from workloads.diagnostics.opened_files import OpenedFiles; opened = OpenedFiles();"
        "open('data.csv').close(); open('new.txt', 'w').close(); import json;"
        "print(json.dumps(dict(opened.states())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **import_path(os.environ)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(folder / "data.csv") in done.stdout
    assert "new.txt" not in done.stdout and ".py" not in done.stdout
