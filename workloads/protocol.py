"""The lines that a trainer process reads and writes: one JSON object a line.

A trainer (`python -m workloads`) reads one request per line on standard input and answers
with events on standard output, of which the last is `Result` or `Failure`. A trial that is timed
in slices (`measure` is `timing`) says `Ready` once it is warm, and then takes commands on standard
input: `Slice`, which it answers with `SliceDone`, and at last `Finish`. This module needs
the standard library only, so that a trainer in another environment (or language) can speak
the same lines, and so that the orchestrator can read them without importing a framework.

Seconds in events are readings of the system's monotonic clock (`time.monotonic`), which on
Linux is one clock for all processes of a machine: telemetry sampled from outside lines up.
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
    "not_possible",  # the implementation cannot run these settings here
    "data",  # the data set is missing, or is not the one that was asked for
    "bad_request",  # the request line was wrong
]

ARTIFACTS, ARTIFACTS_KIB = 16, 256
"""How many texts a trial may keep, and how large they may be together, in UTF-8: they go through
the driver's memory and its journal."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ProtocolError(ValueError):
    """A line that is not of this protocol: says what was expected and what was received."""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """One trial, as a trainer is asked for it.

    `settings` hold the sweep's fixed settings and the block's config, merged. `data_digest`,
    where given, is what the data set must hash to: a node with other data refuses the trial.
    With `measure: timing` it is timed in slices, as it is told; one is to take about `slice_s`.
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
    """Take a slice of about so many steps; of as many as `Ready` suggested where none are told."""

    command: ClassVar[str] = "slice"
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Take no more slices: prove the kernel and end the trial."""

    command: ClassVar[str] = "finish"


Command: TypeAlias = Slice | Finish
_COMMANDS: Mapping[str, type[Command]] = {kind.command: kind for kind in typing.get_args(Command)}


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """A phase (`import`, `load`, `compile`, `train`, `evaluate`, `predict`) begins."""

    event: ClassVar[str] = "phase_began"
    phase: str
    at_s: float


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase ended at `at_s`; `seconds` is its synchronised wall time.

    The windows of `train`, the timed epochs, are what energy is told of: from `at_s - seconds` on.
    """

    event: ClassVar[str] = "phase_ended"
    phase: str
    at_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One timed epoch. `seconds` covers training only; `validate_s` the validation after it."""

    event: ClassVar[str] = "epoch"
    index: int
    seconds: float
    validate_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """Warm, and waiting for a command. A slice of `slice_steps` takes about `slice_s`."""

    event: ClassVar[str] = "ready"
    slice_steps: int


@dataclass(frozen=True, slots=True)
class SliceDone:
    """A slice of so many whole training steps, and their synchronised wall time."""

    event: ClassVar[str] = "slice_done"
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelProof:
    """Which kernel was asked for, which one ran, and what shows it."""

    event: ClassVar[str] = "kernel"
    asked: str
    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """The data that was loaded: `digest` is that of the source, `samples` counts the train part."""

    event: ClassVar[str] = "dataset"
    name: str
    digest: str
    source: str
    samples: int
    validation_samples: int


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and devices of the trainer: flat names to plain values."""

    event: ClassVar[str] = "environment"
    facts: Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A text to keep beside the trial: `name` is a plain file name such as `sample.txt`.

    One of a name that the trial has used before takes the place of that one.
    """

    event: ClassVar[str] = "artifact"
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """The trial is complete. `metrics` are named as in MLflow, units in the name."""

    event: ClassVar[str] = "result"
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """The trial failed; the trainer goes on and takes the next request."""

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


def artifact_refusal_reason(artifact: Artifact, kept: Mapping[str, str]) -> str | None:
    """Why a trial that has kept these texts (by name) may not keep this one; None if it may."""
    if not _FILE_NAME.fullmatch(artifact.name):
        return (
            "expected a plain file name of at most 100 letters, digits, '.', '_' and '-', such as"
            f" sample.txt; received {artifact.name!r:.120}"
        )
    texts = {**kept, artifact.name: artifact.text}
    if len(texts) > ARTIFACTS:
        return f"expected at most {ARTIFACTS} texts of a trial; received {artifact.name!r} too"
    size_kib = math.ceil(sum(len(each.encode(errors="replace")) for each in texts.values()) / 1024)
    if size_kib > ARTIFACTS_KIB:
        return (
            f"expected at most {ARTIFACTS_KIB} KiB of texts of a trial; {size_kib} KiB with"
            f" {artifact.name!r}: keep less of it, or write what is large to a file of your own"
        )
    return None


def encode(message: TrialRequest | Command | Event) -> str:
    """One line (without its newline) for a request, a command or an event.

    Raises:
        ProtocolError: a number in it is NaN or infinite (JSON has neither), or a value is of
            a type that JSON does not have.
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
    """Read a request line; unknown and missing fields and wrong types are refused."""
    request: TrialRequest = _build(TrialRequest, _object(line), "request")
    if request.slice_s <= 0:
        raise ProtocolError(f"request.slice_s: expected more than 0; received {request.slice_s:g}")
    return request


def decode_command(line: str) -> Command:
    """Read a command line; unknown commands, unknown fields and wrong types are refused."""
    command: Command = _tagged(line, "command", _COMMANDS)
    if isinstance(command, Slice) and command.steps is not None and command.steps < 1:
        raise ProtocolError(f"slice.steps: expected at least 1; received {command.steps}")
    return command


def is_command(line: str) -> bool:
    """Whether a line is meant as a command, be it a right one or not."""
    try:
        return "command" in _object(line)
    except ProtocolError:
        return False


def decode_event(line: str) -> Event:
    """Read an event line; unknown events, unknown and missing fields, wrong types are refused."""
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
    """A line whose field `tag` says of which of these kinds it is."""
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
        raise ProtocolError(f"expected one JSON object a line; {error}: {line[:200]!r}") from error
    if not isinstance(body, dict):
        raise ProtocolError(f"expected a JSON object; received {type(body).__name__}")
    return body


def _refuse_constant(name: str) -> float:
    raise ProtocolError(f"expected finite numbers; received {name}")


def _build(kind: type, body: dict[str, Any], name: str) -> Any:
    hints = typing.get_type_hints(kind)
    known = {item.name: item for item in dataclasses.fields(kind)}
    if unknown := sorted(set(body) - set(known)):
        raise ProtocolError(f"{name}: unknown field {unknown[0]!r}; known: {', '.join(known)}")
    for item in known.values():
        if item.name not in body:
            if item.default is item.default_factory is dataclasses.MISSING:
                raise ProtocolError(f"{name}: field {item.name!r} is missing")
            continue
        body[item.name] = _checked(body[item.name], hints[item.name], f"{name}.{item.name}")
    return kind(**body)


def _checked(value: Any, hint: Any, place: str) -> Any:
    """Return `value` as `hint` wants it, or say what was expected."""
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
