"""The text that a trial is read back from, and the fingerprint of an outcome.

The text is the tag `record` of the trial's run, and a column of the sweep's table. Pure: nothing
here uses MLflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator.core.trial import FinishedTrial, Outcome, Trial, digest, to_json
from orchestrator.storage.tracking.errors import TrackingError, WrongVersion

RECORD_TAG = "record"
RECORD_FILE = "outcome.json"
"""The artifact that replaces the tag where it would be too long."""
TAG_LIMIT = 8000
"""MLflow 3.17, mlflow/utils/validation.py: MAX_TAG_VAL_LENGTH."""

_RECORD_VERSION = 5


@dataclass(frozen=True, slots=True)
class _Record:
    __pydantic_config__: ClassVar = ConfigDict(
        strict=True, extra="forbid", ser_json_inf_nan="constants"
    )

    trial: Trial
    outcome: Outcome  # without its environment (many trials share it), artifacts and curves
    environment: str
    version: int


_record: TypeAdapter[_Record] = TypeAdapter(_Record)


def finished_trial(
    text: str,
    environments: Mapping[str, Mapping[str, str | int | float | bool | None]],
    place: str,
) -> FinishedTrial:
    """Return the trial in a `record` tag, or in the artifact that replaces it.

    The curves of telemetry and the texts that the workload kept are absent: the run has them.

    Args:
        text: the tag's value.
        environments: the parent run's environments, by digest.
        place: the address of the text, for messages.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
        TrackingError: it is damaged.
    """
    try:
        record = _record.validate_json(text)
    except ValidationError as error:
        _expect_version(_version(text), place)
        problem = error.errors()[0]
        path = ".".join(map(str, problem["loc"]))
        raise TrackingError(
            f"tag {RECORD_TAG} of {place}",
            "the record of a trial",
            f"{path or 'text'}: {problem['msg']}",
            "The trial is recorded or run once more by the next `rnnsweep run`",
        ) from error
    _expect_version(record.version, place)
    environment = environments.get(record.environment, {})
    return FinishedTrial(record.trial, replace(record.outcome, environment=environment))


def _version(text: str) -> object:
    """Return the version in a text that is no record of this version; the current one if none."""
    try:
        value = json.loads(text)
    except ValueError:
        return _RECORD_VERSION
    return value.get("version", _RECORD_VERSION) if isinstance(value, dict) else _RECORD_VERSION


def _expect_version(version: object, place: str) -> None:
    if version != _RECORD_VERSION:
        raise WrongVersion(
            f"tag {RECORD_TAG} of {place}", "the record of a trial", _RECORD_VERSION, version
        )


def record_text(finished: FinishedTrial) -> str:
    """Return a trial as text: without artifacts and curves, and with its environment's digest."""
    outcome = replace(
        finished.outcome,
        environment={},
        artifacts={},
        telemetry=replace(finished.telemetry, at_s=(), curves={}),
    )
    record = _Record(finished.trial, outcome, environment_digest(finished), _RECORD_VERSION)
    return to_json(_record, record).decode()


def record_tag(finished: FinishedTrial) -> tuple[str, dict[str, str]]:
    """Return the `record` tag, and the artifact that holds it where it is too long for a tag."""
    text = record_text(finished)
    if len(text.encode()) <= TAG_LIMIT:  # bytes, as some databases count
        return text, {}
    return RECORD_FILE, {RECORD_FILE: text}


def environment_digest(finished: FinishedTrial) -> str:
    """Return the name of a trial's environment among the parent run's artifacts."""
    return digest(finished.outcome.environment)


def fingerprint(finished: FinishedTrial) -> str:
    """Return a text that differs between two outcomes of one trial."""
    outcome = finished.outcome
    return f"{outcome.status} {outcome.attempt} {outcome.started_s} {outcome.ended_s}"
