"""A round as a job for an actor, and the run of each of its trials until it is an outcome."""

import functools
import importlib.metadata
import io
import platform
import shutil
import tarfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from orchestrator import __version__, hardware
from orchestrator.core import version
from orchestrator.core.criteria import Timing
from orchestrator.core.trial import MESSAGE_LIMIT, FailureRecord, Outcome, OutcomeStatus, Telemetry
from orchestrator.execution import telemetry
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.storage.tracking.limits import entity_name
from workloads import protocol, registry
from workloads.implementations import is_kernel_as_asked, parse_implementation
from workloads.metrics import PRUNED_METRICS

_OF_A_NODE = ("not_possible", "data")
"""Failures that may concern one node only: a package or a file that it lacks."""

_OF_THE_DEVICE = ("peak_gpu_used_mib",)
"""Metrics that cannot be separated for trainers that reside on one device."""

_OF_A_ROUND = ("trainer_cpu_pct", *_OF_THE_DEVICE)
"""Metrics of telemetry that trials in turns lack: their slices are shorter than the time between
two samples."""


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Limits of a trial. Neither an event nor CPU time for `idle_s` is a hang."""

    trial_s: float
    idle_s: float
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class RoundTrial:
    """One trial of a round: its request, and how many of the node's CPUs its trainer may use.

    Those CPUs are its own; None for all of the node's.
    """

    request: protocol.TrialRequest
    cpus: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that an actor needs to run one round: trials that take turns.

    The first trial is the baseline's, if it is in the round. Each trial of a `fresh` round has a
    new trainer process. At most `neighbours` other rounds of this sweep run on the node at the same
    time.
    """

    trials: tuple[RoundTrial, ...]
    attempt: int
    issued_s: float
    limits: TrialLimits
    timing: Timing
    python_path: tuple[str, ...] = ()
    fresh: bool = False
    neighbours: int = 0


job_adapter: TypeAdapter[Job] = TypeAdapter(Job)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a round.

    For whole trainings: the `done` epochs of the job's trial number `trial`, with the last one's
    `metrics`. For timing: the `done` turns of at most `most`, and `interval`, the half-width of the
    widest ratio's interval so far, as a share; None before there is one. `doing` is what begins
    before the first epoch or turn, such as `compiling`; empty at their ends.
    """

    done: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    most: int | None = None
    interval: float | None = None
    doing: str = ""
    trial: int = 0


@functools.cache
def recorded_environment() -> dict[str, str | int | float | bool | None]:
    """Return versions, commit and node of this process, without those that are unknown."""
    profile = hardware.probe(every_gpu=True)  # GPUs that Ray hides are part of the node
    facts: dict[str, str | int | float | bool | None] = {
        "rnnsweep": __version__,
        "rnnsweep_commit": version.commit(),
        "ray": importlib.metadata.version("ray"),
        "optuna": importlib.metadata.version("optuna"),
        "system": profile.system,
        "cpu_model": profile.cpu_model,
        "memory_mib": profile.memory_mib,
        "gpu_driver": profile.driver,
        "gpus": ", ".join(gpu.name for gpu in profile.gpus) or None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


@dataclass(slots=True)
class TrialRun:
    """The facts about a trial so far; they become its outcome.

    `in_turns` is whether it took turns with other trials of its round, None if it has none.
    """

    job: Job
    trial: RoundTrial
    in_turns: bool | None = None
    started_s: float = field(default_factory=time.time)
    started_clock_s: float = field(default_factory=time.monotonic)  # the system's clock may be set
    setup_s: float = 0.0
    trainer_trials: int = 0
    epochs: list[protocol.Epoch] = field(default_factory=list)
    slices: list[protocol.SliceDone] = field(default_factory=list)
    model: protocol.ModelBuilt | None = None
    kernel: protocol.KernelProof | None = None
    fingerprint: protocol.Fingerprint | None = None
    dataset: protocol.Dataset | None = None
    environment: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: FailureRecord | None = None
    ended_s: float = 0.0
    cpus: tuple[int, ...] | None = None
    recording: telemetry.Recording | None = None
    pruned: bool = False
    has_result: bool = False
    idle_on_gpu: Collection[int] = ()  # process ids of other, idle trainers
    model_path: Path | None = None

    @property
    def ended(self) -> bool:
        """Return whether the trial is over."""
        return self.ended_s > 0

    def restart(self) -> None:
        """Let the trial begin now."""
        self.started_s, self.started_clock_s = time.time(), time.monotonic()

    def _lasted_s(self) -> float:
        return time.monotonic() - self.started_clock_s

    def end_setup(self, trainer: TrainerProcess) -> None:
        """Note the trainer that the trial has got."""
        self.trainer_trials, self.cpus = trainer.trials, trainer.cpus
        self.setup_s = self._lasted_s()
        trainer.trials += 1

    def begin(self, trainer: TrainerProcess, *, rests_when_imported: bool = False) -> None:
        """Send the request to the trainer."""
        request = replace(self.trial.request, rests_when_imported=rests_when_imported)
        if self.model_path is not None:
            shutil.rmtree(self.model_path, ignore_errors=True)
            request = replace(request, model_path=str(self.model_path))
        trainer.request(request)

    def note_event(self, event: protocol.Event) -> None:
        """Note an event; raise `ProtocolError` for one that this trial cannot have sent."""
        match event:
            case protocol.Epoch(metrics=metrics):
                _expect_distinct(metrics)
                self.epochs.append(event)
            case protocol.SliceDone():
                self.slices.append(event)
            case protocol.KernelProof(asked=asked):
                request = self.trial.request
                if (
                    not registry.find_workload(request.workload).names_own_implementations
                    and asked != parse_implementation(request.implementation).kernel_text
                ):
                    raise protocol.ProtocolError(
                        f"kernel: the proof is about {asked!r}, but the trial runs"
                        f" {request.implementation}"
                    )
                self.kernel = event
            case protocol.ModelBuilt():
                self.model = event
            case protocol.Fingerprint():
                self.fingerprint = event
            case protocol.Dataset():
                self.dataset = event
            case protocol.EnvironmentFacts(facts):
                self.environment = {**self.environment, **facts}
            case protocol.Artifact(name, text):
                self.artifacts[name] = text
            case protocol.Result(metrics, pruned):
                _expect_distinct(metrics)
                self.has_result = True
                kept = PRUNED_METRICS if pruned else metrics.keys()
                self.metrics = {name: metrics[name] for name in metrics.keys() & kept}
                self.pruned = pruned
            case protocol.Failure(kind, message, detail):
                if kind in _OF_A_NODE:
                    message = f"node {platform.node()}: {message}"
                self.failure = FailureRecord(kind, message, detail)
                if len(message) > MESSAGE_LIMIT:
                    size = protocol.ARTIFACTS_KIB * 1024 // 4  # of UTF-8, at most
                    self.artifacts["failure_message.txt"] = message[:size]

    def set_aside(self, indices: Collection[int]) -> None:
        """Mark slices, counted from 0, that do not count."""
        for index in indices:
            self.slices[index] = replace(self.slices[index], set_aside=True)

    def end(self, failure: FailureRecord | None = None, *, output: str = "") -> None:
        """End the trial, with any failure; `output` is added to one that the trainer reported."""
        self.ended_s = self.started_s + self._lasted_s()
        if failure is not None:
            self.failure = failure
        elif self.failure is not None and output not in self.failure.output_tail:
            output = f"{self.failure.output_tail.strip()}\n{output}".strip()
            self.failure = replace(self.failure, output_tail=output)
        if self.failure is not None and self.failure.reason == "out_of_memory" and self.model:
            size = f"the model has {self.model.parameters:,} parameters ({self.model.mib:,.1f} MiB)"
            headline, newline, rest = self.failure.message.partition("\n")
            message = f"{headline}; {size}{newline}{rest}"
            self.failure = replace(self.failure, message=message)

    def packed_model(self) -> bytes:
        """Return the model that the trial kept, as a tar file, and delete it; empty if none."""
        packed = io.BytesIO()
        if self.model_path is None or self.failure is not None or not self.model_path.exists():
            return b""
        try:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                tar.add(self.model_path, arcname=".")
        except (OSError, tarfile.TarError):  # a part of a model is none
            return b""
        finally:
            shutil.rmtree(self.model_path, ignore_errors=True)
        return packed.getvalue()

    def outcome(self) -> Outcome:
        """Return the outcome, once the trial has ended."""
        queue_s = max(0.0, self.started_s - self.job.issued_s)
        sampled, record = dict[str, float](), Telemetry()
        if self.recording is not None:
            sampled, record = telemetry.record(self.recording, self.started_s, self.metrics)
        shared = _OF_A_ROUND if self.in_turns else _OF_THE_DEVICE if self.idle_on_gpu else ()
        sampled = {name: value for name, value in sampled.items() if name not in shared}
        placement: dict[str, str | int | bool] = {}
        if self.in_turns is not None:
            placement["in_turns"] = self.in_turns
        if self.job.neighbours:
            placement["neighbours_at_most"] = self.job.neighbours
        if self.cpus is not None:
            placement["trainer_cpus"] = ",".join(map(str, self.cpus))
        status: OutcomeStatus = "complete"
        if self.failure is not None:
            status = "failed"
        elif self.pruned:
            status = "pruned"
        elif self.kernel and not is_kernel_as_asked(self.kernel.asked, self.kernel.ran):
            status = "wrong_kernel"
        return Outcome(
            status=status,
            started_s=self.started_s,
            ended_s=self.ended_s,
            attempt=self.job.attempt,
            node=platform.node(),
            metrics={**sampled, **self.metrics, "queue_s": queue_s, "setup_s": self.setup_s},
            epochs=tuple(self.epochs),
            slices=tuple(self.slices),
            kernel=self.kernel,
            fingerprint=self.fingerprint,
            dataset=self.dataset,
            environment={**recorded_environment(), **placement, **self.environment},
            failure=self.failure,
            trainer_trials=self.trainer_trials,
            artifacts=self.artifacts,
            telemetry=record,
        )


def _expect_distinct(metrics: Mapping[str, float]) -> None:
    """Raise `ProtocolError` for two metrics that MLflow would store under one name."""
    names = dict[str, str]()
    for name in metrics:
        earlier = names.setdefault(entity_name(name), name)
        if earlier != name:
            raise protocol.ProtocolError(
                f"metrics: MLflow would store {earlier!r} and {name!r} under one name: rename one"
            )
