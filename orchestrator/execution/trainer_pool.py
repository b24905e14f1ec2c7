"""The trainers that an actor keeps warm between trials."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import psutil

from orchestrator.execution.cpu_claims import CpuClaims
from orchestrator.execution.job import Job, TrialLimits
from orchestrator.execution.trainer_process import Trainer
from orchestrator.execution.watchdog import memory_share
from workloads.implementations import parse_implementation
from workloads.protocol import Device

_WARM_SHARE = 0.5
"""The share of a trial's memory limit from which a fresh trainer replaces a warm one: XLA keeps
every program that it ever compiled (about 30 MiB for a small model)."""

CROWDED = 0.8
"""The used share of the node's memory beyond which idle trainers are ended."""

TrainerKey: TypeAlias = tuple[str, Device, int | None]
"""The use of a warm trainer: backend, device, and how many CPUs it may use.

The backend of a trainer for `+again` includes that option, since the repeat of an implementation
runs in a process of its own. A trainer that takes turns with others has one implementation only.
"""

TrainerPool: TypeAlias = dict[TrainerKey, Trainer]
"""The warm trainers of an actor."""


def key_of(job: Job) -> TrainerKey:
    """Return the key of the trainer of a job's own trial."""
    implementation = parse_implementation(job.request.implementation, known_only=False)
    return implementation.process, job.request.device, job.cpus


def trainer_for(
    job: Job,
    trainers: TrainerPool,
    key: TrainerKey,
    claims: CpuClaims,
    rivals: Collection[TrainerKey] = (),
) -> Trainer:
    """Return the trainer of that key: a warm one, or a fresh one in its place.

    On a GPU it and the `rivals` that it takes turns with are the only ones: memory is not shared.

    Raises:
        CpusTaken: too few CPUs are free for it.
        OSError: no process can be started.
    """
    cpus = claims.take(job.cpus) if job.cpus is not None else None
    held = trainers.get(key)
    is_usable = held is not None and held.alive and held.cpus == cpus
    if held is not None and is_usable and not job.fresh and _is_small(held, job.limits):
        return held
    for other in list(trainers):
        if other == key or (other not in rivals and _may_not_stay(other, key, job)):
            trainers.pop(other).close()
    implementation = parse_implementation(job.request.implementation, known_only=False)
    trainers[key] = Trainer(
        implementation, job.request.device, cpus=cpus, python_path=job.python_path
    )
    return trainers[key]


def make_room(trainers: TrainerPool, wanted: Collection[TrainerKey], most: float = CROWDED) -> None:
    """End unwanted trainers if memory is short.

    Otherwise idle trainers could fill the node, and the one at work would be ended for it.

    Args:
        trainers: the warm ones.
        wanted: those that the next job uses.
        most: the used share of the node's memory up to which the others stay.
    """
    if memory_share() > most:
        for key in trainers.keys() - set(wanted):
            trainers.pop(key).close()


def _may_not_stay(other: TrainerKey, key: TrainerKey, job: Job) -> bool:
    return job.fresh or other[1] == key[1] == "gpu"


def _is_small(trainer: Trainer, limits: TrialLimits) -> bool:
    limit_mib = limits.memory_mib or psutil.virtual_memory().total / 2**20
    return trainer.memory_mib() < _WARM_SHARE * limit_mib
