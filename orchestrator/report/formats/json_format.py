"""A summary as one versioned JSON object with stable keys, for programs.

`report.schema.json` in this folder is its JSON Schema. Within a version, properties may be added.
Removing a property, or changing its meaning, changes the version.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core import trial
from orchestrator.core.formats import Format


def _with_other_answers(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content as it is: its sweep, arms and trials, which are read, have not changed."""
    return content


REPORT = Format(
    "a report's JSON file",
    13,
    dict.fromkeys((10, 11, 12), _with_other_answers),
    id="rnnsweep-report",
    again="write it again with `rnnsweep report SWEEP -o FILE.json`",
)
"""A migration gets the whole object of a report."""

TRIAL_ENTRY = (
    "run_id",
    "trial_key",
    "block",
    "config",
    "arm",
    "repeat",
    "seed",
    "status",
    "metrics",
    "kernel",
    "failure_reason",
    "failure_message",
    "node",
    "trainer_trials",
    "attempt",
    "started_s",
    "ended_s",
    "epochs",
    "slices",
    "disturbance",
    "round_id",
    "cost_basis",
    "energy_method",
    "energy_scope",
    "energy_absent",
    "throttle_reasons",
    "other_trainers",
    "other_gpu_processes",
)
"""The fields of a trial's entry; fields of `TRIAL_PARTS` have the same names there."""


def summary_json(summary: ReportSummary) -> str:
    """Write the whole summary with its raw trials as ASCII; numbers are finite or null.

    Entries of the longer lists have a line each: easy to compare, and fast to write.
    """
    content = {**REPORT.head(), **to_plain_data(summary)}
    lines = ",\n".join(f"  {_dump(key)}: {_entries(value)}" for key, value in content.items())
    return f"{{\n{lines}\n}}\n"


def _entries(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _dump(value)
    entries = ",\n".join(f"    {_dump(item)}" for item in value)
    return f"[\n{entries}\n  ]"


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def to_plain_data(value: Any) -> Any:
    """Write dataclasses as objects of their fields, mappings sorted, infinite numbers as null."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, trial.FinishedTrial):
        return {name: to_plain_data(field) for name, field in _fields(value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain_data(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, tuple | list):
        return [to_plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


TRIAL_PARTS = {"trial": trial.Trial, "outcome": trial.Outcome, "outcome.telemetry": trial.Telemetry}
"""The records that a finished trial is made of, by their attribute."""

_GETTERS = {
    name: attrgetter(f"{part}.{name}")
    for part, kind in TRIAL_PARTS.items()
    for name in _names(kind)
    if name in TRIAL_ENTRY
}


def _fields(finished: trial.FinishedTrial) -> dict[str, Any]:
    """Return the fields of a finished trial's entry."""
    failure = finished.failure
    renamed = {
        "run_id": finished.run_id,
        "trial_key": finished.trial.key,
        "failure_reason": failure.reason if failure else None,
        "failure_message": failure.message if failure else None,
    }
    return {
        name: renamed[name] if name in renamed else _GETTERS[name](finished) for name in TRIAL_ENTRY
    }
