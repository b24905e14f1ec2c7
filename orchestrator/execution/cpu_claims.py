"""CPUs of a node for one trainer alone, where several trainers are at work there at once.

A claim is an abstract Unix socket with the CPU's number in its name: whoever binds it has the CPU,
and the kernel gives it back when the process ends, however it does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PATIENCE_S = 10.0
"""How long claims of actors that are about to end are waited for."""


class CpusTaken(RuntimeError):
    """Too few CPUs of the node are free of other trainers."""


@dataclass(slots=True)
class CpuClaims:
    """The CPUs that this process has claimed, until it ends. `prefix` begins the sockets' names."""

    prefix: str = "rnnsweep-cpu"
    patience_s: float = _PATIENCE_S
    _held: dict[int, socket.socket] | None = None

    def take(self, number: int) -> tuple[int, ...]:
        """So many CPUs that no other process has claimed; some of those already held if enough.

        Neighbouring numbers where they are free, beginning at a multiple of `number`: trainers of
        one size then never cut each other's neighbourhoods up.

        Raises:
            CpusTaken: too few are free, and stay so.
        """
        held = self._held or {}
        if len(held) >= number:
            return tuple(sorted(held)[:number])
        self.release()
        usable = sorted(os.sched_getaffinity(0))
        due_s = time.monotonic() + self.patience_s
        while len(usable) >= number:
            starts = range(0, len(usable) - number + 1, number)
            for wanted in (*(usable[start : start + number] for start in starts), usable):
                if (found := self._claimed(wanted, number)) is not None:
                    self._held = found
                    return tuple(sorted(found))
            if time.monotonic() >= due_s:
                break
            time.sleep(0.1)
        raise CpusTaken(
            f"the trial needs {number} CPU{'' if number == 1 else 's'} of its own, and of the "
            f"{len(usable)} that Ray's worker may use here fewer are free of other trainers"
        )

    def release(self) -> None:
        """Give all of them back."""
        for claim in (self._held or {}).values():
            claim.close()
        self._held = None

    def _claimed(self, wanted: Sequence[int], number: int) -> dict[int, socket.socket] | None:
        """`number` of the wanted CPUs, claimed; None, and nothing claimed, if fewer are free."""
        found: dict[int, socket.socket] = {}
        for cpu in wanted:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0{self.prefix}-{cpu}")
            except OSError:
                claim.close()
                continue
            found[cpu] = claim
            if len(found) == number:
                return found
        for claim in found.values():
            claim.close()
        return None


@contextlib.contextmanager
def confined(cpus: Sequence[int] | None) -> Iterator[None]:
    """A process that this thread starts inside may use these CPUs only; None for no change.

    The thread itself is confined meanwhile, so that not even the process's first moment is not.
    """
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shown(cpus: Sequence[int]) -> str:
    """`0-3,8`: as the kernel writes lists of CPUs."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
