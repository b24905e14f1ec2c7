"""Secrets of the environment, an address, a spec and code: in no file, command or output."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from tests.commands import wait_for
from tests.integration.sweeping import new_home

MARK = "PLANTED"
ENVIRON = {
    "AWS_ACCESS_KEY_ID": "PLANTED-AWS-id",
    "AWS_SECRET_ACCESS_KEY": "PLANTED-AWS-key",
    "AWS_SESSION_TOKEN": "PLANTED-AWS-token",
    "MY_API_TOKEN": "PLANTED-in-the-environment",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


@pytest.mark.full
def test_secrets_are_found_nowhere(server: tuple[str, Path], tmp_path: Path) -> None:
    home, (address, stored) = new_home(tmp_path), server
    uri = address.replace("//", "//me:PLANTED-in-the-address@")
    spec = home.spec("secretive", implementations=["python/waits"], configs=1)
    spec.write_text(f"{spec.read_text()}# PLANTED-in-the-spec\n")
    with tempfile.TemporaryDirectory(prefix="s-") as temporary:  # Ray's, with a short path
        environ = {**ENVIRON, "TMPDIR": temporary, "MLFLOW_TRACKING_URI": uri}
        places = (home.path, stored, Path(temporary))
        with home.running("run", spec, **environ) as command:
            wait_for(lambda: home.waiting.exists() or not command.running)
            assert command.running, command.done()
            commands = [" ".join(process.info["cmdline"]) for process in home.processes()]
            assert any("ray::" in words for words in commands) and MARK not in str(commands)
            names = expect_no_secret(*places)
            assert {"journal.jsonl", "recorder.log", "mlflow.db", "raylet.out"} <= names
            home.gate.touch()
            printed = [command.done().expect(0)]
        printed.append(home.run("report", "secretive", **environ).expect())
        environ["MLFLOW_TRACKING_URI"] = "http://me:PLANTED@127.0.0.1:9"  # nobody listens
        away = (("run", spec), ("hardware", "--address", "127.0.0.1:1"))
        printed += [home.run(*words, **environ).expect(3) for words in away]
        assert MARK not in str(printed)
        expect_no_secret(*places)
    home.expect_nothing_running()


def expect_no_secret(*places: Path) -> set[str]:
    """Return the names of the files that were searched."""
    names = set[str]()
    for place in places:
        for folder, _, files in os.walk(place):
            for path in (Path(folder, name) for name in files):
                with contextlib.suppress(FileNotFoundError):  # Ray removes some
                    if path.is_file():
                        assert MARK.encode() not in path.read_bytes(), path
                        names.add(path.name)
    return names
