"""Other work for a benchmark: processes that take a chosen share of chosen cores.

    with other_work(folder) as work:
        work.set({0: 50})           # half of core 0
        work.set({0: 100, 1: 200})  # two endless processes on core 1

A share is what a process takes of an idle core. It computes for a while, then it rests, as programs
that wait for a disk, a network or a person do. Beside a busy trainer it takes less.
"""

import contextlib
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_PROCESS = """
import math, mmap, os, random, sys, time
core, place, path, parent = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
shortest_s, longest_s = float(sys.argv[5]), float(sys.argv[6])
os.sched_setaffinity(0, {core})
with open(path, "rb") as file:
    shares = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
while os.getppid() == parent:
    share = shares[place]
    if not share:
        time.sleep(0.002)
        continue
    busy_s = math.exp(random.uniform(math.log(shortest_s), math.log(longest_s)))
    until_s = time.process_time() + busy_s
    while time.process_time() < until_s and shares[place] == share:
        pass
    until_s = time.monotonic() + busy_s * (100 - share) / share
    while (left_s := until_s - time.monotonic()) > 0 and shares[place] == share:
        time.sleep(min(0.002, left_s))
"""
"""A new share has effect within 2 ms."""

BURSTS_S = 0.005, 0.1
"""It is busy for 5 to 100 ms at a time, unless a benchmark wants other stretches."""

MOST_PCT = 200
"""The largest share of a core: two processes, one of which the scheduler must make wait."""


class OtherWork:
    """Idle processes, two on each core, that take CPU time on request."""

    def __init__(
        self,
        folder: Path,
        cores: Sequence[int] | None = None,
        busy_s: tuple[float, float] = BURSTS_S,
    ) -> None:
        """Start them; at work, each is busy for a random time between `busy_s` at a stretch."""
        self._cores = sorted(cores or os.sched_getaffinity(0))
        self._path = folder / "other_work"
        self._path.write_bytes(bytes(2 * len(self._cores)))
        with self._path.open("r+b") as file:
            self._shares = mmap.mmap(file.fileno(), 0)
        # One process is pinned to each core: the scheduler may put two on one and spare a trainer.
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", _PROCESS]
                + [str(part) for part in (core, place, self._path, os.getpid(), *busy_s)]
            )
            for place, core in enumerate([core for core in self._cores for _ in range(2)])
        ]

    def set(self, shares_pct: Mapping[int, float]) -> None:
        """Take these shares of these cores, in percent, and nothing of the others."""
        for number, core in enumerate(self._cores):
            share = min(MOST_PCT, round(shares_pct.get(core, 0)))
            self._shares[2 * number] = min(share, 100)
            self._shares[2 * number + 1] = max(share - 100, 0)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.terminate()
            process.wait()
        self._shares.close()
        self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def other_work(folder: Path, busy_s: tuple[float, float] = BURSTS_S) -> Iterator[OtherWork]:
    """Yield other work that ends with the block."""
    work = OtherWork(folder, busy_s=busy_s)
    try:
        yield work
    finally:
        work.close()
