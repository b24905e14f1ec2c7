"""A sweep's parent run: its tags, how it is found, and what it is."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from orchestrator.core.trial import SweepIdentity
from orchestrator.storage.tracking.errors import TrackingError
from orchestrator.storage.tracking.manifest import Manifest, manifest_adapter
from orchestrator.storage.tracking.mlflow_store import Store, StoredRun
from orchestrator.storage.tracking.run_content import SOURCE_TAGS

SPEC_FILE = "spec.yaml"
PLAN_FILE = "plan.json"
MANIFEST_FILE = "sweep.json"
KNOWS_TABLES = 2
"""The first version of a manifest whose writer marks the runs that it writes after a table."""

NOTE_TAG = "mlflow.note.content"

OF_ANY_GENERATION = "tags.generation LIKE '%'"
"""The search filter of every parent run: children have no generation."""


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


def read_manifest(store: Store, parent: StoredRun) -> Manifest | None:
    """What the sweep is; None where its driver was killed before it had written that whole.

    Raises:
        TrackingError: a later version wrote it.
    """
    if MANIFEST_FILE not in store.texts(parent.run_id):
        return None
    text = store.read_text(parent.run_id, MANIFEST_FILE)
    try:
        return manifest_adapter.validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] == "json_invalid":
            return None
        raise TrackingError(
            f"{MANIFEST_FILE} of run {parent.run_id} in {store.shown}",
            "a sweep's manifest",
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}",
            "Read this sweep with the rnnsweep that wrote it",
        ) from error
