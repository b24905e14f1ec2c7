"""The node of a trainer: CPU time by user, memory, temperature, and other trainers there."""

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import psutil

from orchestrator.execution.telemetry.readings import NodeReading
from orchestrator.execution.telemetry.sensors import CpuClocks, Paced

_LOOK_S = 10.0
"""How often all processes are listed."""

_SENSORS_S = 2.0
"""How often temperature and clocks are read."""

_COUNT_S = 0.2
"""How often the CPU time of other trainers is read: the kernel counts it in steps of 10 ms."""

_AT_WORK_PCT = 5.0
"""A trainer that takes less of a core than this is idle, and waits for its next trial."""

_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")


@dataclass(slots=True)
class Neighbours:
    """The other trainers of a node, searched for now and then; kept between trials."""

    _trainers: dict[int, psutil.Process] = field(default_factory=dict)
    _seen_pids: set[int] = field(default_factory=set)
    _looked: bool = False

    def look(self, family: Collection[int]) -> None:
        """Look through the processes that have started since, except a trainer's own."""
        with contextlib.suppress(psutil.Error, OSError):
            pids = set(psutil.pids())
            for pid in pids - self._seen_pids - set(family):
                with contextlib.suppress(psutil.Error, OSError):
                    process = psutil.Process(pid)
                    if process.cmdline()[1:4] == ["-P", "-m", "workloads"]:
                        process.cpu_percent()  # from here on
                        self._trainers[pid] = process
            self._seen_pids = pids
            self._looked = True
        for pid in [pid for pid in self._trainers if pid not in self._seen_pids or pid in family]:
            del self._trainers[pid]

    def at_work(self) -> int | None:
        """Return how many of them took CPU time since the last call; None before any look."""
        if not self._looked:
            return None
        busy = 0
        for trainer in self._trainers.values():
            with contextlib.suppress(psutil.Error, OSError):
                busy += trainer.cpu_percent() > _AT_WORK_PCT
        return busy


_STEP_S = 0.03
"""The kernel counts CPU time in steps of 10 ms, and a meter subtracts three counts."""


class NodeGauge:
    """A reader of a trainer's node, which separates the trainer's CPU time from all other."""

    def __init__(self, pid: int, neighbours: Neighbours, other_pids: Collection[int] = ()) -> None:
        """Find the trainer, and those that take turns with it; `psutil.Error` if it has ended."""
        self._trainers = [psutil.Process(pid)]
        for other_pid in other_pids:
            with contextlib.suppress(psutil.Error):
                self._trainers.append(psutil.Process(other_pid))
        self._family = {trainer.pid: trainer for trainer in self._trainers}
        self._neighbours = neighbours
        self._cpus = _part_of_cpus([trainer.pid for trainer in self._trainers])
        clocks = CpuClocks(self._cpus or range(os.cpu_count() or 1))
        self._clocks = Paced(lambda: (clocks.share(), clocks.throttled_s()), _SENSORS_S)
        self._temperature = Paced(_cpu_temperature, _SENSORS_S)
        self._at_work = Paced(neighbours.at_work, _COUNT_S)
        self.look = Paced(self._look, _LOOK_S).value
        self._cpu_s = 0.0, 0.0, 0.0
        self._used_s: dict[int, float] = {}
        self._most_s = 0.0

    @property
    def family(self) -> frozenset[int]:
        """The trainers' processes and their descendants, as of the last look."""
        return frozenset(self._family)

    def read(self) -> NodeReading | None:
        """Return a reading; None if the operating system gives none."""
        try:
            now_s = _cpu_seconds(self._cpus)
            memory = psutil.virtual_memory()
        except (OSError, psutil.Error, IndexError, RuntimeError):
            return None
        # The kernel's count of waiting for disks goes back now and then, by a little.
        busy_s, total_s, steal_s = map(max, now_s, self._cpu_s)
        self._cpu_s = busy_s, total_s, steal_s
        trainer_s, trainer_mib = self._family_use()
        clock_share, throttled_s = self._clocks.value() or (None, None)
        return NodeReading(
            busy_s=busy_s,
            total_s=total_s,
            steal_s=steal_s,
            trainer_s=trainer_s,
            memory_used_mib=memory.used / 2**20,
            memory_total_mib=memory.total / 2**20,
            trainer_mib=trainer_mib,
            temperature_c=self._temperature.value(),
            other_trainers=self._at_work.value(),
            clock_share=clock_share,
            throttled_s=throttled_s,
        )

    def _look(self) -> None:
        """Search all processes for the trainer's descendants and other trainers."""
        # A descendant's CPU seconds count from the first search that finds it.
        for trainer in self._trainers:
            with contextlib.suppress(psutil.Error, OSError):
                for child in trainer.children(recursive=True):
                    self._family.setdefault(child.pid, child)
        with contextlib.suppress(psutil.Error, OSError):
            self._neighbours.look(self._family)

    def _family_use(self) -> tuple[float | None, float | None]:
        """Return CPU seconds and MiB of trainers and descendants; None once all trainers ended."""
        memory_mib = 0.0
        for pid, process in list(self._family.items()):
            is_trainer = process in self._trainers
            try:
                with process.oneshot():
                    self._used_s[pid] = _used_s(process, with_ended=is_trainer)
                    memory_mib += process.memory_info().rss / 2**20
            except (psutil.Error, OSError):
                if is_trainer:
                    self._trainers.remove(process)
                if not self._trainers:
                    return None, None
                del self._family[pid]
                # The trainer's own count takes over the counts of children that it waited for.
                if not is_trainer:
                    self._used_s.pop(pid, None)
        self._most_s = max(self._most_s, sum(self._used_s.values()))
        return self._most_s, memory_mib


class OthersMeter:
    """What others took of the CPUs of some trainers, between two moments of the caller's choice."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Find the trainers; `psutil.Error` if the first one has ended."""
        self._gauge = NodeGauge(pids[0], Neighbours(), pids[1:])
        self._gauge.look()  # for their own children
        self._began: NodeReading | None = None

    def start(self) -> None:
        """Count from now on."""
        self._began = self._gauge.read()

    def taken(self) -> "Taken | None":
        """Return the CPU seconds since `start`; None if not known."""
        before, after = self._began, self._gauge.read()
        if before is None or after is None or before.trainer_s is None or after.trainer_s is None:
            return None
        own_s = after.trainer_s - before.trainer_s
        return Taken(
            max(0.0, after.busy_s - before.busy_s - own_s),
            after.steal_s - before.steal_s,
            after.total_s - before.total_s,
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """CPU seconds that other processes and the machine's host took, and all that there were."""

    others_s: float
    steal_s: float
    total_s: float

    def certainly_exceeds(self, limit_pct: float) -> bool:
        """Return whether others, the host included, took more than this share for certain."""
        return self.others_s + self.steal_s - _STEP_S > limit_pct / 100 * self.total_s


def _used_s(process: psutil.Process, *, with_ended: bool = False) -> float:
    """Return the CPU seconds of a process, on request with the children that it waited for."""
    used = process.cpu_times()
    ended_s = used.children_user + used.children_system if with_ended else 0.0
    return float(used.user + used.system + ended_s)


def _part_of_cpus(pids: Sequence[int]) -> list[int] | None:
    """Return the CPUs that some of the processes may use; None for all of the node's."""
    try:
        cpus = sorted(set().union(*(os.sched_getaffinity(pid) for pid in pids)))
    except OSError:
        return None
    return cpus if len(cpus) < (os.cpu_count() or 1) else None


def _cpu_seconds(cpus: list[int] | None) -> tuple[float, float, float]:
    """Return CPU seconds since the start: busy, total, and taken by the machine's host."""
    if cpus is None:
        times = [psutil.cpu_times()]
    else:
        by_cpu = psutil.cpu_times(percpu=True)
        times = [by_cpu[cpu] for cpu in cpus]
    # `guest` is in `user`, and `guest_nice` in `nice`.
    busy_s = sum(t.user + t.nice + t.system + t.irq + t.softirq for t in times)
    steal_s = sum(t.steal for t in times)
    return busy_s, busy_s + steal_s + sum(t.idle + t.iowait for t in times), steal_s


def _cpu_temperature() -> float | None:
    """Return the highest temperature of the CPU's sensors; None if there are none."""
    try:
        sensors = psutil.sensors_temperatures()
    except (OSError, AttributeError, ValueError):
        return None
    readings = [sensor.current for name in _CPU_SENSORS for sensor in sensors.get(name, ())]
    return max((float(reading) for reading in readings if reading and reading > 0), default=None)
