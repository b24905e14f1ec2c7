"""What other processes take of a machine, and the wait until it is quiet."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.cluster.other_work import StillBusy, wait_until_quiet
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


class Machine:
    """A machine whose load follows a script, one entry a look, and a clock that looks advance."""

    def __init__(self, *loads: float) -> None:
        self._loads = [*loads]
        self.now_s = 0.0

    def look(self) -> dict[str, OtherWork]:
        self.now_s += 2.0
        load = self._loads.pop(0) if len(self._loads) > 1 else self._loads[0]
        return {"here": work(load, clang=load)}

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, wait_s: float) -> list[str]:
        told: list[str] = []
        wait_until_quiet(
            self.look, 15.0, wait_s, told.append, clock=lambda: self.now_s, sleep=self.sleep
        )
        return told


def test_a_wait_ends_when_two_looks_in_a_row_find_a_quiet_machine() -> None:
    machine = Machine(80.0, 2.0, 60.0, 1.0, 1.0, 99.0)
    told = machine.wait(600.0)
    assert [("80 %" in text, "60 %" in text) for text in told] == [(True, False), (False, True)]
    assert machine.now_s == 5 * 2.0 + 4 * 3.0


def test_a_wait_that_is_in_vain_says_what_it_waited_for() -> None:
    machine = Machine(80.0)
    with pytest.raises(StillBusy, match="clang 80 %") as gave_up:
        machine.wait(60.0)
    assert gave_up.value.is_away  # the same command may succeed later: exit code 3
    assert 60.0 <= machine.now_s < 70.0
