"""The runs of a sweep's trials, as the store has them, each trial once.

Most are read from the parent run's table (`orchestrator.storage.tracking.parquet_table`), which is
believed as far
as it is true: a run that was written after the table says so by its tag `after_table`, and is read
itself; one that somebody has deleted in MLflow is asked for, and left out. Where there is no table,
or none that can be read, all the runs are.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.tracking import sweep_runs
from orchestrator.storage.tracking.errors import TrackingError
from orchestrator.storage.tracking.mlflow_store import Store, StoredRun
from orchestrator.storage.tracking.parquet_table import (
    TABLE_FILE,
    Environment,
    Table,
    TableUnreadable,
    read_table,
)
from orchestrator.storage.tracking.run_content import PARENT_TAG
from orchestrator.storage.tracking.trial_record import RECORD_FILE, RECORD_TAG, finished_trial

ENVIRONMENTS = "environment"
"""The folder of the parent run's artifacts that has one file per distinct environment."""

LATE_TAG = "after_table"
"""The tables that were there, by token, when a trial's run was last written: it is in none."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Child:
    """A trial's run; `finished` is None where its writer was stopped half-way."""

    run_id: str
    finished: FinishedTrial | None


@dataclass(frozen=True, slots=True)
class Children:
    """The sweep's trials by key, and runs that double one of them.

    Of two runs of one trial the first that is finished is kept, else the first. `table` is the
    token of the table that was read, None where there was none, and `in_table` how many trials it
    had; `amiss` counts those that it lacks, has otherwise or should not have; `damaged` says that
    there is one which could not be read.
    """

    kept: Mapping[str, Child]
    doubles: tuple[StoredRun, ...]
    table: str | None = None
    in_table: int = 0
    amiss: int = 0
    damaged: bool = False


def read_children(store: Store, parent: StoredRun) -> Children:
    """The trials that the store has of a sweep."""
    table, damaged = _table(store, parent)
    if table is None:
        kept, doubles, read = _with_runs(store, parent, {}, [of_parent(parent.run_id)])
        return Children(kept, doubles, amiss=read, damaged=damaged)
    query = of_parent(parent.run_id)
    gone = {run.run_id for run in store.search([parent.experiment_id], query, deleted=True)}
    known = {
        finished.trial.key: Child(run_id, finished)
        for run_id, finished in table.rows
        if run_id not in gone
    }
    queries = [f"{query} and {written_after(table.token)}"]
    if table.unfinished:
        queries.append(f"attributes.run_id IN ({', '.join(map(repr, table.unfinished))})")
    amiss = len(table.rows) - len(known)
    kept, doubles, read = _with_runs(store, parent, known, queries)
    return Children(kept, doubles, table.token, len(table.rows), amiss + read)


def _with_runs(
    store: Store, parent: StoredRun, known: Mapping[str, Child], queries: Iterable[str]
) -> tuple[dict[str, Child], tuple[StoredRun, ...], int]:
    """The trials that are known and those of the runs that are found; doubles; how many are read.

    A run that is known is believed as it is found.
    """
    kept, doubles, first = dict(known), list[StoredRun](), dict[str, StoredRun]()
    environments = _Environments(store, parent.run_id)
    for run in (run for each in queries for run in store.search([parent.experiment_id], each)):
        key = run.tags.get("trial_key")
        if key is None:
            continue
        child, other = Child(run.run_id, finished_of(store, run, environments)), kept.get(key)
        if other is None or other.run_id == run.run_id:
            kept[key], first[key] = child, run
        elif other.finished is None and child.finished is not None:
            kept[key] = child
            doubles.append(first[key])
        else:
            doubles.append(run)
    return kept, tuple(doubles), len(first)


def of_parent(run_id: str) -> str:
    """The search filter of a parent's children."""
    return f"tags.`{PARENT_TAG}` = '{run_id}'"


def written_after(token: str) -> str:
    """The search filter of the runs that were written after a table."""
    return f"tags.{LATE_TAG} LIKE '%{token}%'"


def _table(store: Store, parent: StoredRun) -> tuple[Table | None, bool]:
    """The sweep's table, if it can be believed; and whether there is one that cannot be read."""
    if TABLE_FILE not in store.texts(parent.run_id):
        return None, False
    manifest = sweep_runs.read_manifest(store, parent)
    if manifest is None or manifest.version < sweep_runs.KNOWS_TABLES:
        return None, True  # an earlier rnnsweep has been here since, and marked nothing
    try:
        with store.file(parent.run_id, TABLE_FILE) as path:
            return read_table(path), False
    except TableUnreadable as error:
        _log.warning("run %s: %s", parent.run_id, error)
        return None, True


class _Environments(Mapping[str, Environment]):
    """The environments that the parent run keeps, by digest; read when one is asked for."""

    def __init__(self, store: Store, parent_id: str) -> None:
        self._store, self._parent_id = store, parent_id
        self._known: dict[str, Environment] | None = None

    def _all(self) -> dict[str, Environment]:
        if self._known is None:
            self._known = {
                path.rpartition("/")[2].removesuffix(".json"): json.loads(
                    self._store.read_text(self._parent_id, path)
                )
                for path in self._store.texts(self._parent_id, ENVIRONMENTS)
            }
        return self._known

    def __getitem__(self, digest: str) -> Environment:
        return self._all()[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def finished_of(
    store: Store, run: StoredRun, environments: Mapping[str, Environment]
) -> FinishedTrial | None:
    """The trial of a run; None where its writer was stopped half-way, or it cannot be read."""
    text = run.tags.get(RECORD_TAG)
    if not run.has_ended or text is None:
        return None
    try:
        if text == RECORD_FILE:
            text = store.read_text(run.run_id, RECORD_FILE)
        return finished_trial(text, environments)
    except TrackingError as error:
        # One damaged run must not make a sweep unreadable; it is written again, or done again.
        _log.warning("run %s is left out: %s", run.run_id, error)
        return None
