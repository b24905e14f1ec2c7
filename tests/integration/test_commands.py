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
