"""The specs of sweeps/questions are planned, with the models that their askers wrote."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.execution import workload_check
from tests.orchestrator.cli.typed_commands import type_command
from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, expect_package, result, single_event
from workloads.model_facts import Inspection, InspectionRequest
from workloads.protocol import Artifact

FOLDER = Path(__file__).resolve().parents[2] / "sweeps" / "questions"
SPECS = sorted(FOLDER.glob("*.yaml"))


SHORT: dict[str, tuple[str, ...]] = {
    "keras_18854": ("search.space.window=[8, 9]",),
    "keras_20902": ("search.configs=[{window: 5, batch_size: 4}]",),
    "keras_22274": ("search.configs=[{window: 5, batch_size: 4}]",),
    "pytorch_140845": ("settings.steps=5", "settings.samples=64"),
    "pytorch_42094": ("settings.samples=500",),
    "pytorch_65597": ("settings.window=5",),
    "pytorch_65597_keras": ("settings.window=5",),
    "pytorch_81634": ("settings.steps=5",),
    "tf_keras_92": ("search.space.window=[4, 5]",),
}
"""Overrides that make the sequences of a spec short, by its name: building a model takes a pass."""


@pytest.fixture(scope="module")
def question_trainers() -> Iterator[dict[str, Trainer]]:
    path = os.pathsep.join((str(FOLDER), os.environ.get("PYTHONPATH", "")))
    environment = {"PYTHONPATH": path}
    with Trainer(environment=environment) as tensorflow, Trainer(environment=environment) as torch:
        configure = "tests.workloads.probes:configure"  # first: inspections would fix the threads
        result(tensorflow.ask(configure, "tensorflow/portable"))
        yield {"tensorflow": tensorflow, "torch": torch}


@pytest.mark.full
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_command_of_a_spec_is_planned(
    path: Path,
    question_trainers: dict[str, Trainer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    expect_package("torch")

    def inspect(request: InspectionRequest) -> Inspection:
        """Ask a warm process, where the command starts one for each backend."""
        backend = request.implementations[0].partition("/")[0]
        events = question_trainers[backend].ask(
            "tests.workloads.probes:answer_inspection",
            request.implementations[0],
            settings={"request": json.loads(request.to_json())},
        )
        result(events)
        return INSPECTION_ADAPTER.validate_json(single_event(events, Artifact).text)

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path))
    (command,) = re.findall(r"^#   rnnsweep run (.*)$", path.read_text(), re.MULTILINE)
    assert command == path.name
    short = [f"--set={override}" for override in SHORT[path.stem]]
    code, planned, _ = type_command(capfd, "plan", command, *short)
    assert code == 0
    assert planned.count("\n  runs ") >= 2
