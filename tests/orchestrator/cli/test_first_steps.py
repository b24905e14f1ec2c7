"""`rnnsweep init` and `doctor`, shipped sweeps, the examples of every `--help`, completion."""

import importlib
import json
import shlex
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.shell_completion import BashComplete

from orchestrator.cli.init import TEMPLATES
from orchestrator.cli.main import GROUPS, main
from orchestrator.cli.options import start_command
from orchestrator.cluster import connection
from orchestrator.core.shipped_sweeps import shipped_sweeps
from orchestrator.diagnostics import doctor
from orchestrator.execution.trainer_answers import TrainerAnswer
from tests.building.hardware import build_node
from tests.building.specs import build_spec_text
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.spec.example_specs import VALIDATOR
from workloads.backends.registry import backends
from workloads.context import Context
from workloads.implementations import parse_implementation
from workloads.protocol import KernelProof

NOBODY = "http://127.0.0.1:9"
EXAMPLES = [line for group in GROUPS.values() for command in group for line in command.examples]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_can_be_planned_where_it_was_written(
    run: Run, home: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("init", "new folder", "--template", template)
    name = f"{template.replace('-', '_')}.yaml"
    assert code == 0 and "cd 'new folder'" in out.splitlines() and f"plan {name}" in out
    commands = [line for line in out.splitlines() if line.startswith("rnnsweep ")]
    assert {"--address" in command for command in commands} == {template == "cluster"}
    monkeypatch.chdir("new folder")
    text = Path(name).read_text()
    schema = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert json.loads(Path(schema).read_text()) == VALIDATOR.schema
    assert run("plan", name)[0] == 0 and not home.exists()
    code, _, err = run("init", "--template", template)
    assert code == 2 and name in err and Path(name).read_text() == text


def test_a_shipped_sweep_is_planned_by_its_name_unless_a_file_has_it(run: Run) -> None:
    for name in ("own-model", "own_model"):  # whose code is next to the shipped spec
        assert "sweep own-model: " in run("plan", name)[1]
    Path("own-model").write_text(build_spec_text())
    assert "sweep mine: " in run("plan", "own-model")[1]


def test_the_start_of_a_shipped_sweep_is_kept_by_its_name() -> None:
    assert str(start_command("run", shipped_sweeps()["quickstart"], ["seed=1"])) == (
        "rnnsweep run quickstart --set seed=1"
    )
    file = Path("sweeps/quickstart.yaml")
    assert str(start_command("run", file, ())) == "rnnsweep run sweeps/quickstart.yaml"


def test_the_own_workload_of_the_template_learns(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run("init", "--template", "own-workload")
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"units": 32, "learning_rate": 0.02, "epochs": 5, "samples": 1024}
    settings["sequence_length"] = 12
    implementation = parse_implementation("numpy/float32")
    events: list[Any] = []
    trial = Context(settings, implementation, "cpu", 1, events.append)
    metrics = importlib.import_module("own_workload").run(trial)
    assert metrics["accuracy"] > 0.8 and metrics["step_ms"] > 0
    assert [event.ran for event in events if isinstance(event, KernelProof)] == ["float32"]


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with TensorFlow alone, where Ray and backends start at once."""
    facts = {"tensorflow": "2.21.0", "keras": "3.15.1", "devices": "CPU"}
    for name in ("TIMEOUT", "MAX_RETRIES"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", "1")
    monkeypatch.setattr(doctor, "TrainerProcess", lambda *_: open(__file__))  # noqa: SIM115, PTH123
    monkeypatch.setattr(doctor, "ask_trainer", lambda *_: TrainerAnswer(facts=facts))
    monkeypatch.setattr(connection, "_start_here", lambda *_: connection.this_machine())
    for module in ("orchestrator.diagnostics.doctor", "workloads.eligibility"):
        monkeypatch.setattr(f"{module}.is_installed", "tensorflow".__eq__)


class LackingMachine(NamedTuple):
    """Changes of a good spec, a variable of the environment, and the checks that then fail.

    `left_out` is what the sweep can do without.
    """

    name: str
    changes: Any
    variable: str
    missing: list[str]
    left_out: list[str] = []  # noqa: RUF012  (never changed)


LACKING = [
    LackingMachine(name="nothing", changes={}, variable="CUDA_VISIBLE_DEVICES=-1", missing=[]),
    LackingMachine(
        name="another backend and a GPU",
        changes={
            "implementations": ["tensorflow/portable", "torch/fused"],
            "hardware": ["cpu", "gpu"],
        },
        variable="CUDA_VISIBLE_DEVICES=-1",
        missing=["torch"],
        left_out=["gpu", "torch/fused"],
    ),
    LackingMachine(
        name="a GPU for all arms",
        changes={"implementations": ["tensorflow/cudnn"], "hardware": ["cpu", "gpu"]},
        variable="CUDA_VISIBLE_DEVICES=-1",
        missing=["gpu", "tensorflow/cudnn"],
    ),
    LackingMachine(
        name="the file of the data",
        changes={"settings": {"dataset": "mnist", "data_path": "none.npz"}},
        variable="A=",
        missing=["workload"],
    ),
    LackingMachine(
        name="the tracking server",
        changes={},
        variable="MLFLOW_TRACKING_URI=http://127.0.0.1:9",
        missing=["MLflow"],
    ),
]


@pytest.mark.parametrize("case", LACKING, ids=lambda case: case.name)
@pytest.mark.usefixtures("machine")
def test_the_doctor_names_what_a_spec_lacks(
    run: Run, monkeypatch: pytest.MonkeyPatch, case: LackingMachine
) -> None:
    Path("mine.yaml").write_text(build_spec_text(**case.changes))
    monkeypatch.setenv(*case.variable.split("=", 1))
    code, out, _ = run("doctor", "--for", "mine.yaml", "--format", "json")
    body = json.loads(out)
    lacking = {
        check["name"]: check["cure"] for check in body["checks"] if check["status"] == "missing"
    }
    left_out = [check["name"] for check in body["checks"] if check["status"] == "left out"]
    assert (list(lacking), left_out) == (case.missing, case.left_out)
    assert (code, body["is_ready"]) == ((1, False) if case.missing else (0, True))
    assert lacking.get("torch", "") in ("", backends()["torch"].how_to_install)
    assert "pytorch.org" in backends()["torch"].how_to_install


@pytest.mark.usefixtures("machine")
def test_without_a_spec_other_backends_are_optional(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Namespace(free=2**30))
    code, out, _ = run("doctor")
    lines = [line.split() for line in out.splitlines() if line[:1].islower()]
    words = {name: status for status, name, *_ in lines}
    assert code == 0
    assert (words["jax"], words["tensorflow"], words["disk"]) == ("missing", "ok", "warning")
    monkeypatch.setattr("shutil.disk_usage", lambda _: Namespace(free=2**20))
    code, out, _ = run("doctor", "--format", "json")
    (disk,) = (check for check in json.loads(out)["checks"] if check["name"] == "disk")
    assert (code, disk["status"]) == (1, "missing")
    code, out, _ = run("doctor", "--address", NOBODY)
    assert code == 1 and NOBODY in out


@pytest.mark.usefixtures("machine")
def test_the_doctor_lists_the_nodes_of_a_cluster_and_compares_their_versions(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {"keras": "3.15.1", "torch": "2.13.0"}
    nodes = (
        build_node("old", 8, gpus=2, packages={"keras": "3.14.0"}),
        build_node("same", 4, cpu_model="CPU B", packages=packages),
    )
    places = [
        connection.NodeAddress(name, name, f"10.0.0.{number}")
        for number, name in enumerate(("head", "old", "same"), 1)
    ]
    monkeypatch.setattr(connection, "this_machine", lambda: (build_node("me", packages=packages),))
    monkeypatch.setattr(connection, "connect", lambda *_, **__: nullcontext(nodes))
    monkeypatch.setattr(connection, "node_addresses", lambda: places)
    code, out, _ = run("doctor", "--address", "10.0.0.1:6379", "--format", "json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 0
    statuses = [checks[name]["status"] for name in ("head", "old", "same")]
    assert statuses == ["ok", "warning", "ok"]
    assert checks["old"]["text"].splitlines() == [
        "10.0.0.2: 8 CPUs, 2 GPUs, 7.8 GiB (NVIDIA T4)",
        "hardware class CPU A, 8 CPUs; NVIDIA T4 (CPU A, 8 CPUs)",
        "Python 3.11, keras 3.14.0",
        "differs from this machine: keras 3.14.0 (here 3.15.1),"
        " torch is not installed (here 2.13.0)",
    ]


@pytest.mark.parametrize(("present", "code"), [("torch", 0), ("none", 1)])
@pytest.mark.usefixtures("machine")
def test_any_one_backend_is_enough(
    run: Run, monkeypatch: pytest.MonkeyPatch, present: str, code: int
) -> None:
    for module in ("orchestrator.diagnostics.doctor", "workloads.eligibility"):
        monkeypatch.setattr(f"{module}.is_installed", present.__eq__)
    received, out, _ = run("doctor", "--format", "json")
    checks = json.loads(out)["checks"]
    needed = {one["name"] for one in checks if one["status"] == "missing" and one["is_needed"]}
    assert needed == (set(backends()) if code else set())
    assert received == code


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_help_can_be_typed(example: str) -> None:
    _, name, *words = shlex.split(example)
    command = main.commands[name]
    command.make_context(name, words, main.make_context("rnnsweep", [name]))
    assert len(command.get_short_help_str(limit=100)) <= 68, "one line of a terminal"


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [([], "que", ["query"]), (["report"], "mi", ["mine"]), (["report"], "--ta", ["--target"])],
)
def test_a_shell_completes(
    home: Path, words: list[str], incomplete: str, expected: list[str]
) -> None:
    (home / "sweeps" / "mine").mkdir(parents=True)
    shell = BashComplete(main, {}, "rnnsweep", "_RNNSWEEP_COMPLETE")
    assert [item.value for item in shell.get_completions(words, incomplete)] == expected
