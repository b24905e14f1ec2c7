"""The vocabulary as frozen data that JSON can hold: configs, blocks, trials, outcomes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.errors import printable
from workloads import protocol
from workloads.implementations import is_kernel_as_asked

_T = TypeVar("_T")

_Fact: TypeAlias = str | int | float | bool | None

ENVIRONMENTS_SHARED = 1_024
"""As many different environments are kept to be shared: a sweep has one for each backend and node,
and some more where trials had neighbours."""


@lru_cache(ENVIRONMENTS_SHARED)
def _environment_of(items: tuple[tuple[str, type, _Fact], ...]) -> Mapping[str, _Fact]:
    """Return the environment of these items. Types are part of them: True is not the fact 1."""
    return {name: fact for name, _, fact in items}


def share_environment(environment: Mapping[str, _Fact]) -> Mapping[str, _Fact]:
    """Return one object for equal environments: they are most of what a trial leaves in memory.

    The order of the names counts, too.
    """
    return _environment_of(tuple((name, type(fact), fact) for name, fact in environment.items()))


Environment: TypeAlias = Annotated[Mapping[str, _Fact], AfterValidator(share_environment)]
Scalar: TypeAlias = bool | int | float | str
ConfigValue: TypeAlias = Scalar | tuple[Scalar | None, ...] | None
"""A value of a parameter: None for null, and a tuple for a list of a spec."""
Config: TypeAlias = Mapping[str, ConfigValue]
"""The sizes and settings that one Optuna suggestion gives."""

OutcomeStatus: TypeAlias = Literal["complete", "failed", "wrong_kernel", "pruned"]
FailureReason: TypeAlias = Literal[
    protocol.FailureKind,  # what the trainer reports itself
    "crash",  # the trainer process ended by itself
    "time_limit",  # limits.trial_s
    "hung",  # no event and no CPU time for limits.idle_s
    "protocol",  # the trainer wrote a line that is not of the protocol
    "lost",  # the worker was lost more often than limits.attempts allows, or the GPU was
]


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number. A bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def config_text(config: Config) -> str:
    """Return a config in a few words: `units=32 layers=1`."""
    texts = {n: f"{v:.3g}" if isinstance(v, float) else value_text(v) for n, v in config.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())


@dataclass(frozen=True, slots=True)
class Block:
    """One config, run on every arm of the sweep, so that comparisons are paired."""

    index: int
    config: Config


@dataclass(frozen=True, slots=True)
class Trial:
    """One config on one arm, once. `key` is the same in every start of the sweep.

    All arms of a repeat share the `seed` of their weights and the order of their batches.
    """

    key: str
    block: int
    config: Config
    arm: Arm
    repeat: int
    seed: int

    @property
    def params(self) -> Config:
        """The config, and the settings of the arm's variant."""
        variant = self.arm.variant
        return {**self.config, **variant.settings} if variant else self.config


EpochRecord: TypeAlias = protocol.Epoch
SliceRecord: TypeAlias = protocol.SliceDone
Kernel: TypeAlias = protocol.KernelProof
FingerprintRecord: TypeAlias = protocol.Fingerprint
DatasetRecord: TypeAlias = protocol.Dataset
"""Events of a trainer that its trial's outcome keeps as they are."""

MESSAGE_LIMIT = 16 * 1024  # characters of a failure's text


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """Why a trial failed: a reason, a message, and the trainer's last output.

    The first line of the message is complete in itself; the next lines have the last calls of a
    user's code. Control characters are escaped, and long texts are cut.
    """

    reason: FailureReason
    message: str
    output_tail: str = ""

    def __post_init__(self) -> None:
        for name in ("message", "output_tail"):
            object.__setattr__(self, name, printable(getattr(self, name), MESSAGE_LIMIT))

    @property
    def headline(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]

    @property
    def text(self) -> str:
        """`reason: headline`."""
        return f"{self.reason}: {self.headline}"


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Measurements of a trial from outside its trainer, besides its metrics.

    Attributes (None if not measured):
        energy_method: How the energy was measured.
        energy_scope: The devices whose energy was measured.
        energy_absent: Why energy was not measured.
        throttle_reasons: Why GPU clocks were reduced, each reason with its share of the samples in
            percent.
        other_trainers: The most other trainers on the node at once.
        other_gpu_processes: The most other processes on the GPUs at once.
        at_s: The times of the curves, in seconds after the start of the trial.
        curves: By name, a value or None for each of these times.
    """

    energy_method: str | None = None
    energy_scope: str | None = None
    energy_absent: str | None = None
    throttle_reasons: Mapping[str, float] | None = None
    other_trainers: int | None = None
    other_gpu_processes: int | None = None
    at_s: tuple[float, ...] = ()
    curves: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    @property
    def was_recorded(self) -> bool:
        """Whether the trial was watched: then its energy has a method, or a reason for none."""
        return self.energy_method is not None or self.energy_absent is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial. Times are seconds since the epoch (UTC).

    Attributes:
        status: How it ended. A `pruned` trial ended before its last epoch: it has times per step
            and `epochs`, but no results.
        trainer_trials: The number of earlier trials of the same trainer process. Peak memory is
            comparable only if it is 0.
        artifacts: Texts that the workload saved, by file name.
        disturbance: What disturbed the trial, each cause with its figure.
        round_id: The round, whose trials took turns. Trials of rnnsweep 0.1.0 that ran alone have
            none.
        cost_basis: The prices from which the costs were computed.
    """

    status: OutcomeStatus
    started_s: float
    ended_s: float
    attempt: int = 1
    node: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    epochs: tuple[EpochRecord, ...] = ()
    slices: tuple[SliceRecord, ...] = ()
    kernel: Kernel | None = None
    fingerprint: FingerprintRecord | None = None
    dataset: DatasetRecord | None = None
    environment: Environment = field(default_factory=dict)
    failure: FailureRecord | None = None
    trainer_trials: int = 0
    artifacts: Mapping[str, str] = field(default_factory=dict)
    telemetry: Telemetry = field(default_factory=Telemetry)
    disturbance: Mapping[str, float] = field(default_factory=dict)
    round_id: str | None = None
    cost_basis: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial with its outcome, and the fields of both.

    `run_id` is the ID of its run in MLflow, empty until the trial is recorded there. It is neither
    compared nor stored with the result.
    """

    trial: Trial
    outcome: Outcome
    run_id: Annotated[str, Field(exclude=True)] = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The key of the trial, the same in every start of the sweep."""
        return self.trial.key

    @property
    def block(self) -> int:
        """The index of its block."""
        return self.trial.block

    @property
    def config(self) -> Config:
        """The config of its block."""
        return self.trial.config

    @property
    def params(self) -> Config:
        """The config, and the settings of the arm's variant."""
        return self.trial.params

    @property
    def arm(self) -> Arm:
        """The arm that it ran on."""
        return self.trial.arm

    @property
    def repeat(self) -> int:
        """The index of its round in the block."""
        return self.trial.repeat

    @property
    def seed(self) -> int:
        """The seed, which all arms of the round share."""
        return self.trial.seed

    @property
    def status(self) -> OutcomeStatus:
        """How it ended."""
        return self.outcome.status

    @property
    def started_s(self) -> float:
        """When it started, in seconds since the epoch."""
        return self.outcome.started_s

    @property
    def ended_s(self) -> float:
        """When it ended, in seconds since the epoch."""
        return self.outcome.ended_s

    @property
    def attempt(self) -> int:
        """The number of the attempt that ended it, from 1."""
        return self.outcome.attempt

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.outcome.node

    @property
    def metrics(self) -> Mapping[str, float]:
        """Its metrics by name; `workloads.metrics` describes them."""
        return self.outcome.metrics

    @property
    def epochs(self) -> tuple[EpochRecord, ...]:
        """Its epochs; none for a trial in slices."""
        return self.outcome.epochs

    @property
    def kernel(self) -> Kernel | None:
        """The proof of the kernel that ran."""
        return self.outcome.kernel

    @property
    def fingerprint(self) -> FingerprintRecord | None:
        """What its model computes at the initial weights, to compare it between arms."""
        return self.outcome.fingerprint

    @property
    def failure(self) -> FailureRecord | None:
        """Why it failed; None if it did not."""
        return self.outcome.failure

    @property
    def trainer_trials(self) -> int:
        """The earlier trials of the same trainer process."""
        return self.outcome.trainer_trials

    @property
    def slices(self) -> tuple[SliceRecord, ...]:
        """Its slices, in their order."""
        return self.outcome.slices

    @property
    def telemetry(self) -> Telemetry:
        """What was measured from outside the trainer."""
        return self.outcome.telemetry

    @property
    def disturbance(self) -> Mapping[str, float]:
        """What disturbed it, each cause with its figure."""
        return self.outcome.disturbance

    @property
    def round_id(self) -> str | None:
        """The id of its round, whose trials took turns; None if that was not recorded."""
        return self.outcome.round_id

    @property
    def cost_basis(self) -> str | None:
        """The prices from which its costs were computed."""
        return self.outcome.cost_basis

    @property
    def has_times(self) -> bool:
        """Whether its times per step count: it is complete, or pruned with the right kernel."""
        is_its_kernel = self.kernel is None or is_kernel_as_asked(
            self.kernel.asked, self.kernel.ran
        )
        return self.status == "complete" or (self.status == "pruned" and is_its_kernel)


def pruned_blocks(finished: Iterable[FinishedTrial]) -> frozenset[int]:
    """Return the blocks that a pruner ended: those with a pruned trial."""
    return frozenset(trial.block for trial in finished if trial.status == "pruned")


def count_spared(finished: Sequence[FinishedTrial], arms: Sequence[Arm], repeats: int) -> int:
    """Return how many trials of these arms never run, because their block is pruned."""
    pruned = pruned_blocks(finished)
    ran = {
        (trial.block, trial.arm, trial.repeat)
        for trial in finished
        if trial.block in pruned and trial.arm in arms and trial.repeat < repeats
    }
    return len(pruned) * len(arms) * repeats - len(ran)


def count_expected(
    blocks: Collection[int], arms: Sequence[Arm], repeats: int, finished: Sequence[FinishedTrial]
) -> int:
    """Return how many trials a sweep has at its end.

    These are the trials of the plan (blocks × arms × repeats), without those that a pruned block
    spares, and the finished ones that only an earlier start planned.
    """
    in_blocks = [trial for trial in finished if trial.block in blocks]
    planned = sum(trial.arm in arms and trial.repeat < repeats for trial in in_blocks)
    of_plan = len(blocks) * len(arms) * repeats - count_spared(in_blocks, arms, repeats)
    return of_plan + len(finished) - planned


@dataclass(frozen=True, slots=True)
class ImpossibleArm:
    """An arm that was requested and cannot run, with its reason."""

    arm: RequestedArm
    reason: str


@dataclass(frozen=True, slots=True)
class SweepIdentity:
    """The inputs that make trials of one sweep comparable. Any change of them is another sweep.

    `generation` counts the starts with `--fresh` under one name, from 1. `code` has a digest of
    each file of a user's own workload; a user may declare that a change of it does not matter.
    `code_commit` is the commit of the user's repository, with `-dirty` if the files differ from it.
    `timed_work` is what slices time.
    """

    name: str
    generation: int
    workload: str
    settings: Mapping[str, Any]
    search: Mapping[str, Any]
    seed: int
    data_digest: str | None
    code: Mapping[str, str] = field(default_factory=dict)
    code_commit: str | None = None
    timed_work: protocol.TimedWork = "train"

    @property
    def label(self) -> str:
        """`quickstart`, or `quickstart#2` for the second generation."""
        return self.name if self.generation == 1 else f"{self.name}#{self.generation}"

    @property
    def sampler(self) -> str:
        """The name of the sampler; empty if the search has none."""
        chosen = self.search.get("sampler", "")  # its name, or a mapping of name and options
        return str(chosen if isinstance(chosen, str) else chosen["name"])

    @property
    def code_facts(self) -> dict[str, str]:
        """The digest and the commit of the code of a user's own workload, as they are recorded."""
        facts = {"code": digest(self.code) if self.code else None, "git_commit": self.code_commit}
        return {name: text for name, text in facts.items() if text}

    def code_changes(self, later: SweepIdentity) -> list[str]:
        """Return a text for each file of the code that differs later: `changed: mine/model.py`."""
        before, after = self.code, later.code
        names = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
        kinds = (
            "added" if n not in before else "changed" if n in after else "removed" for n in names
        )
        return [f"{kind}: {name}" for kind, name in zip(kinds, names, strict=True)]


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_jsonable)
"""Made once: `json.dumps` would make one for each call, of which a trial has several."""


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: equal data, equal text."""
    return _CANONICAL.encode(value)


def value_text(value: object) -> str:
    """Return a text as it is, and any other value of a config or setting as JSON."""
    return value if isinstance(value, str) else canonical(value)


def validated_json(adapter: TypeAdapter[_T], value: _T) -> bytes:
    """Return JSON as `adapter` writes it, with `?` for text that UTF-8 cannot encode.

    Texts of a trial come from user code. A message that names an undecodable file has lone
    surrogates, and must not end the sweep.
    """
    try:
        return adapter.dump_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):
        plain = adapter.dump_python(value)
        return json.dumps(plain, ensure_ascii=False, default=_jsonable).encode(errors="replace")


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of `canonical(value)`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def derive_seed(*parts: Scalar) -> int:
    """Return a seed below 2**31 that depends on every part: (sweep seed, "block", 3), …"""
    return int.from_bytes(hashlib.sha256(canonical(parts).encode()).digest()[:4]) >> 1


def make_trial(identity: SweepIdentity, block: Block, arm: Arm, repeat: int) -> Trial:
    """Return the trial of a block on an arm. Its key identifies it in every start of the sweep."""
    of_sweep = identity.label, block.index, identity.workload, identity.settings
    key = digest([*of_sweep, block.config, arm.identity, repeat, identity.data_digest])
    seed = derive_seed(identity.seed, "trial", block.index, repeat)
    return Trial(key, block.index, block.config, arm, repeat, seed)


outcome_adapter: TypeAdapter[Outcome] = TypeAdapter(Outcome)
