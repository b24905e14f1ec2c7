"""What other processes take of a machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.hardware import Look, OtherWork, other_work
from tests.commands import wait_for

BURN = "import time; end = time.monotonic() + 300\nwhile time.monotonic() < end: pass"
QUIET = OtherWork(3.0, 0.0, {})


def work(others_pct: float, **processes: float) -> OtherWork:
    return OtherWork(others_pct, 0.0, processes)


@contextmanager
def burning(name: Path, *, own: bool) -> Iterator[None]:
    """Keep a core busy with a process of this name: a child, or one whose parent has ended."""
    name.symlink_to(sys.executable)
    pid_file = name.with_suffix(".pid")
    command = [str(name), "-c", f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid()))"]
    command[-1] += f"\n{BURN}"
    if own:
        process = subprocess.Popen(command)
    else:
        process = subprocess.Popen(["sh", "-c", '"$@" &', "sh", *command])
        process.wait()
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    try:
        yield
    finally:
        if own:
            process.kill()
            process.wait()
        else:
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_processes_of_others_count_and_those_that_this_one_has_started_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_work, "LOOK_S", 0.5)
    monkeypatch.setattr(other_work, "_SHOWN", 1_000)  # whatever else runs on the machine of tests
    with burning(tmp_path / "mine", own=True), burning(tmp_path / "foreign", own=False):
        seen = Look().result()
    assert seen is not None
    assert "mine" not in seen.processes
    assert 0 < seen.processes["foreign"] <= seen.others_pct + 1
    assert "foreign" in str(seen)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/cc1plus", "-O2", "main.cc"], "cc1plus"),
        (["/usr/bin/python3", "-X", "dev", "-m", "pytest", "tests"], "python3 pytest"),
        (["/usr/bin/python3", "-u", "/home/anna/train.py", "--epochs=3"], "python3 train.py"),
        (["/usr/bin/python3", "-c", "import this"], "python3"),
    ],
)
def test_an_interpreter_is_named_with_what_it_runs(command: list[str], name: str) -> None:
    process = mock.Mock(cmdline=lambda: command)
    process.name = lambda: Path(command[0]).name
    assert other_work._name(process) == name
