"""Commands that run no trial: quick, light, and with results on stdout only."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.sweeping import ROOT, Home, listens, wait_for

COMMANDS = ("run", "plan", "status", "report", "parity", "hardware", "workloads", "ui")
HEAVY = ("ray", "mlflow", "tensorflow", "keras", "torch", "jax", "optuna", "numpy", "pandas")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import json, sys, orchestrator.spec\n"
        "from orchestrator.cli.main import main\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    try: main(arguments)\n"
        "    except SystemExit as ended: assert not ended.code\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    arguments = [["--help"], *([command, "--help"] for command in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == 1 + len(COMMANDS)
    loaded = json.loads(done.stderr)
    assert [name for name in HEAVY if name in loaded] == []


def test_plan_runs_nothing(bare: Home) -> None:
    spec = bare.spec(
        "planned",
        workload="image_rows",
        settings={"dataset": "digits"},
        arms={"implementations": ["tensorflow/portable", "tensorflow/cudnn"]},
    )
    done = bare.run("plan", spec, "--set", "repeats=3").expect(0)
    assert "2 blocks × 1 arm × 3 repeats = 6 trials" in done.out
    assert "cannot run tensorflow/cudnn on cpu: cuDNN kernels need an NVIDIA GPU" in done.out
    assert done.err == ""
    plan = json.loads(bare.run("plan", spec, "--format", "json").expect(0).out)
    assert (plan["format"], plan["version"], plan["trials"]) == ("rnnsweep-plan", 2, 2)
    assert plan["impossible"][0]["implementation"] == "tensorflow/cudnn"
    assert not bare.path.exists()


def test_hardware_and_workloads(bare: Home) -> None:
    (hardware, *_) = json.loads(bare.run("hardware", "--format", "json").expect(0).out)["classes"]
    assert hardware["name"] in bare.run("hardware").expect(0).out
    text = bare.run("workloads").expect(0).out
    for words in ("image_rows", "epochs", "tensorflow/cudnn", "cuDNN kernels need an NVIDIA GPU"):
        assert words in text
    assert not bare.path.exists()


def test_make_and_ci_run_the_readmes_commands() -> None:
    done = subprocess.run(
        ["make", "-n", "demo", "test"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "rnnsweep run sweeps/quickstart.yaml" in done.stdout
    assert "-m pytest" in done.stdout
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_a_pipe_whose_reader_has_seen_enough(bare: Home, tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("rnnsweep")
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} workloads | head -1"],
        capture_output=True,
        text=True,
        check=False,
        env=bare.environ(),
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_its_server_ends_with_it(home: Home, number: signal.Signals) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with home.running("ui", "--port", port) as command:
        wait_for(lambda: listens(port) or not command.running, 90)
        command.send(number)
        command.wait().expect(0)
    wait_for(lambda: not listens(port), 20)
