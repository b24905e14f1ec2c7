"""What other processes take of a machine's CPUs now, observed for a moment.

It is told before a sweep starts: times that are measured beside other work are provisional at best.
The processes of this command itself do not count, nor those that it has started.
"""

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_S = 2.0
"""How long a look takes; the kernel counts CPU time in steps of 10 ms."""

_SHOWN = 3
"""How many processes a text names."""

_INTERPRETERS = ("python", "node", "Rscript", "perl", "ruby")

_LEAST_PCT = 1.0
"""A process that takes less of the CPUs than this is not named."""


@dataclass(frozen=True, slots=True)
class OtherWork:
    """What others took, in percent of the CPUs that this process may use.

    `others_pct` includes `host_pct`, the time that the machine's host kept for itself. `processes`
    has the largest shares by name; all processes of a name count together.
    """

    others_pct: float
    host_pct: float
    processes: Mapping[str, float]

    def is_busy(self, limit_pct: float) -> bool:
        """Return whether times measured beside it would count as disturbed."""
        return self.others_pct > limit_pct

    def __str__(self) -> str:
        """Return `other processes use 74 % of the CPUs (cc1plus 48 %, python3 20 %)`."""
        named = [f"{name} {share:.0f} %" for name, share in self.processes.items()]
        if self.host_pct >= _LEAST_PCT:
            named.append(f"the machine's host {self.host_pct:.0f} %")
        names = f" ({', '.join(named)})" if named else ""
        return f"other processes use {self.others_pct:.0f} % of the CPUs{names}"


def observe_other_work() -> OtherWork | None:
    """Look for `LOOK_S` seconds; None if the operating system does not tell."""
    try:
        before = _Snapshot.take()
        time.sleep(LOOK_S)
        return before.until(_Snapshot.take())
    except (OSError, psutil.Error, IndexError, RuntimeError):
        return None


class Look:
    """A look at the machine in a thread, while this process does something else."""

    def __init__(self) -> None:
        self._seen: OtherWork | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="look")
        self._thread.start()

    def result(self) -> OtherWork | None:
        """Return what was seen, once the look is over."""
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        self._seen = observe_other_work()


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    parent: int
    cpu_s: float
    ended_children_s: float


def _name(process: psutil.Process) -> str:
    """Return a process's name; of an interpreter with what it runs: `python pytest`."""
    name = process.name()
    if not name.startswith(_INTERPRETERS):
        return name
    words = process.cmdline()[1:]
    if "-m" in words[:-1]:
        return f"{name} {words[words.index('-m') + 1]}"
    if "-c" in words:
        return name
    scripts = (word for word in words if not word.startswith("-"))
    return f"{name} {Path(next(scripts, '')).name}".strip()


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
        usable = os.sched_getaffinity(0)
        times = [t for cpu, t in enumerate(psutil.cpu_times(percpu=True)) if cpu in usable]
        busy_s = sum(t.user + t.nice + t.system + t.irq + t.softirq for t in times)
        steal_s = sum(t.steal for t in times)
        total_s = busy_s + steal_s + sum(t.idle + t.iowait for t in times)
        return cls(busy_s, total_s, steal_s, processes)

    def until(self, later: "_Snapshot") -> OtherWork | None:
        """Return what others took between two snapshots."""
        total_s = later.total_s - self.total_s
        if total_s <= 0:
            return None
        own = later.own_pids()
        own_s, by_name = 0.0, defaultdict[str, float](float)
        for key, process in later.processes.items():
            before = self.processes.get(key)
            used_s = process.cpu_s - (before.cpu_s if before else 0.0)
            if key[0] in own:
                ended_s = process.ended_children_s - (before.ended_children_s if before else 0.0)
                own_s += used_s + max(0.0, ended_s)
            else:
                by_name[process.name] += used_s
        was_own = self.own_pids()
        for key, process in self.processes.items():
            if key not in later.processes and key[0] in was_own:
                own_s -= process.cpu_s  # its parent's count has all of it now
        host_s = max(0.0, later.steal_s - self.steal_s)
        others_s = max(0.0, later.busy_s - self.busy_s - own_s) + host_s
        shares = {name: 100 * used_s / total_s for name, used_s in by_name.items()}
        largest = sorted(shares.items(), key=lambda item: -item[1])[:_SHOWN]
        return OtherWork(
            min(100.0, 100 * others_s / total_s),
            100 * host_s / total_s,
            {name: share for name, share in largest if share >= _LEAST_PCT},
        )

    def own_pids(self) -> set[int]:
        """Return the ids of this process and of all that it has started."""
        children = defaultdict[int, list[int]](list)
        for (pid, _), process in self.processes.items():
            children[process.parent].append(pid)
        own, added = set[int](), [os.getpid()]
        while added:
            pid = added.pop()
            if pid not in own:
                own.add(pid)
                added += children[pid]
        return own
