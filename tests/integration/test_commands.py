"""Commands that run no trial: quick, light, and with results on stdout only."""

import shlex
import signal
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from tests.commands import Command, python, wait_for
from tests.integration.sweeping import COMMAND, ROOT, Home, free_port, listens

HEAVY = {
    "ray",
    "mlflow",
    "tensorflow",
    "keras",
    "torch",
    "jax",
    "optuna",
    "numpy",
    "pandas",
    "sklearn",
}
HELP = """
import sys
import orchestrator.spec, rnnsweep
from orchestrator.cli.main import main
from workloads.registry import find_workload
rnnsweep.run_sweep, rnnsweep.Context, find_workload("image_rows").data_digest({})
for command in ([], *([name] for name in main.commands)):
    main([*command, "--help"], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


def test_help_specs_and_the_interface_import_nothing_heavy() -> None:
    done = python("-c", HELP, cwd=ROOT).expect()
    assert done.out.count("Usage:") == done.out.count("Examples:") + 1 == len(main.commands) + 1
    assert not HEAVY & set(done.err.split())


def test_a_pipe_whose_reader_has_seen_enough(tmp_path: Path) -> None:
    pipe = ["bash", "-o", "pipefail", "-c", f"{shlex.quote(str(COMMAND))} hardware | head -1"]
    assert Command(pipe, Home(tmp_path).environ()).done().expect().err == ""


@pytest.mark.full
def test_the_server_of_ui_ends_with_it(home: Home) -> None:
    port = free_port()
    with home.running("ui", "--port", port) as command:
        wait_for(lambda: listens(port) or not command.running)
        command.send_signal(signal.SIGTERM)
        command.done().expect(0)
    wait_for(lambda: not listens(port))
