"""The text that a trial is read back from, and what tells one outcome of a trial from another.

It is the tag `record` of the trial's run, and a column of the sweep's table. Pure: nothing here
speaks to MLflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator.core.rounds import edition
from orchestrator.core.trial import FinishedTrial, Outcome, Telemetry, Trial, digest, to_json
from orchestrator.storage.tracking.errors import TrackingError

RECORD_TAG = "record"
RECORD_FILE = "outcome.json"
"""The artifact that stands for the tag where it would be too long."""
TAG_LIMIT = 8000
"""MLflow 3.17, mlflow/utils/validation.py: MAX_TAG_VAL_LENGTH."""

_RECORD_VERSION = 4


@dataclass(frozen=True, slots=True)
class _Record:
    __pydantic_config__: ClassVar = ConfigDict(
        strict=True, extra="forbid", ser_json_inf_nan="constants"
    )

    trial: Trial
    outcome: Outcome  # without its environment (many trials share it), artifacts and curves
    environment: str
    version: int = _RECORD_VERSION


_record: TypeAdapter[_Record] = TypeAdapter(_Record)


def finished_trial(
    text: str, environments: Mapping[str, Mapping[str, str | int | float | bool | None]]
) -> FinishedTrial:
    """The trial in a `record` tag (or in the artifact that stands for it).

    The curves of telemetry are absent, and so are the texts that the workload kept: the run has
    them. So are epochs that did not fit into the tag of an earlier version.

    Args:
        text: the tag's value.
        environments: the parent run's environments, by digest.

    Raises:
        TrackingError: it is no record, or one of a later version.
    """
    try:
        record = _record.validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise TrackingError(
            f"tag {RECORD_TAG} of a trial's run",
            f"a record of version {_RECORD_VERSION} or older",
            f"{place or 'text'}: {problem['msg']}",
            "Read this sweep with the newer rnnsweep that wrote it, or delete the run",
        ) from error
    environment = environments.get(record.environment, {})
    return FinishedTrial(record.trial, replace(record.outcome, environment=environment))


def record_text(finished: FinishedTrial) -> str:
    """A trial as text, whole but for its environment (by digest), its curves and its artifacts."""
    outcome = replace(
        finished.outcome,
        environment={},
        artifacts={},
        telemetry=_without_curves(finished.outcome.telemetry),
    )
    record = _Record(finished.trial, outcome, environment_digest(finished))
    return to_json(_record, record).decode()


def record_tag(finished: FinishedTrial) -> tuple[str, dict[str, str]]:
    """The `record` tag, and the artifact that holds it where it is too long for a tag."""
    text = record_text(finished)
    if len(text.encode()) <= TAG_LIMIT:  # bytes, as some databases count
        return text, {}
    return RECORD_FILE, {RECORD_FILE: text}


def environment_digest(finished: FinishedTrial) -> str:
    """The name of a trial's environment among the parent run's artifacts."""
    return digest(finished.outcome.environment)


def fingerprint(finished: FinishedTrial) -> str:
    """What tells two outcomes of one trial apart."""
    outcome = finished.outcome
    ended_s, stood = edition(outcome)
    return f"{outcome.status} {outcome.attempt} {outcome.started_s} {ended_s} {stood}"


def _without_curves(telemetry: Telemetry | None) -> Telemetry | None:
    return telemetry and Telemetry(telemetry.notes)
