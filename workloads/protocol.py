"""Lines that a trainer process reads and writes: one JSON object per line.

A trainer (`python -m workloads`) reads one request per line on standard input and answers with
events on standard output; the last one is `Result` or `Failure`. A trial that takes turns sends
`Ready` once it is warm, and `Resting` whenever it waits for a command: `Slice`, to go on for one
turn, or `Finish`. A trial that trains whole, at its own pace, takes `Finish` at any time, to end
early. Seconds in events are readings of `time.monotonic`, which all processes of a Linux machine
share.
"""

import dataclasses
import json
import math
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import pydantic
from annotated_types import Ge, Lt

Device: TypeAlias = Literal["cpu", "gpu"]
TimedWork: TypeAlias = Literal["train", "predict"]
"""The work in a slice: training steps or predictions. It is also the name of its phase."""

NextWork: TypeAlias = Literal["load", "train", "validate", "finish"]
"""What a resting trial does next: a slice of its timed work, a validation, or its end."""

FailureKind: TypeAlias = Literal[
    "error",  # the workload raised
    "non_finite",  # a loss or a metric is NaN or infinite
    "not_possible",  # the implementation cannot run these settings on this machine
    "data",  # the data set is missing, or is not the expected one
    "bad_request",  # the request line was wrong
    "out_of_memory",  # the memory of the GPU or the node ran out, perhaps unsaid by the trainer
]

MODEL_KIND = "model_kind"
"""The fact of a trial's environment that says what its `build` returned, if no Keras model."""

MODULE_KIND = "PyTorch module"

RECURRENT_LAYERS = "recurrent_layers"
"""The fact of a trial's environment that names the classes of a Keras model's recurrent layers, as
its author wrote them, separated by commas."""

CHECKPOINT_MIB = 256
"""The limit on a model that is kept: it passes through the memory of Ray and of the driver."""

ARTIFACTS, ARTIFACTS_KIB = 16, 256
"""Limits on the number of a trial's texts, and on their total size in UTF-8: they pass through
the driver's memory and its journal."""

Integer: TypeAlias = Annotated[int, pydantic.Strict()]
StrictCount: TypeAlias = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1)]
StrictNumber: TypeAlias = Annotated[pydantic.FiniteFloat, pydantic.Strict()]
Seconds: TypeAlias = Annotated[pydantic.FiniteFloat, pydantic.Strict(), pydantic.Field(gt=0)]

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ProtocolError(ValueError):
    """A line that breaks this protocol; the message says how."""


class _Message:
    """A line: a dataclass whose fields are checked when it is read."""

    __slots__ = ()
    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class TrialRequest(_Message):
    """A request to run one trial.

    `settings` are the sweep's fixed settings and the block's config, merged. `data_digest` is the
    expected digest of the data set, `code` the expected digests of the files of a user's own
    workload; a trainer with others refuses the trial. With `measure: timing` it trains, or predicts
    (`timed_work`), until it is told to finish, and always takes turns; a whole training takes turns
    if it is `in_turns`. With `rests_when_imported` a trial in turns also rests before it loads its
    data, if it had to import the framework. A slice takes about `slice_s`. The model that the
    workload keeps is copied to the folder `model_path`. With `fingerprint` the trial computes a
    `Fingerprint` before its warm-up.
    """

    workload: str
    implementation: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: Device = "cpu"
    seed: Annotated[int, pydantic.Strict(), pydantic.Field(ge=0)] = 0
    data_digest: str | None = None
    measure: Literal["full", "timing"] = "full"
    slice_s: Seconds = 0.05
    timed_work: TimedWork = "train"
    model_path: str | None = None
    fingerprint: bool = False
    in_turns: bool = False
    rests_when_imported: bool = False
    code: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slice(_Message):
    """A command to go on: with about `steps` steps (None: as many as `Ready` suggested), or with
    what `Resting` announced."""

    command: ClassVar[str] = "slice"
    steps: StrictCount | None = None


@dataclass(frozen=True, slots=True)
class Finish(_Message):
    """A command to train no more, prove the kernel, and end the trial.

    `set_aside` are the slices, counted from 0, that do not count: other processes disturbed them. A
    whole training that has epochs left ends as pruned, after its current epoch.
    """

    command: ClassVar[str] = "finish"
    set_aside: tuple[Integer, ...] = ()


RoundCommand: TypeAlias = Slice | Finish


@dataclass(frozen=True, slots=True)
class PhaseBegan(_Message):
    """The start of a phase: import, load, check, compile, train, evaluate, predict or another."""

    event: ClassVar[str] = "phase_began"
    phase: str
    at_s: StrictNumber


@dataclass(frozen=True, slots=True)
class PhaseEnded(_Message):
    """The end of a phase at `at_s`; `seconds` is its synchronised wall time.

    Energy is measured in the windows of the timed work, `train` or `predict`: from `at_s - seconds`
    to `at_s`.
    """

    event: ClassVar[str] = "phase_ended"
    phase: str
    at_s: StrictNumber
    seconds: StrictNumber


@dataclass(frozen=True, slots=True)
class Epoch(_Message):
    """A timed epoch. `seconds` covers training only; `validate_s` the validation after it."""

    event: ClassVar[str] = "epoch"
    index: Annotated[int, pydantic.Strict(), Ge(-(2**31)), Lt(2**31)]
    seconds: StrictNumber
    validate_s: StrictNumber | None = None
    metrics: Mapping[str, StrictNumber] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready(_Message):
    """A trial that is warm. A slice of `slice_steps` takes about `slice_s`.

    A pass over the data has `pass_steps`, and a whole training `passes`; None if not known.
    """

    event: ClassVar[str] = "ready"
    slice_steps: Integer
    pass_steps: Integer | None = None
    passes: Integer | None = None


@dataclass(frozen=True, slots=True)
class Resting(_Message):
    """A trial that waits for a command, with what it does at the next one."""

    event: ClassVar[str] = "resting"
    before: NextWork


@dataclass(frozen=True, slots=True)
class SliceDone(_Message):
    """A finished slice: the number of whole steps, and their synchronised wall time.

    A step is a training step, or the prediction of a batch (`TrialRequest.timed_work`), and in a
    training loop of a user's own it is an epoch. One that was `set_aside` does not count.
    """

    event: ClassVar[str] = "slice_done"
    steps: StrictCount
    seconds: Seconds
    set_aside: bool = False

    @property
    def step_ms(self) -> float:
        """Milliseconds of one step."""
        return 1_000 * self.seconds / self.steps


@dataclass(frozen=True, slots=True)
class ModelBuilt(_Message):
    """The size of the model: its `parameters`, and the MiB that they take."""

    event: ClassVar[str] = "model_built"
    parameters: Integer
    mib: StrictNumber


@dataclass(frozen=True, slots=True)
class KernelProof(_Message):
    """The kernel that was asked for, the kernel that ran, and the evidence for it."""

    event: ClassVar[str] = "kernel"
    asked: str
    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Fingerprint(_Message):
    """What a model computes from its initial weights and its first samples, without dropout.

    `outputs` are some of its outputs, evenly spread over all of them, whose root mean square is
    `output_rms`. For each weight array, in the layout and the order that all implementations share,
    `gradient_norms` has the Euclidean norm of the gradient of the loss, `gradient_projections` its
    product with a fixed vector of signs. They are empty if a gradient is not finite.
    """

    event: ClassVar[str] = "fingerprint"
    outputs: tuple[StrictNumber, ...]
    output_rms: StrictNumber
    gradient_norms: tuple[StrictNumber, ...] = ()
    gradient_projections: tuple[StrictNumber, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset(_Message):
    """The loaded data, with the `digest` of their source; `samples` counts the training part."""

    event: ClassVar[str] = "dataset"
    name: str
    digest: str
    source: str
    samples: Integer
    validation_samples: Integer


@dataclass(frozen=True, slots=True)
class EnvironmentFacts(_Message):
    """Versions and devices of the trainer, by name."""

    event: ClassVar[str] = "environment"
    facts: Mapping[str, str | Integer | StrictNumber | pydantic.StrictBool | None]


@dataclass(frozen=True, slots=True)
class Artifact(_Message):
    """A text to store with the trial, by a plain file name (`sample.txt`); the last one counts."""

    event: ClassVar[str] = "artifact"
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Result(_Message):
    """The end of a successful trial. `metrics` are named as in MLflow, with units in the name.

    A `pruned` trial ended before its last epoch, because it was asked to (`Finish`).
    """

    event: ClassVar[str] = "result"
    metrics: Mapping[str, StrictNumber]
    pruned: pydantic.StrictBool = False


@dataclass(frozen=True, slots=True)
class Failure(_Message):
    """The end of a failed trial; the trainer then takes the next request."""

    event: ClassVar[str] = "failure"
    kind: FailureKind
    message: str
    detail: str = ""


TrialEnding: TypeAlias = Result | Failure
TrialFact: TypeAlias = (
    ModelBuilt | KernelProof | Fingerprint | Dataset | EnvironmentFacts | Artifact
)
Event: TypeAlias = (
    PhaseBegan | PhaseEnded | Epoch | Ready | Resting | SliceDone | TrialFact | TrialEnding
)

MessageType = TypeVar("MessageType")
_REQUEST = pydantic.TypeAdapter(TrialRequest)
_COMMANDS: Mapping[str, pydantic.TypeAdapter[RoundCommand]] = {
    kind.command: pydantic.TypeAdapter(kind) for kind in typing.get_args(RoundCommand)
}
_EVENTS: Mapping[str, pydantic.TypeAdapter[Event]] = {
    kind.event: pydantic.TypeAdapter(kind) for kind in typing.get_args(Event)
}


def artifact_refusal_reason(artifact: Artifact, stored: Mapping[str, str]) -> str | None:
    """Return why a trial with these texts (by name) cannot store this one; None if it can."""
    if not _FILE_NAME.fullmatch(artifact.name):
        return (
            "expected a file name of at most 100 letters, digits, '.', '_' and '-', such as"
            f" sample.txt; received {artifact.name!r:.120}"
        )
    texts = {**stored, artifact.name: artifact.text}
    if len(texts) > ARTIFACTS:
        return f"a trial can have {ARTIFACTS} texts, and {artifact.name!r} is one more"
    size_kib = math.ceil(sum(len(text.encode(errors="replace")) for text in texts.values()) / 1024)
    if size_kib > ARTIFACTS_KIB:
        return (
            f"a trial can have {ARTIFACTS_KIB} KiB of texts, and has {size_kib} KiB with"
            f" {artifact.name!r}: shorten it, or write it to a file of your own"
        )
    return None


def encode_message(message: TrialRequest | RoundCommand | Event) -> str:
    """Return a request, a command or an event as one line, without its newline.

    Raise `ProtocolError` for NaN, for infinite numbers, and for types that JSON does not have.
    """
    body = {item.name: getattr(message, item.name) for item in dataclasses.fields(message)}
    for tag in ("command", "event"):
        if hasattr(message, tag):
            body = {tag: getattr(message, tag), **body}
    try:
        return json.dumps(body, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"cannot be written as a line of JSON: {error}: {body!r}") from error


def decode_request(line: str) -> TrialRequest:
    """Read a request line; raise `ProtocolError` for any other line."""
    return _validated(_REQUEST, _object(line), "request")


def decode_command(line: str) -> RoundCommand:
    """Read a command line; raise `ProtocolError` for any other line."""
    return _tagged(_object(line), "command", _COMMANDS)


def is_command(line: str) -> bool:
    """Return True if a line is meant as a command, even an invalid one."""
    try:
        return "command" in _object(line)
    except ProtocolError:
        return False


def decode_event(line: str) -> Event:
    """Read an event line; raise `ProtocolError` for any other line."""
    return _tagged(_object(line), "event", _EVENTS)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item"):  # numpy's scalars, without importing numpy
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _object(line: str) -> dict[str, Any]:
    try:
        body = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            f"expected one JSON object per line; {error}: {line[:200]!r}"
        ) from error
    if not isinstance(body, dict):
        raise ProtocolError(f"expected a JSON object; received {type(body).__name__}")
    return body


def _refuse_constant(name: str) -> float:
    raise ProtocolError(f"expected finite numbers; received {name}")


def _tagged(
    body: dict[str, Any], tag: str, kinds: Mapping[str, pydantic.TypeAdapter[MessageType]]
) -> MessageType:
    """Read a message of one of these kinds, by the value of its field `tag`."""
    name = body.pop(tag, None)
    if not isinstance(name, str) or name not in kinds:
        raise ProtocolError(f"'{tag}': expected one of {', '.join(kinds)}; received {name!r}")
    return _validated(kinds[name], body, name)


def _validated(
    adapter: pydantic.TypeAdapter[MessageType], body: dict[str, Any], name: str
) -> MessageType:
    try:
        return adapter.validate_python(body)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join([name, *map(str, fault["loc"])])
        reasons = {
            "missing": "this field is missing",
            "unexpected_keyword_argument": "unknown field",
        }
        reason = reasons.get(fault["type"], f"{fault['msg']}; received {fault['input']!r:.200}")
        raise ProtocolError(f"{field}: {reason}") from None
