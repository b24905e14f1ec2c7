"""The load of the rest of the machine while one process is measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass(slots=True)
class Neighbours:
    """The mean number of CPUs that other processes, or the hypervisor, kept busy."""

    cpus: float = 0.0


@contextmanager
def watched(process: psutil.Process) -> Iterator[Neighbours]:
    """Measure the neighbours of a process while the block runs."""
    neighbours = Neighbours()
    began_s, busy_s, own_s = time.perf_counter(), _busy_s(), _own_s(process)
    yield neighbours
    seconds = time.perf_counter() - began_s
    neighbours.cpus = (_busy_s() - busy_s - (_own_s(process) - own_s)) / seconds


def _busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    idle = times["idle"] + times.get("iowait", 0.0)
    inside = times.get("guest", 0.0) + times.get("guest_nice", 0.0)  # counted as user as well
    return float(sum(times.values()) - idle - inside)


def _own_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
