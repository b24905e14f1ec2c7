"""Lines that a trainer process reads and writes: one JSON object per line.

A trainer (`python -m workloads`) reads one request per line on standard input and answers
with events on standard output. The last event is `Result` or `Failure`. A trial that is timed
in slices (`measure` is `timing`) sends `Ready` once it is warm, and then takes commands on
standard input: `Slice`, which it answers with `SliceDone`, and finally `Finish`. This module needs
the standard library only: a trainer in another environment (or language) can use the same lines,
and the orchestrator can read them without importing a framework.

Seconds in events are readings of the system's monotonic clock (`time.monotonic`). On Linux all
processes of a machine share this clock, so events line up with telemetry from other processes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

Device: TypeAlias = Literal["cpu", "gpu"]
FailureKind: TypeAlias = Literal[
    "error",  # the workload raised
    "non_finite",  # a loss or a metric is NaN or infinite
    "not_possible",  # the implementation cannot run these settings on this machine
    "data",  # the data set is missing, or is not the expected one
    "bad_request",  # the request line was wrong
]

ARTIFACTS, ARTIFACTS_KIB = 16, 256
"""Limits on the number of a trial's texts, and on their total size in UTF-8: they pass through
the driver's memory and its journal."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ProtocolError(ValueError):
    """A line that breaks this protocol; the message has the expected and the received value."""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A request to run one trial.

    `settings` are the sweep's fixed settings and the block's config, merged. `data_digest` is the
    expected digest of the data set; a node with other data refuses the trial. With
    `measure: timing` the trial is timed in slices on command; a slice takes about `slice_s`.
    """

    workload: str
    implementation: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: Device = "cpu"
    seed: int = 0
    data_digest: str | None = None
    measure: Literal["full", "timing"] = "full"
    slice_s: float = 0.25


@dataclass(frozen=True, slots=True)
class Slice:
    """A command to train for about `steps` steps; None: as many as `Ready` suggested."""

    command: ClassVar[str] = "slice"
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """A command to run no more slices, prove the kernel, and end the trial."""

    command: ClassVar[str] = "finish"


Command: TypeAlias = Slice | Finish
_COMMANDS: Mapping[str, type[Command]] = {kind.command: kind for kind in typing.get_args(Command)}


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """The start of a phase (`import`, `load`, `compile`, `train`, `evaluate`, `predict`)."""

    event: ClassVar[str] = "phase_began"
    phase: str
    at_s: float


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """The end of a phase at `at_s`; `seconds` is its synchronised wall time.

    Energy is measured in the windows of `train`, the timed epochs: from `at_s - seconds` to `at_s`.
    """

    event: ClassVar[str] = "phase_ended"
    phase: str
    at_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """A timed epoch. `seconds` covers training only; `validate_s` the validation after it."""

    event: ClassVar[str] = "epoch"
    index: int
    seconds: float
    validate_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """A warm trial that waits for a command. A slice of `slice_steps` takes about `slice_s`."""

    event: ClassVar[str] = "ready"
    slice_steps: int


@dataclass(frozen=True, slots=True)
class SliceDone:
    """A finished slice: the number of whole training steps, and their synchronised wall time."""

    event: ClassVar[str] = "slice_done"
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelProof:
    """The kernel that was asked for, the kernel that ran, and the evidence for it."""

    event: ClassVar[str] = "kernel"
    asked: str
    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """The loaded data: `digest` is that of the source, `samples` counts the training part."""

    event: ClassVar[str] = "dataset"
    name: str
    digest: str
    source: str
    samples: int
    validation_samples: int


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and devices of the trainer, by name."""

    event: ClassVar[str] = "environment"
    facts: Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A text to store with the trial: `name` is a plain file name such as `sample.txt`.

    A second text of the same name replaces the first one.
    """

    event: ClassVar[str] = "artifact"
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a successful trial. `metrics` are named as in MLflow, with units in the name."""

    event: ClassVar[str] = "result"
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a failed trial; the trainer then takes the next request."""

    event: ClassVar[str] = "failure"
    kind: FailureKind
    message: str
    detail: str = ""


Event: TypeAlias = (
    PhaseBegan
    | PhaseEnded
    | Epoch
    | Ready
    | SliceDone
    | KernelProof
    | Dataset
    | Environment
    | Artifact
    | Result
    | Failure
)
_EVENTS: Mapping[str, type[Event]] = {kind.event: kind for kind in typing.get_args(Event)}


def artifact_refusal_reason(artifact: Artifact, stored: Mapping[str, str]) -> str | None:
    """Return why a trial with these texts (by name) cannot store this one; None if it can."""
    if not _FILE_NAME.fullmatch(artifact.name):
        return (
            "expected a plain file name of at most 100 letters, digits, '.', '_' and '-', such as"
            f" sample.txt; received {artifact.name!r:.120}"
        )
    texts = {**stored, artifact.name: artifact.text}
    if len(texts) > ARTIFACTS:
        return f"expected at most {ARTIFACTS} texts of a trial; {artifact.name!r} is one too many"
    size_kib = math.ceil(sum(len(text.encode(errors="replace")) for text in texts.values()) / 1024)
    if size_kib > ARTIFACTS_KIB:
        return (
            f"expected at most {ARTIFACTS_KIB} KiB of texts of a trial; {size_kib} KiB with"
            f" {artifact.name!r}: shorten it, or write large texts to a file of your own"
        )
    return None


def encode(message: TrialRequest | Command | Event) -> str:
    """Return a request, a command or an event as one line, without its newline.

    Raises:
        ProtocolError: a number is NaN or infinite (JSON has neither), or a value has a type that
            JSON does not have.
    """
    body = {item.name: getattr(message, item.name) for item in dataclasses.fields(message)}
    match message:
        case Slice() | Finish():
            body = {"command": message.command, **body}
        case TrialRequest():
            pass
        case _:
            body = {"event": message.event, **body}
    try:
        return json.dumps(body, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"cannot be written as a line of JSON: {error}: {body!r}") from error


def decode_request(line: str) -> TrialRequest:
    """Read a request line.

    Raises:
        ProtocolError: unknown or missing fields, or wrong types.
    """
    request: TrialRequest = _build(TrialRequest, _object(line), "request")
    if request.slice_s <= 0:
        raise ProtocolError(f"request.slice_s: expected more than 0; received {request.slice_s:g}")
    return request


def decode_command(line: str) -> Command:
    """Read a command line.

    Raises:
        ProtocolError: an unknown command, unknown fields, or wrong types.
    """
    command: Command = _tagged(line, "command", _COMMANDS)
    if isinstance(command, Slice) and command.steps is not None and command.steps < 1:
        raise ProtocolError(f"slice.steps: expected at least 1; received {command.steps}")
    return command


def is_command(line: str) -> bool:
    """Return True if a line is meant as a command, even an invalid one."""
    try:
        return "command" in _object(line)
    except ProtocolError:
        return False


def decode_event(line: str) -> Event:
    """Read an event line.

    Raises:
        ProtocolError: an unknown event, unknown or missing fields, or wrong types.
    """
    event: Event = _tagged(line, "event", _EVENTS)
    if isinstance(event, SliceDone) and (event.steps < 1 or event.seconds <= 0):
        raise ProtocolError(
            "slice_done: expected at least 1 step, and more than 0 seconds for them; received"
            f" {event.steps} steps and {event.seconds:g} s"
        )
    return event


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item"):  # numpy's scalars, without importing numpy
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def _tagged(line: str, tag: str, kinds: Mapping[str, type]) -> Any:
    """Read a line of one of these kinds, by the value of its field `tag`."""
    body = _object(line)
    name = body.pop(tag, None)
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(f"'{tag}': expected one of {', '.join(kinds)}; received {name!r}")
    return _build(kind, body, name)


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


def _build(kind: type, body: dict[str, Any], name: str) -> Any:
    hints = typing.get_type_hints(kind)
    fields = {item.name: item for item in dataclasses.fields(kind)}
    if unknown := sorted(set(body) - set(fields)):
        raise ProtocolError(f"{name}: unknown field {unknown[0]!r}; known: {', '.join(fields)}")
    for item in fields.values():
        if item.name not in body:
            if item.default is item.default_factory is dataclasses.MISSING:
                raise ProtocolError(f"{name}: field {item.name!r} is missing")
            continue
        body[item.name] = _checked(body[item.name], hints[item.name], f"{name}.{item.name}")
    return kind(**body)


def _checked(value: Any, hint: Any, place: str) -> Any:
    """Return `value` converted to the type `hint`; raise `ProtocolError` if it does not fit."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for alternative in arguments:
            try:
                return _checked(value, alternative, place)
            except ProtocolError:
                continue
    elif origin is Literal:
        if value in arguments:
            return value
    elif hint is Any:
        return value
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
            return float(value)
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif hint is type(None):
        if value is None:
            return None
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if isinstance(value, dict):
            return {
                key: _checked(item, arguments[1], f"{place}.{key}") for key, item in value.items()
            }
    elif isinstance(hint, type) and isinstance(value, hint):
        return value
    expected = (
        " or ".join(map(str, arguments)) if origin is Literal else getattr(hint, "__name__", hint)
    )
    raise ProtocolError(f"{place}: expected {expected}; received {value!r}")
