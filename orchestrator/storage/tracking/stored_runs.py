"""The runs of a sweep as the store has them: the parent run, and each trial once.

Most trials are read from the parent run's table (`orchestrator.storage.tracking.parquet_table`). A
run that was written after the table carries the table's token in its tag `after_table` and is read
itself; a run that somebody deleted in MLflow is skipped. Without a readable table all runs are
read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from orchestrator.core.trial import FinishedTrial, SweepIdentity
from orchestrator.storage.tracking.errors import TrackingError, WrongVersion
from orchestrator.storage.tracking.lease import Lease, read_lease
from orchestrator.storage.tracking.manifest import Manifest, read_manifest_text
from orchestrator.storage.tracking.mlflow_store import MlflowStore, StoredRun
from orchestrator.storage.tracking.parquet_table import (
    LATE_TAG,
    TABLE_FILE,
    Environment,
    StoredTable,
    TableUnreadable,
    read_table,
)
from orchestrator.storage.tracking.run_content import PARENT_TAG, SOURCE_TAGS
from orchestrator.storage.tracking.trial_record import RECORD_FILE, RECORD_TAG, finished_trial

SPEC_FILE = "spec.yaml"
PLAN_FILE = "plan.json"
MANIFEST_FILE = "sweep.json"
NOTE_TAG = "mlflow.note.content"
ENVIRONMENTS = "environment"
"""The folder of the parent run's artifacts that has one file per distinct environment."""

PARENTS = "tags.generation LIKE '%'"
"""The search filter of every parent run: runs of trials have no generation."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredTrials:
    """The trials of a sweep by key, and runs that double one of them.

    Of two runs of one trial the first finished one is kept, else the first. `unfinished` has the
    run ids of trials whose writer was stopped half-way. `token` is that of the table that was read,
    None where there was none, and `in_table` its number of trials. `stale` counts the trials that
    the table lacks, has otherwise or should not have. `is_damaged` marks a table that could not be
    read.
    """

    finished: Mapping[str, FinishedTrial]
    unfinished: Mapping[str, str]
    doubles: tuple[StoredRun, ...]
    token: str | None = None
    in_table: int = 0
    stale: int = 0
    is_damaged: bool = False


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
        TrackingError: it is damaged.
    """
    if MANIFEST_FILE not in store.texts(parent.run_id):
        return None
    place = f"{MANIFEST_FILE} of run {parent.run_id} in {store.shown}"
    text = store.read_text(parent.run_id, MANIFEST_FILE)
    try:
        return read_manifest_text(text, place)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] == "json_invalid":
            return None
        raise TrackingError(
            place,
            "a sweep's manifest",
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}",
            "Start over with `rnnsweep run SPEC --fresh`",
        ) from error


def lease_of(store: MlflowStore, parent: StoredRun) -> Lease | None:
    """Return the lease of a parent run; None where it was never claimed.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
    """
    return read_lease(parent.tags, f"run {parent.run_id} in {store.shown}")


def trials_of(parent_id: str) -> str:
    """Return the search filter of the runs of a sweep's trials."""
    return f"tags.`{PARENT_TAG}` = '{parent_id}'"


def read_trials(store: MlflowStore, parent: StoredRun) -> StoredTrials:
    """Return the trials that the store has of a sweep.

    Raises:
        WrongVersion: another version of rnnsweep wrote the table or a trial.
        TrackingError: the store cannot be reached or used.
    """
    query = trials_of(parent.run_id)
    table, is_damaged = _table(store, parent)
    if table is None:
        return _with_runs(store, parent, {}, [query], is_damaged=is_damaged)
    deleted = {run.run_id for run in store.search([parent.experiment_id], query, deleted=True)}
    from_table = {trial.key: trial for trial in table.trials if trial.run_id not in deleted}
    queries = [f"{query} and tags.{LATE_TAG} LIKE '%{table.token}%'"]
    if table.unfinished:
        queries.append(f"attributes.run_id IN ({', '.join(map(repr, table.unfinished))})")
    stored = _with_runs(store, parent, from_table, queries)
    removed = len(table.trials) - len(from_table)
    return replace(
        stored, token=table.token, in_table=len(table.trials), stale=removed + stored.stale
    )


def _with_runs(
    store: MlflowStore,
    parent: StoredRun,
    from_table: Mapping[str, FinishedTrial],
    queries: Iterable[str],
    *,
    is_damaged: bool = False,
) -> StoredTrials:
    """Return the trials of the table and of the runs that match; a run replaces its own row."""
    trials, unfinished = dict(from_table), dict[str, StoredRun]()
    doubles, read = list[StoredRun](), set[str]()
    environments = _Environments(store, parent.run_id)
    for run in (run for query in queries for run in store.search([parent.experiment_id], query)):
        key = run.tags.get("trial_key")
        if key is None:
            continue
        trial = finished_of(store, run, environments)
        kept = trials.get(key) or unfinished.get(key)
        if kept is None or kept.run_id == run.run_id:
            read.add(key)
        elif trial is not None and key in unfinished:
            doubles.append(unfinished[key])
        else:
            doubles.append(run)
            continue
        trials.pop(key, None)
        unfinished.pop(key, None)
        if trial is None:
            unfinished[key] = run
        else:
            trials[key] = trial
    run_ids = {key: run.run_id for key, run in unfinished.items()}
    return StoredTrials(trials, run_ids, tuple(doubles), stale=len(read), is_damaged=is_damaged)


def _table(store: MlflowStore, parent: StoredRun) -> tuple[StoredTable | None, bool]:
    """Return the sweep's table, and whether there is one that cannot be read."""
    if TABLE_FILE not in store.texts(parent.run_id):
        return None, False
    try:
        with store.file(parent.run_id, TABLE_FILE) as path:
            return read_table(path, f"{TABLE_FILE} of run {parent.run_id} in {store.shown}"), False
    except TableUnreadable as error:
        _log.warning("run %s: %s", parent.run_id, error)
        return None, True


class _Environments(Mapping[str, Environment]):
    """The environments of the parent run's artifacts, by digest; read at the first access."""

    def __init__(self, store: MlflowStore, parent_id: str) -> None:
        self._store, self._parent_id = store, parent_id
        self._loaded: dict[str, Environment] | None = None

    def _all(self) -> dict[str, Environment]:
        if self._loaded is None:
            self._loaded = {
                path.rpartition("/")[2].removesuffix(".json"): json.loads(
                    self._store.read_text(self._parent_id, path)
                )
                for path in self._store.texts(self._parent_id, ENVIRONMENTS)
            }
        return self._loaded

    def __getitem__(self, digest: str) -> Environment:
        return self._all()[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def finished_of(
    store: MlflowStore, run: StoredRun, environments: Mapping[str, Environment]
) -> FinishedTrial | None:
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
        place = f"run {run.run_id} in {store.shown}"
        return replace(finished_trial(text, environments, place), run_id=run.run_id)
    except WrongVersion:
        raise
    except TrackingError as error:
        # One damaged run must not make a sweep unreadable: the trial is recorded or run once more.
        _log.warning("run %s is skipped: %s", run.run_id, error)
        return None
