"""What other processes take of a machine's CPUs now, observed for a moment.

A start says so in one line, and reports call times that are measured then *busy*. The processes of
this command itself do not count, nor those that it has started.
"""

import contextlib
import math
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from orchestrator.core.text import joined

LOOK_S = 2.0
"""How long a look takes; the kernel counts CPU time in steps of 10 ms."""

ANOTHER_RNNSWEEP = "another rnnsweep"
"""The name of all processes of other sweeps: drivers, Ray workers and trainers."""

_SHORT_LIVED = "short-lived processes"
"""The name of all processes that ended between two looks, such as a compiler's."""

_OF_RNNSWEEP = ("rnnsweep", "orchestrator", "workloads")
"""The packages that processes of rnnsweep run with `python -m`."""

_RAY = "ray::"
"""The beginning of the names of Ray's processes; which code they run is not in the name."""

_INTERPRETERS = ("python", "node", "Rscript", "perl", "ruby")

_LEAST_PCT = 1.0
"""Processes that take less of the CPUs than this are not listed."""


@dataclass(frozen=True, slots=True)
class OtherProcesses:
    """What others took, in percent of the CPUs that this process may use.

    `others_pct` includes `host_pct`, the time that the machine's host kept for itself. `processes`
    has the shares by name, the largest first; all processes of a name count together.
    """

    others_pct: float
    host_pct: float
    processes: Mapping[str, float]

    def is_busy(self, limit_pct: float) -> bool:
        """Return whether times measured beside it would count as disturbed."""
        return self.others_pct > limit_pct

    def __str__(self) -> str:
        """Return `firefox and 2 more take 74 % of the CPUs`.

        The largest share is named, and another rnnsweep is always named.
        """
        shares = dict(self.processes)
        if self.host_pct >= _LEAST_PCT:
            shares["the machine's host"] = self.host_pct
        largest = max(shares, key=lambda name: shares[name], default="other processes")
        named = [largest]
        if ANOTHER_RNNSWEEP in shares and largest != ANOTHER_RNNSWEEP:
            named.append(ANOTHER_RNNSWEEP)
        if len(shares) > len(named):
            named.append(f"{len(shares) - len(named)} more")
        is_one = len(shares) == 1 and _SHORT_LIVED not in shares
        verb = "takes" if is_one else "take"
        return f"{joined(named)} {verb} {self.others_pct:.0f} % of the CPUs"


@dataclass(frozen=True, slots=True)
class ProcessAddress:
    """A process of a machine."""

    hostname: str
    pid: int

    @classmethod
    def of_this_process(cls) -> "ProcessAddress":
        """Return the address of this process."""
        return cls(socket.gethostname(), os.getpid())


def observe_other_processes(driver: ProcessAddress | None = None) -> OtherProcesses | None:
    """Look for `LOOK_S` seconds; None if the operating system does not tell.

    `driver` is the process that runs the sweep. On its own machine neither it nor what it has
    started counts.
    """
    own = {os.getpid()}
    if driver is not None and driver.hostname == socket.gethostname():
        own.add(driver.pid)
    try:
        before = _Snapshot.take()
        time.sleep(LOOK_S)
        return before.until(_Snapshot.take(), own)
    except (OSError, psutil.Error, IndexError, RuntimeError):
        return None


class Look:
    """A look at the machine in a thread, while this process does something else."""

    def __init__(self) -> None:
        self._seen: OtherProcesses | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="look")
        self._thread.start()

    def result(self) -> OtherProcesses | None:
        """Return what was seen, once the look is over."""
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        self._seen = observe_other_processes()


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    parent: int
    cpu_s: float
    ended_children_s: float


def _name(process: psutil.Process) -> str:
    """Return a process's name; of an interpreter with what it runs: `python pytest`."""
    name = process.name()
    if name == "rnnsweep":
        return ANOTHER_RNNSWEEP
    if not name.startswith(_INTERPRETERS):
        return name
    words = process.cmdline()[1:]
    if "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        is_of_rnnsweep = module.partition(".")[0] in _OF_RNNSWEEP
        return ANOTHER_RNNSWEEP if is_of_rnnsweep else f"{name} {module}"
    if "-c" in words:
        return name
    scripts = (word for word in words if not word.startswith("-"))
    script = Path(next(scripts, "")).name
    return ANOTHER_RNNSWEEP if script == "rnnsweep" else f"{name} {script}".strip()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """CPU seconds so far: of all CPUs, and of each process."""

    busy_s: float
    total_s: float
    steal_s: float
    processes: Mapping[tuple[int, float], _Process]
    """By process id and time of creation: the kernel uses an id again."""

    @classmethod
    def take(cls) -> "_Snapshot":
        """Read all processes: some milliseconds for a hundred of them."""
        processes = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError), process.oneshot():
                used = process.cpu_times()
                processes[process.pid, process.create_time()] = _Process(
                    _name(process),
                    process.ppid(),
                    used.user + used.system,
                    used.children_user + used.children_system,
                )
        with_trainers = {p.parent for p in processes.values() if p.name == ANOTHER_RNNSWEEP}
        for key, one in processes.items():
            if key[0] in with_trainers and one.name.startswith(_RAY):
                processes[key] = replace(one, name=ANOTHER_RNNSWEEP)
        usable = os.sched_getaffinity(0)
        times = [t for cpu, t in enumerate(psutil.cpu_times(percpu=True)) if cpu in usable]
        busy_s = sum(t.user + t.nice + t.system + t.irq + t.softirq for t in times)
        steal_s = sum(t.steal for t in times)
        total_s = busy_s + steal_s + sum(t.idle + t.iowait for t in times)
        return cls(busy_s, total_s, steal_s, processes)

    def until(self, later: "_Snapshot", own_roots: Collection[int]) -> OtherProcesses | None:
        """Return what others than these processes and their children took between two snapshots."""
        total_s = later.total_s - self.total_s
        if total_s <= 0:
            return None
        own = later.family(own_roots)
        own_s, by_name = 0.0, defaultdict[str, float](float)
        for key, process in later.processes.items():
            before = self.processes.get(key)
            used_s = process.cpu_s - (before.cpu_s if before else 0.0)
            if key[0] in own:
                ended_s = process.ended_children_s - (before.ended_children_s if before else 0.0)
                own_s += used_s + max(0.0, ended_s)
            else:
                by_name[process.name] += used_s
        was_own = self.family(own_roots)
        for key, process in self.processes.items():
            if key not in later.processes and key[0] in was_own:
                own_s -= process.cpu_s  # its parent's count has all of it now
        host_s = max(0.0, later.steal_s - self.steal_s)
        others_s = max(0.0, later.busy_s - self.busy_s - own_s) + host_s
        by_name[_SHORT_LIVED] = others_s - host_s - math.fsum(by_name.values())
        shares = {name: 100 * used_s / total_s for name, used_s in by_name.items()}
        in_order = sorted(shares.items(), key=lambda item: -item[1])
        return OtherProcesses(
            min(100.0, 100 * others_s / total_s),
            100 * host_s / total_s,
            {name: share for name, share in in_order if share >= _LEAST_PCT},
        )

    def family(self, roots: Collection[int]) -> set[int]:
        """Return the ids of these processes and of all that they have started."""
        children = defaultdict[int, list[int]](list)
        for (pid, _), process in self.processes.items():
            children[process.parent].append(pid)
        own, added = set[int](), [*roots]
        while added:
            pid = added.pop()
            if pid not in own:
                own.add(pid)
                added += children[pid]
        return own
