"""A summary as one versioned JSON object with stable keys, for programs.

`report.schema.json` in this folder is its JSON Schema. Within a version, properties may be added.
Removing a property, or changing its meaning, changes the version.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core import trial
from orchestrator.core.arms import Arm

FORMAT = "rnnsweep-report"
VERSION = 7


@dataclass(frozen=True, slots=True)
class TrialEntry:
    """One trial of the report. `run_id` makes every number traceable.

    Times are seconds since the epoch (UTC). `disturbance` has a figure for each cause. The
    environment, the telemetry curves and the trainer's output are artifacts of the run.
    """

    run_id: str
    trial_key: str
    block: int
    config: trial.Config
    arm: Arm
    repeat: int
    seed: int
    status: trial.OutcomeStatus
    metrics: Mapping[str, float]
    kernel: trial.Kernel | None
    failure_reason: trial.FailureReason | None
    failure_message: str | None
    node: str
    trainer_trials: int
    attempt: int
    started_s: float
    ended_s: float
    epochs: tuple[trial.EpochRecord, ...]
    slices: tuple[trial.SliceRecord, ...]
    disturbance: Mapping[str, float]
    round_id: str | None
    cost_basis: str | None
    energy_method: str | None
    energy_scope: str | None
    energy_absent: str | None
    throttle_reasons: Mapping[str, float] | None
    other_trainers: int | None
    other_gpu_processes: int | None


def to_json(summary: ReportSummary) -> str:
    """Write the whole summary with its raw trials as ASCII; numbers are finite or null.

    Entries of the longer lists have a line each: easy to compare, and fast to write.
    """
    content = {"format": FORMAT, "version": VERSION, **plain(summary)}
    lines = ",\n".join(f"  {_dump(key)}: {_entries(value)}" for key, value in content.items())
    return f"{{\n{lines}\n}}\n"


def _entries(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _dump(value)
    entries = ",\n".join(f"    {_dump(item)}" for item in value)
    return f"[\n{entries}\n  ]"


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def plain(value: Any) -> Any:
    """Write dataclasses as objects of their fields, mappings sorted, infinite numbers as null."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, trial.FinishedTrial):
        return {name: plain(field) for name, field in _fields(value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


_PARTS = {"trial": trial.Trial, "outcome": trial.Outcome, "outcome.telemetry": trial.Telemetry}

_PLACES = {name: f"{part}.{name}" for part, kind in _PARTS.items() for name in _names(kind)} | {
    "run_id": "run_id",
    "trial_key": "trial.key",
    "failure_reason": "outcome.failure.reason",
    "failure_message": "outcome.failure.message",
}
_GETTERS = {name: attrgetter(_PLACES[name]) for name in _names(TrialEntry)}
"""The place of each field of an entry in a finished trial."""


def _fields(finished: trial.FinishedTrial) -> dict[str, Any]:
    """Return the fields of a finished trial's entry, a `TrialEntry`."""
    has_failed = finished.failure is not None
    return {
        name: None if "failure" in name and not has_failed else get(finished)
        for name, get in _GETTERS.items()
    }
