"""`rnnsweep ui`: MLflow's server starts, and ends with the command."""

from __future__ import annotations

import contextlib
import signal
import socket

import pytest

from tests.integration.sweeping import Home, wait_for

pytestmark = pytest.mark.full


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_its_server_ends_with_it(home: Home, number: signal.Signals) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with home.running("ui", "--port", port) as command:
        wait_for(lambda: answers(port) or not command.running, 90)
        command.send(number)
        command.wait().expect(0)
    wait_for(lambda: not answers(port), 20)


def answers(port: int) -> bool:
    """Return True if something listens on the port."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False
