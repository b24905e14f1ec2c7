"""Random faults from a seed; a failed test shows the command that repeats it."""

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.building.stores import build_home, mlflow_address
from tests.building.trials import build_full_trial
from tests.commands import Command, wait_for
from tests.integration.conftest import address, joining, ray_token
from tests.integration.sweeping import free_port, listens
from tests.orchestrator.cli.conftest import home, run
from tests.orchestrator.conftest import trainers
from tests.orchestrator.storage.tracking.recording import record
from tests.ordinary_user import ordinary_user, other_user, own_folder
from tests.profiles import IN_CI

__all__ = [
    "address",
    "faults",
    "home",
    "joining",
    "ordinary_user",
    "other_user",
    "own_folder",
    "ray_token",
    "run",
    "trainers",
]

SCALE = float(os.environ.get("RNNSWEEP_FAULT_SCALE", "1"))
"""How many times the usual number of faults: `make soak` sets it."""

_KILLS = "SIGKILLs"

Faults = Callable[[int, int], tuple[random.Random, int]]


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Faults:
    """Return a generator of random numbers, and how many faults to draw, here or in CI."""
    drawn_seed = random.SystemRandom().randrange(10**6)
    seed = int(os.environ.get("RNNSWEEP_FAULT_SEED") or drawn_seed)
    variables = f"RNNSWEEP_FAULT_SEED={seed} RNNSWEEP_FAULT_SCALE={SCALE:g}"
    variables += " RNNSWEEP_TEST_ALL=1" if IN_CI else ""
    command = f"{variables} python -m pytest '{request.node.nodeid}'"
    request.node.add_report_section("call", "command to repeat it", command)

    def drawn(here: int, in_ci: int) -> tuple[random.Random, int]:
        return random.Random(seed), max(1, round((in_ci if IN_CI else here) * SCALE))

    return drawn


@pytest.fixture
def kills(record_property: Callable[[str, object], None]) -> list[str]:
    """Return a list for what this test kills (SIGKILL); the end of the run counts all of it."""
    victims = list[str]()
    record_property(_KILLS, victims)  # read when the test has ended
    return victims


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total = Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == _KILLS:
                    total.update(value)
    if total:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(total.items()))
        terminalreporter.write_line(f"{total.total()} SIGKILLs: {kinds}")


@pytest.fixture
def store(home: Path) -> Path:
    """Return a home whose store has a sweep."""
    record(build_home(home.parent), build_full_trial(0), build_full_trial(1))
    return home


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the address of an MLflow server, and the folder of all that it stores."""
    folder, port = build_home(tmp_path_factory.mktemp("server")), free_port()
    words = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", port]
    words += ["--backend-store-uri", mlflow_address(folder)]
    words += ["--artifacts-destination", folder / "artifacts"]
    environ = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with Command(words, environ) as command:
        try:
            wait_for(lambda: listens(port) or not command.running, describe=command.printed)
            assert command.running, command.printed()
            yield f"http://127.0.0.1:{port}", folder
        finally:
            os.killpg(command.pid, signal.SIGTERM)
