"""A sweep's parent run: its tags, how it is found, and its description."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.tracking.runs import SOURCE_TAGS
from orchestrator.tracking.store import StoredRun
from orchestrator.trial import SweepIdentity

SPEC_FILE = "spec.yaml"
PLAN_FILE = "plan.json"
MANIFEST_FILE = "sweep.json"
NOTE_TAG = "mlflow.note.content"

OF_ANY_GENERATION = "tags.generation LIKE '%'"
"""The search filter of every parent run: children have no generation."""

# MLflow cuts descriptions at 8,000 characters and does not say so.
_NOTE_LIMIT = 7900
_NOTE_CUT = "\n\n*(shortened: the whole report is the artifact `report.md`)*\n"


def of_generation(generation: int) -> str:
    """The search filter of one generation's parent run."""
    return f"tags.generation = '{generation}'"


def tags(identity: SweepIdentity) -> dict[str, str]:
    """What a parent run is found by."""
    return {
        **SOURCE_TAGS,
        "sweep": identity.label,
        "generation": str(identity.generation),
        "workload": identity.workload,
        "state": "running",
    }


def first(runs: Iterable[StoredRun]) -> StoredRun | None:
    """The one that counts, should two drivers have made a parent at once; every reader agrees."""
    return min(runs, key=lambda run: (run.start_ms, run.run_id), default=None)


def description(report: str) -> str:
    """A report in Markdown, short enough for a run's description, cut at the end of a line."""
    if len(report) <= _NOTE_LIMIT:
        return report
    whole, _, _ = report[: _NOTE_LIMIT - len(_NOTE_CUT)].rpartition("\n")
    return whole + _NOTE_CUT
