"""The runs of a sweep as the store has them: the parent run, and each trial once.

Most trials are read from the parent run's table. The tag `table` of a run is the number of the
first table that has it as it is now, so that a reader finds the runs that are later than the table.
A run that somebody deleted in MLflow is left out. Without a readable table all runs are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from orchestrator.core.trial import FinishedTrial, SweepIdentity
from orchestrator.storage.tracking.errors import Damaged, TrackingError, WrongVersion
from orchestrator.storage.tracking.mlflow_store import MlflowStore, StoredRun
from orchestrator.storage.tracking.records import (
    LEASE,
    LEASE_TAG,
    MANIFEST,
    RECORD_FILE,
    RECORD_TAG,
    TRIAL,
    Lease,
    Manifest,
)
from orchestrator.storage.tracking.run_content import PARENT_TAG, SOURCE_TAGS
from orchestrator.storage.tracking.trial_table import TABLE_FILE, TrialTable, read_table

MANIFEST_FILE = "sweep.json"
TABLE_TAG = "table"

PARENTS = "tags.generation LIKE '%'"
"""The search filter of every parent run: runs of trials have no generation."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoredTrials:
    """The trials of a sweep by key, and runs that double one of them.

    Of two runs of one trial the first finished one is kept, else the first. `unfinished` are runs
    whose writer was stopped half-way. `table` is the number of the table that was read, 0 if there
    was none, and `late` the number of trials that it lacks, has otherwise or should not have.
    `needs_table` marks a table that could not be read, or whose writing ended in an error: it is
    written before any run.
    """

    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    unfinished: dict[str, StoredRun] = field(default_factory=dict)
    doubles: list[StoredRun] = field(default_factory=list)
    table: int = 0
    late: int = 0
    needs_table: bool = False


def parents_of(generation: int) -> str:
    """Return the search filter of one generation's parent run."""
    return f"tags.generation = '{generation}'"


def parent_tags(identity: SweepIdentity) -> dict[str, str]:
    """Return the tags that a parent run is found by."""
    return {
        **SOURCE_TAGS,
        "sweep": identity.label,
        "generation": str(identity.generation),
        "workload": identity.workload,
        "state": "running",
    }


def first_parent(runs: Iterable[StoredRun]) -> StoredRun | None:
    """Return the parent that every reader agrees on, should two drivers have made one at once."""
    return min(runs, key=lambda run: (run.start_ms, run.run_id), default=None)


def read_manifest(store: MlflowStore, parent: StoredRun) -> Manifest | None:
    """Return the manifest of a parent run; None where its driver was killed while writing it.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
    """
    if MANIFEST_FILE not in store.texts(parent.run_id):
        return None
    text = store.read_text(parent.run_id, MANIFEST_FILE)
    try:
        return MANIFEST.load(text, f"{MANIFEST_FILE} of run {parent.run_id} in {store.shown}")
    except Damaged as error:
        _log.warning("%s", error)
        return None


def lease_of(store: MlflowStore, parent: StoredRun) -> Lease:
    """Return the lease of a parent run.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
    """
    text = parent.tags.get(LEASE_TAG)
    place = f"tag {LEASE_TAG} of run {parent.run_id} in {store.shown}"
    return Lease() if text is None else LEASE.load(text, place)


def trials_of(parent_id: str) -> str:
    """Return the search filter of the runs of a sweep's trials."""
    return f"tags.`{PARENT_TAG}` = '{parent_id}'"


def read_trials(store: MlflowStore, parent: StoredRun) -> StoredTrials:
    """Return the trials that the store has of a sweep.

    Raises:
        WrongVersion: another version of rnnsweep wrote the table or a trial.
        TrackingError: the store cannot be reached or used.
    """
    query, experiment = trials_of(parent.run_id), [parent.experiment_id]
    stored = StoredTrials()
    table = _read_table(store, parent, stored)
    if table is None:
        _add_runs(store, stored, store.search(experiment, query))
        return stored
    deleted = {run.run_id for run in store.search(experiment, query, deleted=True)}
    stored.table = table.number
    stored.finished = {trial.key: trial for trial in table.trials if trial.run_id not in deleted}
    stored.late = len(table.trials) - len(stored.finished)
    late = f"{query} and tags.{TABLE_TAG} = '{table.number + 1}'"
    stored.late += _add_runs(store, stored, store.search(experiment, late))
    half_written = f"{query} and attributes.status = 'RUNNING'"
    _add_runs(store, stored, store.search(experiment, half_written))
    return stored


def _add_runs(store: MlflowStore, stored: StoredTrials, runs: Iterable[StoredRun]) -> int:
    """Add what is in these runs, and return their number; a run replaces its own row."""
    count = 0
    for run in runs:
        key = run.tags.get("trial_key")
        if key is None:
            continue
        count += 1
        trial = finished_of(store, run)
        kept = stored.finished.get(key) or stored.unfinished.get(key)
        if kept is not None and kept.run_id != run.run_id:
            if trial is None or key in stored.finished:
                stored.doubles.append(run)
                continue
            stored.doubles.append(stored.unfinished[key])
        stored.finished.pop(key, None)
        stored.unfinished.pop(key, None)
        if trial is None:
            stored.unfinished[key] = run
        else:
            stored.finished[key] = trial
    return count


def _read_table(store: MlflowStore, parent: StoredRun, stored: StoredTrials) -> TrialTable | None:
    """Return the sweep's table; None if there is none, or one that is damaged."""
    if TABLE_FILE not in store.texts(parent.run_id):
        return None
    try:
        with store.file(parent.run_id, TABLE_FILE) as path:
            return read_table(path, f"{TABLE_FILE} of run {parent.run_id} in {store.shown}")
    except Damaged as error:
        _log.warning("run %s: %s", parent.run_id, error)
        stored.needs_table = True
        return None


def finished_of(store: MlflowStore, run: StoredRun) -> FinishedTrial | None:
    """Return the trial of a run; None where its writer was stopped half-way, or it is damaged.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
    """
    text = run.tags.get(RECORD_TAG)
    if not run.has_ended or text is None:
        return None
    try:
        if text == RECORD_FILE:
            text = store.read_text(run.run_id, RECORD_FILE)
        trial = TRIAL.load(text, f"tag {RECORD_TAG} of run {run.run_id} in {store.shown}")
        return replace(trial, run_id=run.run_id)
    except WrongVersion:
        raise
    except TrackingError as error:
        # One damaged run must not make a sweep unreadable: the trial is recorded or run once more.
        _log.warning("run %s is skipped: %s", run.run_id, error)
        return None
