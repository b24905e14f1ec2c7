"""One trial at a time in a trainer process, watched: the trainable that Tune keeps as an actor.

A failure of any kind is a result with its reason, never an exception: an exception would cost
Tune the actor, and with it every warm trainer.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import psutil
from ray import tune

from orchestrator import telemetry
from orchestrator.cpu_sets import CpuClaims, CpusTaken
from orchestrator.trainer import Trainer, TrainerGone
from orchestrator.trial import FailureReason, FailureRecord, outcome_adapter, to_json
from orchestrator.watched import Job, Limits, Watched, job_adapter
from workloads import protocol
from workloads.implementations import Implementation, parse

_WATCH_S = 0.1
"""How often a silent trainer is looked at."""

_NODE_MEMORY_LIMIT = 0.93
"""The used share of a node's memory at which the trainer is ended, below the 0.95 at which
Ray's memory monitor would kill the actor, and with it the sweep."""

_FAMILY_S = 10.0
"""How often a trainer's descendants are looked for: that takes milliseconds of a core."""

_WARM_SHARE = 0.5
"""The share of what a trial may hold at which a warm trainer is replaced by a fresh one: XLA
keeps every program that it ever compiled (about 30 MiB for a small model)."""

TrainerKey: TypeAlias = tuple[str, protocol.Device, int | None]
"""What a warm trainer is for: backend, device, and how many CPUs it may use."""


class TrialFailed(Exception):
    """Ends the watching of a trial; becomes the outcome's failure."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TrialActor(tune.Trainable):
    """Runs the trials that Tune sends it, keeping one warm trainer per backend and device."""

    _run: Generator[protocol.Epoch, None, None]

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial."""
        self._watched: Watched | None = None
        self._trainers: dict[TrainerKey, Trainer] = {}
        self._claims = CpuClaims()
        self._instruments = telemetry.Instruments()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial; the trainers stay warm."""
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Go on until the next epoch (a sign of life) or the end of the trial."""
        for epoch in self._run:
            return {"epoch": epoch.index, "done": False}
        assert self._watched is not None
        outcome = to_json(outcome_adapter, self._watched.outcome()).decode()
        return {"outcomes": [outcome], "done": True}

    def cleanup(self) -> None:
        """End the trainers."""
        for trainer in self._trainers.values():
            trainer.close()
        self._trainers.clear()
        self._claims.release()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Keep nothing: the journal is what a stopped sweep is continued from."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load nothing: see `save_checkpoint`."""

    def _begin(self, config: Mapping[str, Any]) -> None:
        if self._watched is not None and not self._watched.ended:
            self._run.close()
            self.cleanup()  # Tune took the trial away while its trainer was at work
        if self._watched is not None and self._watched.sampler_hangs:
            self._instruments = telemetry.Instruments()
        job = job_adapter.validate_json(config["job"])
        self._watched = Watched(job, instruments=self._instruments)
        self._run = run_trial(job, self._watched, self._trainers, self._claims)


def run_trial(
    job: Job,
    watched: Watched,
    trainers: dict[TrainerKey, Trainer],
    claims: CpuClaims | None = None,
) -> Generator[protocol.Epoch, None, None]:
    """Run one trial, yielding its epochs as they happen; `watched` then holds how it ended.

    A trainer that failed in a way that leaves its state in doubt is ended; one that reported
    its failure itself goes on.
    """
    backend = parse(job.request.implementation, known_only=False).backend
    key = backend, job.request.device, job.cpus
    oom_kills = _oom_kills()
    reason: FailureReason
    try:
        trainer = _trainer(job, trainers, key, claims or CpuClaims())
        watched.trainer_trials = trainer.trials
        watched.cpus = trainer.cpus
        watched.setup_s = time.time() - watched.started_s
        trainer.trials += 1
        trainer.request(job.request)
        watched.watch(trainer)
        for event in _watch(trainer, job.limits):
            watched.take(event)
            if isinstance(event, protocol.Epoch):
                yield event
        watched.keep_output(trainer.output_tail())
        watched.ended = True
        return
    except TrialFailed as failure:
        reason, message = failure.reason, str(failure)
    except protocol.ProtocolError as error:
        reason, message = "protocol", f"a line that is no event of the protocol: {error}"
    except TrainerGone as gone:
        reason, message = _ended(gone, oom_kills)
    except (OSError, CpusTaken) as error:
        reason, message = "crash", f"the trainer process could not be started: {error}"
    finally:
        watched.end_watch()
    dead = trainers.pop(key, None)
    watched.failure = FailureRecord(reason, message, dead.output_tail() if dead else "")
    watched.ended = True
    if dead:
        dead.close()


def _trainer(
    job: Job,
    trainers: dict[TrainerKey, Trainer],
    key: TrainerKey,
    claims: CpuClaims,
) -> Trainer:
    cpus = claims.take(job.cpus) if job.cpus is not None else None
    held = trainers.get(key)
    is_usable = held is not None and held.alive and held.cpus == cpus
    if held is not None and is_usable and not job.fresh and _is_small(held, job.limits):
        return held
    for other in list(trainers):  # one resident trainer on a GPU: memory is not shared
        if job.fresh or other == key or other[1] == key[1] == "gpu":
            trainers.pop(other).close()
    implementation = Implementation(key[0], "")
    trainers[key] = Trainer(implementation, key[1], cpus=cpus, python_path=job.python_path)
    return trainers[key]


def _is_small(trainer: Trainer, limits: Limits) -> bool:
    limit_mib = limits.memory_mib or psutil.virtual_memory().total / 2**20
    return trainer.memory_mib() < _WARM_SHARE * limit_mib


def _watch(trainer: Trainer, limits: Limits) -> Iterator[protocol.Event]:
    """The trainer's events up to its result or failure.

    Raises:
        TrialFailed: a limit was exceeded.
        TrainerGone: the process ended.
        ProtocolError: it wrote something else than events.
    """
    started = active = looked = counted = time.monotonic()
    cpu_s, family_mib = trainer.family()
    while True:
        event = trainer.next_event(_WATCH_S)
        now = time.monotonic()
        if event is not None:
            active = now
            yield event
            if isinstance(event, protocol.Result | protocol.Failure):
                return
        if now - looked < _WATCH_S:
            continue
        looked = now
        if now - counted > min(_FAMILY_S, limits.idle_s / 10):
            counted = now
            used_s, family_mib = trainer.family()
            if used_s - cpu_s > 0.01 * (now - active) + 0.01:
                active = now
            cpu_s = max(cpu_s, used_s)
        _check_memory(max(trainer.memory_mib(), family_mib), limits)
        if now - started > limits.trial_s:
            raise TrialFailed(
                "time_limit",
                f"took longer than limits.trial_s allows ({limits.trial_s:g} s)",
            )
        if now - active > limits.idle_s:
            raise TrialFailed(
                "hung",
                f"neither an event nor CPU time for {limits.idle_s:g} s (limits.idle_s)",
            )


def _check_memory(held_mib: float, limits: Limits) -> None:
    if limits.memory_mib is not None and held_mib > limits.memory_mib:
        raise TrialFailed(
            "out_of_memory",
            f"the trainer held {held_mib:.0f} MiB; limits.memory_mib allows {limits.memory_mib}",
        )
    if memory_share() > _NODE_MEMORY_LIMIT:
        raise TrialFailed(
            "out_of_memory",
            f"the node's memory was {_NODE_MEMORY_LIMIT:.0%} full; "
            f"the trainer held {held_mib:.0f} MiB",
        )


def memory_share(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The used share of the memory that this process may use: the node's, or the cgroup's.

    As Ray's memory monitor counts it: a cgroup's inactive page cache is not in use.
    """
    share = psutil.virtual_memory().percent / 100
    try:
        limit = int((cgroup / "memory.max").read_text())
        current = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return max(share, (current - int(stat["inactive_file"])) / limit)
    except (OSError, ValueError, KeyError):  # no cgroup v2 here, or "max": no limit
        return share


def _ended(gone: TrainerGone, oom_kills_before: int | None) -> tuple[FailureReason, str]:
    oom_kills = _oom_kills()
    if gone.returncode == -signal.SIGKILL and oom_kills != oom_kills_before:
        return "out_of_memory", f"{gone}: the kernel's out-of-memory killer was at work"
    return "crash", str(gone)


def _oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """How many processes the kernel's out-of-memory killer has ended since the node started."""
    try:
        counters = dict(line.split() for line in vmstat.read_text().splitlines())
        return int(counters["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
