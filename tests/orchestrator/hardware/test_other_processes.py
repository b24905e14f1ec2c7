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

from orchestrator.cluster.busy_nodes import StillBusy, describe_busy, wait_until_quiet
from orchestrator.hardware import (
    Look,
    OtherProcesses,
    ProcessAddress,
    observe_other_processes,
    other_processes,
)
from tests.commands import wait_for

BURN = "import time; end = time.monotonic() + 300\nwhile time.monotonic() < end: pass"
QUIET = OtherProcesses(3.0, 0.0, {})


def work(others_pct: float, **processes: float) -> OtherProcesses:
    return OtherProcesses(others_pct, 0.0, processes)


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
    monkeypatch.setattr(other_processes, "LOOK_S", 0.5)
    with burning(tmp_path / "mine", own=True), burning(tmp_path / "foreign", own=False):
        seen = Look().result()
    assert seen is not None
    assert "mine" not in seen.processes
    assert 0 < seen.processes["foreign"] <= seen.others_pct + 1


@pytest.mark.parametrize("is_here", [True, False])
def test_the_driver_of_a_sweep_does_not_count_on_its_own_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_here: bool
) -> None:
    monkeypatch.setattr(other_processes, "LOOK_S", 0.5)
    with burning(tmp_path / "foreign", own=False):
        pid = int((tmp_path / "foreign.pid").read_text())
        host = ProcessAddress.of_this_process().hostname if is_here else "another"
        seen = observe_other_processes(ProcessAddress(host, pid))
    assert seen is not None
    assert ("foreign" in seen.processes) != is_here


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/cc1plus", "-O2", "main.cc"], "cc1plus"),
        (["/usr/bin/python3", "-X", "dev", "-m", "pytest", "tests"], "python3 pytest"),
        (["/usr/bin/python3", "-u", "/home/anna/train.py", "--epochs=3"], "python3 train.py"),
        (["/usr/bin/python3", "-c", "import this"], "python3"),
        (["/usr/bin/python3", "-P", "-m", "workloads", "--path", "."], "another rnnsweep"),
        (["/usr/bin/python3", "/usr/bin/rnnsweep", "run", "mine.yaml"], "another rnnsweep"),
        (["/usr/bin/python3", "-m", "rnnsweep", "run", "mine.yaml"], "another rnnsweep"),
    ],
)
def test_a_process_is_named_by_what_it_runs(command: list[str], name: str) -> None:
    running = mock.Mock(cmdline=lambda: command)
    running.name = lambda: Path(command[0]).name
    assert other_processes._name(running) == name


def process(pid: int, parent: int, *command: str) -> mock.MagicMock:
    used = mock.Mock(user=1.0, system=0.0, children_user=0.0, children_system=0.0)
    made = mock.MagicMock(pid=pid, cmdline=lambda: [*command], cpu_times=lambda: used)
    made.name, made.ppid, made.create_time = (lambda: command[0]), (lambda: parent), (lambda: 0.0)
    return made


def test_the_ray_worker_of_a_trainer_is_named_as_the_trainer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = [
        process(10, 1, "ray::Worker.train"),
        process(11, 10, "python", "-P", "-m", "workloads"),
        process(12, 1, "ray::Worker.train"),
    ]
    monkeypatch.setattr("psutil.process_iter", lambda: processes)
    names = [one.name for one in other_processes._Snapshot.take().processes.values()]
    assert names == ["another rnnsweep", "another rnnsweep", "ray::Worker.train"]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (work(68.0, firefox=50.0, mutt=10.0, cron=8.0), "firefox and 2 more take 68 %"),
        (work(68.0, firefox=68.0), "firefox takes 68 %"),
        (work(40.0), "other processes take 40 %"),
        (OtherProcesses(40.0, 25.0, {"cron": 15.0}), "the machine's host and 1 more take 40 %"),
        (
            OtherProcesses(68.0, 0.0, {"firefox": 40.0, "cron": 20.0, "another rnnsweep": 8.0}),
            "firefox, another rnnsweep and 1 more take 68 %",
        ),
        (OtherProcesses(98.0, 0.0, {"another rnnsweep": 98.0}), "another rnnsweep takes 98 %"),
    ],
)
def test_the_largest_share_and_another_rnnsweep_are_named(seen: OtherProcesses, text: str) -> None:
    assert str(seen) == f"{text} of the CPUs"


def test_of_a_cluster_the_busiest_nodes_are_named() -> None:
    loads = {"a": 20.0, "b": 3.0, "c": 80.0, "d": 40.0, "e": 30.0}
    text = describe_busy({host: work(load, clang=load) for host, load in loads.items()}, 15.0)
    assert text is not None
    assert [word for word in text.split() if word in loads] == ["c", "d", "e"]
    assert describe_busy({"a": work(80.0), "b": work(3.0)}, 90.0) is None


class Machine:
    """A machine whose load follows a script, one entry a look, and a clock that looks advance."""

    def __init__(self, *loads: float) -> None:
        self._loads = [*loads]
        self.now_s = 0.0

    def look(self) -> dict[str, OtherProcesses]:
        self.now_s += 2.0
        load = self._loads.pop(0) if len(self._loads) > 1 else self._loads[0]
        return {"here": work(load, clang=load)}

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, wait_s: float) -> None:
        wait_until_quiet(self.look, 15.0, wait_s, clock=lambda: self.now_s, sleep=self.sleep)


def test_a_wait_ends_when_two_looks_in_a_row_find_a_quiet_machine() -> None:
    machine = Machine(80.0, 2.0, 60.0, 1.0, 1.0, 99.0)
    machine.wait(600.0)
    assert machine.now_s == 5 * 2.0 + 4 * 3.0


def test_a_wait_that_is_in_vain_says_what_it_waited_for() -> None:
    machine = Machine(80.0)
    with pytest.raises(StillBusy, match="clang takes 80 %") as gave_up:
        machine.wait(60.0)
    assert gave_up.value.is_away  # the same command may succeed later: exit code 3
    assert 60.0 <= machine.now_s < 70.0
