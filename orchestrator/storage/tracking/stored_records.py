"""What a sweep keeps in a tracker: versioned JSON of its manifest, its lease and its trials."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.errors import first_problem, one_line
from orchestrator.core.formats import Format, WrittenBy, this_rnnsweep, written_by
from orchestrator.core.json_text import parse_json
from orchestrator.core.records import Direction
from orchestrator.core.start_command import UNKNOWN_START, StartCommand
from orchestrator.core.trial import FinishedTrial, ImpossibleArm, SweepIdentity, validated_json
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.limits import TAG_LIMIT
from orchestrator.storage.tracking.tracking_errors import Damaged, WrongVersion

_T = TypeVar("_T")

LEASE_S = 60.0
RENEWAL_S = 15.0
"""How long a lease lasts, and how often its driver renews it."""

HIDDEN = "rnnsweep."
"""The prefix of tags that are for this program: a tracker need not show them to people."""
LEASE_TAG, RECORD_TAG = f"{HIDDEN}lease", f"{HIDDEN}record"
ID_TAG = f"{HIDDEN}id"  # a sweep's random id, which its journals have too
SOURCE_TAG = f"{HIDDEN}source"  # the source of the answer that the sweep's run shows
RECORD_FILE = "outcome.json"  # the file that replaces the tag where it would be too long


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file `sweep.json`, from which a report or a lost journal is rebuilt.

    `arms` are the arms of all starts. `current` are the arms that the last start that began was to
    run, all arms where it is empty; `repeats` are its repeats, and its blocks are those below
    `blocks` without the `skipped_blocks`. `criteria` are what the report has to decide by,
    and `start` is how its user started it.
    """

    identity: SweepIdentity
    objectives: Mapping[str, Direction]
    arms: tuple[Arm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    criteria: ReportCriteria = field(default_factory=ReportCriteria)
    current: tuple[Arm, ...] = ()
    start: StartCommand = UNKNOWN_START
    skipped_blocks: tuple[int, ...] = ()

    @property
    def running(self) -> tuple[Arm, ...]:
        """The arms that the last start was to run."""
        return self.current or self.arms


@dataclass(frozen=True, slots=True)
class SweepOpening:
    """All that the tracker gets before the trials; `spec_yaml` and `plan` are for people.

    With `takes_over` another driver's lease is ignored.
    """

    manifest: Manifest
    spec_yaml: str
    plan: Mapping[str, Any]
    owner: Owner
    sweep_id: str = ""
    takes_over: bool = False


class FoundSweep(NamedTuple):
    """What a store has of a sweep: its latest generation, 0 for none, with its manifest and id."""

    generation: int
    manifest: Manifest | None = None
    sweep_id: str = ""


class StoreDifferences(NamedTuple):
    """How a store differs from a journal of the same sweep.

    `newer` are trials of which only the store has the latest outcome; `lacking` are the keys of
    those of which it lacks the latest one.
    """

    newer: list[FinishedTrial]
    lacking: list[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A sweep's answer, as its run shows it: in Markdown, and as values to compare.

    `source` is a digest of all that it was made of.
    """

    description: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The one driver that may record into a sweep, until `until_s` (seconds since the epoch)."""

    owner: Owner | None = None
    until_s: float = 0.0

    def is_held(self, now_s: float) -> bool:
        """Return whether the owner may be alive and the lease has not ended."""
        return self.owner is not None and self.until_s > now_s and not self.owner.is_gone()


@dataclass(frozen=True, slots=True)
class _Versioned(Generic[_T]):
    __pydantic_config__: ClassVar = ConfigDict(
        strict=True, extra="forbid", ser_json_inf_nan="constants"
    )

    version: int
    written_by: WrittenBy
    content: _T


class Form(Generic[_T]):
    """The stored JSON of one kind of content, which is read strictly; `format` is its format."""

    def __init__(self, kind: type[_T], format: Format) -> None:
        self._adapter: TypeAdapter[_Versioned[_T]] = TypeAdapter(_Versioned[kind])  # type: ignore[valid-type]
        self.format = format

    def dump(self, content: _T) -> str:
        """Return the text of a content."""
        stored = _Versioned(self.format.number, this_rnnsweep(), content)
        return validated_json(self._adapter, stored).decode()

    def load(self, text: str, source: str) -> _T:
        """Return the content of a text; `source` is its address, for messages.

        Raise `WrongVersion` for a format number that is not read, `Damaged` for no such text.
        """
        try:
            stored = self._adapter.validate_json(text)
        except ValidationError as error:
            return self._load_other(text, source, error)
        if stored.version == self.format.number:
            return stored.content
        return self._load_other(text, source, None)

    def _number_of(self, text: str) -> object:
        """Return the format number of a text; the present one if it is no JSON object."""
        value = _object(text)
        return self.format.number if value is None else value.get("version")

    def _load_other(self, text: str, source: str, problem: ValidationError | None) -> _T:
        """Load a text of a former number; raise `WrongVersion`, or `Damaged` for the problem."""
        number, value = self._number_of(text), _object(text) or {}
        if not self.format.reads(number):
            writer = written_by(value.get("written_by"))
            raise WrongVersion(self.format.refusal(source, number, writer))
        if problem is None or number != self.format.number:
            try:
                return self._migrated(value)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise self._damaged(source, error) from error
        raise self._damaged(source, problem) from problem

    def _migrated(self, value: dict[str, Any]) -> _T:
        content = self.format.migrate(value["content"], value["version"])
        head = {"version": self.format.number, "written_by": dataclasses.asdict(WrittenBy())}
        return self._adapter.validate_json(json.dumps({**head, "content": content})).content

    def _damaged(self, source: str, error: Exception) -> Damaged:
        reason = first_problem(error) if isinstance(error, ValidationError) else one_line(error)
        problem = f"{self.format.name} cannot be read ({reason})"
        return Damaged(source, problem, "`rnnsweep run` writes it again")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_MANIFESTS = {7: dict}  # without `skipped_blocks`, which has a default


def _without_slices_set_aside(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of 9 as it is: its slices all count."""
    return record


MANIFEST = Form(Manifest, Format("a sweep's manifest", 8, _MANIFESTS))
LEASE = Form(Lease, Format("a lease", 3))
TRIAL = Form(FinishedTrial, Format("the record of a trial", 10, {9: _without_slices_set_aside}))


def lease_tag(owner: Owner | None = None, now_s: float = 0.0) -> dict[str, str]:
    """Return the tag of a lease that begins now; without an owner, of none."""
    return {LEASE_TAG: LEASE.dump(Lease(owner, now_s + LEASE_S) if owner else Lease())}


def record_of(finished: FinishedTrial) -> FinishedTrial:
    """Return what a record keeps of a trial: no files and curves, which its run has."""
    telemetry = replace(finished.telemetry, at_s=(), curves={})
    outcome = replace(finished.outcome, artifacts={}, telemetry=telemetry)
    return replace(finished, outcome=outcome)


def record_text(finished: FinishedTrial) -> str:
    """Return the record of a trial as text."""
    return TRIAL.dump(record_of(finished))


def record_tag(finished: FinishedTrial) -> tuple[str, dict[str, str]]:
    """Return the tag of the record, and the file that holds it where a tag is too short."""
    text = record_text(finished)
    if len(text.encode()) <= TAG_LIMIT:  # bytes, as some databases count
        return text, {}
    return RECORD_FILE, {RECORD_FILE: text}
