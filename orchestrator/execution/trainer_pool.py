"""The trainers that an actor keeps warm between trials, and the CPUs that it has claimed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import psutil

from orchestrator.execution.cpu_claims import CpuClaims
from orchestrator.execution.job import Job
from orchestrator.execution.trainer_process import Trainer
from orchestrator.execution.watchdog import memory_share
from workloads.implementations import parse_implementation
from workloads.protocol import Device

_WARM_SHARE = 0.5
"""The share of a trial's memory limit from which a fresh trainer replaces a warm one: XLA keeps
every program that it ever compiled (about 30 MiB for a small model)."""

TrainerKey: TypeAlias = tuple[str, Device, int | None]
"""The use of a warm trainer: backend, device, and how many CPUs it may use.

The backend of a trainer for `+again` includes that option, since the repeat of an implementation
runs in a process of its own. A trainer that takes turns with others has one implementation only.
"""


def key_of(job: Job) -> TrainerKey:
    """Return the key of the trainer of a job's own trial."""
    implementation = parse_implementation(job.request.implementation, known_only=False)
    return implementation.process, job.request.device, job.cpus


class TrainerPool:
    """The `warm` trainers of an actor, and its claims on CPUs."""

    def __init__(self, claims: CpuClaims | None = None) -> None:
        self.warm: dict[TrainerKey, Trainer] = {}
        self.claims = claims or CpuClaims()

    def trainer_for(
        self, job: Job, key: TrainerKey, rivals: Collection[TrainerKey] = ()
    ) -> Trainer:
        """Return the trainer of that key: a warm one, or a fresh one in its place.

        On a GPU it and the `rivals` that it takes turns with are the only ones: memory is not
        shared.

        Raises:
            CpusTaken: too few CPUs are free for it.
            OSError: no process can be started.
        """
        cpus = self.claims.take(job.cpus) if job.cpus is not None else None
        held = self.warm.get(key)
        if held is not None and held.alive and held.cpus == cpus and not job.fresh:
            limit_mib = job.limits.memory_mib or psutil.virtual_memory().total / 2**20
            if held.memory_mib() < _WARM_SHARE * limit_mib:
                return held
        for other in list(self.warm):
            is_alone = job.fresh or other[1] == key[1] == "gpu"
            if other == key or (is_alone and other not in rivals):
                self.end(other)
        implementation = parse_implementation(job.request.implementation, known_only=False)
        self.warm[key] = Trainer(
            implementation, job.request.device, cpus=cpus, python_path=job.python_path
        )
        return self.warm[key]

    def make_room(self, wanted: Collection[TrainerKey], most: float = 0.8) -> None:
        """End unwanted trainers if more than a share `most` of the node's memory is in use.

        Otherwise idle trainers could fill the node, and the one at work would be ended for it.
        """
        if memory_share() > most:
            for key in self.warm.keys() - set(wanted):
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
