"""The trainers that an actor keeps warm between trials, and the CPUs that it has claimed."""

import os
import socket
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

import psutil

from orchestrator.execution.job import Job, RoundTrial
from orchestrator.execution.telemetry.gpu_gauge import gpu_memory_share
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.execution.watchdog import memory_share
from workloads.implementations import parse_implementation
from workloads.protocol import Device

_WARM_SHARE = 0.5
"""The share of a trial's memory limit from which a fresh trainer replaces a warm one: XLA keeps
every program that it ever compiled (about 30 MiB for a small model)."""

_SHARED_GPU = 0.5
"""The used share of a GPU's memory up to which trainers of several backends stay warm there."""

_TRIALS, _LIFE, _LEAST_START_S = 3, 20, 1.0
"""The trainers of a round are replaced after this many trials, and not before they have lived 20
times as long as all their starts took: starts take a twentieth of the time at most."""

TrainerKey: TypeAlias = tuple[str, Device, int | None]
"""The use of a warm trainer: backend, device, and how many CPUs it may use.

A trainer that takes turns with others has one implementation only, which its key names instead of
the backend.
"""


class CpusTaken(OSError):
    """Too few CPUs of the node are free of other trainers."""


@dataclass(slots=True)
class CpuClaims:
    """CPUs of a node reserved for one trainer, where several trainers work there at once.

    A claim is two abstract Unix sockets, of `prefix` and the CPU's number: one for the machine and
    one for this Ray `cluster`. The kernel releases them when the process that binds them ends;
    `patience_s` is how long to wait for that. Ray gives no CPU of a cluster away twice, but another
    sweep on the machine may have a cluster of its own. Where that holds too many CPUs, they are
    shared with it, which disturbs as any other process does.
    """

    prefix: str = "rnnsweep-cpu"
    patience_s: float = 10.0
    cluster: int = field(default_factory=os.getppid)  # the raylet starts all workers of a node
    _claimed: dict[int, list[socket.socket]] = field(default_factory=dict)
    _shares: bool = False

    def claim(self, number: int) -> tuple[int, ...]:
        """Claim `number` CPUs that no other trainer has, or keep those that are claimed already.

        If another cluster holds too many for longer than `patience_s`, they are shared with it.
        Raise `CpusTaken` if trainers of this cluster hold them.
        """
        # Neighbouring numbers from a multiple of `number` are preferred: trainers of one size never
        # split each other's neighbourhoods.
        if len(self._claimed) >= number:
            return tuple(sorted(self._claimed)[:number])
        self.release()
        usable = sorted(os.sched_getaffinity(0))
        until_s = time.monotonic() + self.patience_s
        while len(usable) >= number:
            is_over = time.monotonic() >= until_s
            starts = range(0, len(usable) - number + 1, number)
            groups = [*(usable[start : start + number] for start in starts), usable]
            for shares in (False, True) if self._shares or is_over else (False,):
                if any(self._bind(wanted, number, shares=shares) for wanted in groups):
                    self._shares = shares
                    return tuple(sorted(self._claimed))
            if is_over:
                break
            time.sleep(0.1)
        raise CpusTaken(
            f"the trial needs {number} free CPU{'' if number == 1 else 's'}, and other trainers "
            f"hold too many of the {len(usable)} CPUs that Ray's worker may use here"
        )

    def release(self) -> None:
        """Give all of them back."""
        for claim in chain.from_iterable(self._claimed.values()):
            claim.close()
        self._claimed.clear()

    def _bind(self, wanted: Sequence[int], number: int, *, shares: bool) -> bool:
        """Claim `number` of the wanted CPUs; return False, with no claim, if fewer are free."""
        for cpu in wanted:
            names = [
                f"{self.prefix}-{cpu}-{self.cluster}",
                *([] if shares else [f"{self.prefix}-{cpu}"]),
            ]
            claims = [claim for name in names if (claim := _bound(name))]
            if len(claims) < len(names):
                for claim in claims:
                    claim.close()
                continue
            self._claimed[cpu] = claims
            if len(self._claimed) == number:
                return True
        self.release()
        return False


def _bound(name: str) -> socket.socket | None:
    """Return an abstract socket of that name; None if another process has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0{name}")
    except OSError:
        claim.close()
        return None
    return claim


class TrainerPool:
    """The `warm` trainers of an actor, and its claims on CPUs.

    `too_large_together` has the trainers of rounds that did not fit into memory together.
    """

    def __init__(self) -> None:
        self.warm: dict[TrainerKey, TrainerProcess] = {}
        self.too_large_together: set[frozenset[TrainerKey]] = set()
        self.claims = CpuClaims()

    def renew(self, keys: Collection[TrainerKey]) -> None:
        """End the warm trainers of a round now and then, all together.

        A process keeps one of several speeds for life, and the spread over blocks is to include
        that. They end together because the first trial of a process compiles for longer.
        """
        warm = [self.warm[key] for key in keys if key in self.warm]
        starts_s = sum(max(trainer.start_s, _LEAST_START_S) for trainer in warm)
        have_served = (
            trainer.trials >= _TRIALS and trainer.age_s >= _LIFE * starts_s for trainer in warm
        )
        if warm and all(have_served):
            for key in keys:
                self.end(key)

    def trainer_for(
        self, job: Job, trial: RoundTrial, key: TrainerKey, partners: Collection[TrainerKey] = ()
    ) -> TrainerProcess:
        """Return the trainer of that key: a warm one, or a fresh one in its place.

        Other trainers on its GPU end, except trainers of its
        `partners` in the round, unless the GPU shows enough free memory. Raise `CpusTaken` if too
        few CPUs are free, `OSError` if no process can be started.
        """
        cpus = self.claims.claim(trial.cpus) if trial.cpus is not None else None
        on_gpu = self.others_on_gpu(key, *partners)
        if on_gpu and gpu_memory_share() > _SHARED_GPU:
            for idle_key in on_gpu:
                self.end(idle_key)
        warm = self.warm.get(key)
        is_idle = warm is not None and warm.alive and not warm.has_events
        if warm is not None and is_idle and warm.cpus == cpus and not job.fresh:
            limit_mib = job.limits.memory_mib or psutil.virtual_memory().total / 2**20
            is_small = warm.memory_mib() < _WARM_SHARE * limit_mib
            if is_small and warm.can_open_files():
                return warm
        for warm_key in list(self.warm):
            if warm_key == key or (job.fresh and warm_key not in partners):
                self.end(warm_key)
        request = trial.request
        self.warm[key] = TrainerProcess(
            parse_implementation(request.implementation),
            request.device,
            cpus=cpus,
            python_path=job.python_path,
        )
        return self.warm[key]

    def others_on_gpu(self, *keys: TrainerKey) -> dict[TrainerKey, int]:
        """Return the process ids of all other warm GPU trainers; none if no key is of a GPU."""
        if not any(device == "gpu" for _, device, _ in keys):
            return {}
        return {
            key: trainer.pid
            for key, trainer in self.warm.items()
            if key not in keys and key[1] == "gpu"
        }

    def make_room(self, wanted: Collection[TrainerKey], most: float = 0.8) -> None:
        """End unwanted trainers if more than a share `most` of the node's memory is in use."""
        if memory_share() > most:
            for key in self.warm.keys() - set(wanted):
                self.end(key)

    def end_if_processes_remain(self, key: TrainerKey) -> None:
        """End a trainer whose trial has started processes that still run, and these too."""
        if key in self.warm and self.warm[key].has_leftover_processes():
            self.end(key)

    def end(self, key: TrainerKey) -> str:
        """End a trainer, if there is one of that key; return its last output."""
        trainer = self.warm.pop(key, None)
        if trainer is None:
            return ""
        output = trainer.output_tail()
        trainer.close()
        return output

    def close(self) -> None:
        """End all trainers, and give the CPUs back."""
        for key in list(self.warm):
            self.end(key)
        self.claims.release()
