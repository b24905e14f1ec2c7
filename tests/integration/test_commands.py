"""Commands that run no trial: quick, light, and with results on stdout only."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.integration.sweeping import COMMAND, ROOT, Home, free_port, listens, wait_for

HEAVY = {"ray", "mlflow", "tensorflow", "keras", "torch", "jax", "optuna", "numpy", "pandas"}
HELP = """
import sys
import orchestrator.spec
from orchestrator.cli.main import main
for command in ([], *([name] for name in main.commands)):
    main([*command, "--help"], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    command = [sys.executable, "-c", HELP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.count("Usage:") == 18
    assert not HEAVY & set(done.stderr.split())


def test_a_pipe_whose_reader_has_seen_enough(bare: Home) -> None:
    pipe = ["bash", "-o", "pipefail", "-c", f"{shlex.quote(str(COMMAND))} workloads | head -1"]
    done = subprocess.run(pipe, capture_output=True, text=True, check=False, env=bare.environ())
    assert (done.returncode, done.stderr) == (0, "")


def test_arms_that_cannot_run_are_refused(home: Home) -> None:
    spec = home.spec("nowhere", implementations=["python/a"], hardware=["NVIDIA Imaginary"])
    home.run("run", spec).refused("no arm can run here", "Imaginary")
    assert home.journal("nowhere") == []


@pytest.mark.full
def test_a_store_or_a_cluster_that_does_not_answer_is_refused(home: Home) -> None:
    spec, began_s = home.spec("unrecorded"), time.monotonic()
    nobody = "http://127.0.0.1:9"
    home.run("run", spec, MLFLOW_TRACKING_URI=nobody).refused(nobody, "MLFLOW_TRACKING_URI")
    home.run("hardware", "--address", "nonsense").refused("nonsense")
    home.run("hardware", "--address", "127.0.0.1:1").refused("127.0.0.1:1")
    assert time.monotonic() - began_s < 150
    assert home.journal("unrecorded") == []


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_server_of_ui_ends_with_it(home: Home, number: signal.Signals) -> None:
    port = free_port()
    with home.running("ui", "--port", port) as command:
        wait_for(lambda: listens(port) or not command.running, 90)
        command.send_signal(number)
        command.done().expect(0)
    wait_for(lambda: not listens(port), 20)
