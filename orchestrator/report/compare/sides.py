"""One side of a comparison: a sweep from the store, or a saved report in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    ConfigValue,
    FailureReason,
    FailureRecord,
    FinishedTrial,
    Outcome,
    OutcomeStatus,
    Telemetry,
    Trial,
)
from orchestrator.report.formats.json_format import FORMAT, VERSION

_ADVICE = "Write one with `rnnsweep report SWEEP -o FILE.json`"


class InvalidSide(Refusal):
    """An argument that is no side of a comparison."""


@dataclass(frozen=True, slots=True)
class Side:
    """The trials of a sweep, with their inputs.

    `run_id` identifies the sweep, whatever its label. `data` has digests by the name of a dataset.
    `arms` are those that can run, in the spec's order. `accuracy_margin` is None for a report
    file, which lacks it. `validation_samples` has a number for each dataset.
    """

    label: str
    workload: str
    state: str
    settings: Mapping[str, Any]
    data: Mapping[str, str]
    environment: Mapping[str, str]
    arms: tuple[Arm, ...]
    trials: tuple[FinishedTrial, ...]
    run_id: str
    accuracy_margin: float | None = None
    validation_samples: tuple[int, ...] = ()


def of_record(record: SweepRecord, label: str) -> Side:
    """Return a sweep of the store as a side."""
    return Side(
        label,
        record.workload,
        record.state,
        record.settings,
        {item.name: item.digest for item in record.datasets},
        record.environment,
        _with_those_that_ran(record.arms, record.trials),
        record.trials,
        record.run_id,
        record.criteria.margins.accuracy,
        tuple(item.validation_samples for item in record.datasets),
    )


def read_report(path: Path) -> Side:
    """Read a report that `rnnsweep report SWEEP -o FILE.json` wrote.

    Raises:
        InvalidSide: The file cannot be read, is no such report, or has another version.
    """
    try:
        text = path.read_bytes()
        _expect_kind(path, _Kind.model_validate_json(text))
        content = _Report.model_validate_json(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidSide(f"{path}: expected a report's JSON file, received: {reason}") from error
    except ValidationError as error:
        raise InvalidSide(_no_report(path, error)) from error
    trials = tuple(item.finished() for item in content.trials)
    head = content.sweep
    return Side(
        f"{head.label} ({path.name})",
        head.workload,
        head.state,
        head.settings,
        {item.name: item.digest for item in head.datasets},
        head.environment,
        _with_those_that_ran(tuple(item.arm for item in content.arms), trials),
        trials,
        head.run_id,
        None,
        tuple(item.validation_samples for item in head.datasets),
    )


def _expect_kind(path: Path, content: _Kind) -> None:
    """Check the version first: other errors of another version would be misleading."""
    if content.format != FORMAT:
        raise InvalidSide(
            f"{path}: expected format {FORMAT!r}, received {content.format!r}. {_ADVICE}"
        )
    if content.version != VERSION:
        raise InvalidSide(
            f"{path}: expected version {VERSION} of a report's JSON, received "
            f"version {content.version}, written by another version of rnnsweep. {_ADVICE}"
        )


def _no_report(path: Path, error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    message = f"{place}: {problem['msg']}" if place else problem["msg"]
    return f"{path}: expected a report's JSON file; {message}. {_ADVICE}"


def _with_those_that_ran(
    arms: tuple[Arm, ...], trials: tuple[FinishedTrial, ...]
) -> tuple[Arm, ...]:
    return tuple(dict.fromkeys([*arms, *(trial.arm for trial in trials)]))


class _Part(BaseModel):
    """The properties of a report that a comparison needs; others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _ArmSummary(_Part):
    arm: Arm


class _Dataset(_Part):
    name: str
    digest: str
    validation_samples: int = 0


class _Head(_Part):
    label: str
    run_id: str
    workload: str
    state: str
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    datasets: tuple[_Dataset, ...]


class _Trial(_Part):
    run_id: str
    trial_key: str
    block: int
    config: Mapping[str, ConfigValue]
    arm: Arm
    repeat: int
    seed: int
    started_s: float
    ended_s: float
    status: OutcomeStatus
    metrics: Mapping[str, float | None]
    trainer_trials: int
    failure_reason: FailureReason | None
    failure_message: str | None
    disturbance: Mapping[str, float]
    cost_basis: str | None
    energy_scope: str | None

    def finished(self) -> FinishedTrial:
        failure = None
        if self.failure_reason is not None:
            failure = FailureRecord(self.failure_reason, self.failure_message or "")
        return FinishedTrial(
            Trial(self.trial_key, self.block, self.config, self.arm, self.repeat, self.seed),
            Outcome(
                self.status,
                self.started_s,
                self.ended_s,
                metrics={name: value for name, value in self.metrics.items() if value is not None},
                failure=failure,
                trainer_trials=self.trainer_trials,
                telemetry=Telemetry(energy_scope=self.energy_scope),
                disturbance=self.disturbance,
                cost_basis=self.cost_basis,
            ),
            self.run_id,
        )


class _Kind(_Part):
    format: str
    version: int


class _Report(_Part):
    sweep: _Head
    arms: tuple[_ArmSummary, ...]
    trials: tuple[_Trial, ...]
