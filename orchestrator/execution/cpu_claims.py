"""CPUs of a node reserved for one trainer, where several trainers work there at once.

A claim is an abstract Unix socket with the CPU's number in its name. The process that binds it has
the CPU. The kernel releases it when that process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


class CpusTaken(RuntimeError):
    """Too few CPUs of the node are free of other trainers."""


@dataclass(slots=True)
class CpuClaims:
    """The CPUs that this process has claimed.

    `prefix` begins the sockets' names. `patience_s` is how long to wait for claims of actors that
    are about to end.
    """

    prefix: str = "rnnsweep-cpu"
    patience_s: float = 10.0
    _held: dict[int, socket.socket] = field(default_factory=dict)

    def take(self, number: int) -> tuple[int, ...]:
        """Claim so many CPUs that no other process has; reuse those already held if enough.

        Prefer neighbouring numbers from a multiple of `number`, so that trainers of one size never
        split each other's neighbourhoods.

        Raises:
            CpusTaken: too few are free, and stay so.
        """
        if len(self._held) >= number:
            return tuple(sorted(self._held)[:number])
        self.release()
        usable = sorted(os.sched_getaffinity(0))
        until_s = time.monotonic() + self.patience_s
        while len(usable) >= number:
            starts = range(0, len(usable) - number + 1, number)
            for wanted in (*(usable[start : start + number] for start in starts), usable):
                if self._claim(wanted, number):
                    return tuple(sorted(self._held))
            if time.monotonic() >= until_s:
                break
            time.sleep(0.1)
        raise CpusTaken(
            f"the trial needs {number} CPU{'' if number == 1 else 's'} of its own; of the "
            f"{len(usable)} CPUs that Ray's worker may use here, other trainers hold too many"
        )

    def release(self) -> None:
        """Give all of them back."""
        for claim in self._held.values():
            claim.close()
        self._held.clear()

    def _claim(self, wanted: Sequence[int], number: int) -> bool:
        """Claim `number` of the wanted CPUs; return False, with no claim, if fewer are free."""
        for cpu in wanted:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0{self.prefix}-{cpu}")
            except OSError:
                claim.close()
                continue
            self._held[cpu] = claim
            if len(self._held) == number:
                return True
        self.release()
        return False


@contextlib.contextmanager
def confined(cpus: Sequence[int] | None) -> Iterator[None]:
    """Confine processes that this thread starts in the block to these CPUs; None for no change.

    The thread itself is confined during the block, so that the process is from its first moment.
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
    """Return CPUs as the kernel writes them: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
