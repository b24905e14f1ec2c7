"""The writer in the recorder process: one parent run per sweep, one run per trial, exactly once."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestrator.core.trial import DatasetRecord, FinishedTrial, canonical
from orchestrator.storage.tracking import lease, stored_runs
from orchestrator.storage.tracking.errors import (
    ContentRefused,
    LeaseHeld,
    SweepNotFound,
    TrackingError,
)
from orchestrator.storage.tracking.manifest import SweepOpening, manifest_adapter, manifest_of
from orchestrator.storage.tracking.mlflow_store import MlflowStore, StoredRun
from orchestrator.storage.tracking.parquet_table import LATE_TAG, TableWriter
from orchestrator.storage.tracking.reader import (
    find_sweep,
    latest_generation,
    read_curves,
    read_sweep,
)
from orchestrator.storage.tracking.requests import (
    Beat,
    Close,
    Curves,
    EndState,
    Find,
    Latest,
    Open,
    Read,
    Record,
    Request,
)
from orchestrator.storage.tracking.run_content import (
    PARENT_TAG,
    TRIAL_TAGS,
    RunContent,
    run_content,
)
from orchestrator.storage.tracking.trial_record import TAG_LIMIT, environment_digest, fingerprint
from orchestrator.storage.tracking.ui_views import view_tags

_SETTLE_S = 0.5
_RUN_STATUS = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

_log = logging.getLogger(__name__)


class Writer:
    """The writer of one sweep. Used from one thread; as a context manager it releases the lease."""

    def __init__(self, tracking_uri: str, artifact_root: Path | None) -> None:
        self._uri = tracking_uri
        self._artifact_root = artifact_root
        self._opening: SweepOpening | None = None
        self._holds_lease = False
        self._parent = ""
        self._experiment = ""
        self._finished: dict[str, FinishedTrial] = {}
        self._unfinished: dict[str, str] = {}  # run ids by trial key
        self._unsure: set[str] = set()  # keys whose creation ended in an error
        self._environments: set[str] = set()
        self._table: TableWriter | None = None
        self._beat_s = 0.0
        self.doubles_removed = 0

    @functools.cached_property
    def _store(self) -> MlflowStore:
        return MlflowStore(self._uri, create=True)

    def answer(self, request: Request) -> Any:
        """Return the answer to a request, or the error in its place."""
        try:
            return self._perform(request)
        except (TrackingError, LeaseHeld, SweepNotFound) as error:
            _log.warning("%s", error)
            return error
        except Exception as error:  # noqa: BLE001  (raised in the driver; its trace is in the log)
            _log.exception("in answer to %s", type(request).__name__)
            return TrackingError(
                "the recorder process",
                "no error",
                f"{type(error).__name__}: {error}",
                "Its log has the whole trace; please report it",
            )

    def _perform(self, request: Request) -> Any:
        match request:
            case Open(opening):
                return self.open_sweep(opening)
            case Record(batch):
                return self.record(batch)
            case Beat():
                return self.beat()
            case Close(state, texts, description):
                return self.close(state, texts, description)
            case Find(name, trials):
                return find_sweep(self._uri, name, trials=trials)
            case Latest(name):
                return latest_generation(self._uri, name)
            case Read(name, generation):
                self.update_table()  # so that neither this reading nor the next needs single runs
                return read_sweep(self._uri, name, generation)
            case Curves(run_ids):
                return read_curves(self._uri, run_ids)

    def open_sweep(self, opening: SweepOpening) -> list[FinishedTrial]:
        """Find or make the sweep's runs, take the lease, and return the trials in the store.

        A SQLite store that does not exist is made.

        Raises:
            LeaseHeld: a live driver records into this sweep.
            WrongVersion: another version of rnnsweep wrote what the store has of it.
            TrackingError: the store cannot be reached or used.
        """
        name = opening.identity.name
        self._opening = opening
        self._experiment = self._store.experiment(name) or self._store.create_experiment(
            name, self._artifact_root
        )
        parent = self._find_parent()
        if parent is None:
            parent = self._create_parent()
        else:
            stored_runs.read_manifest(self._store, parent)  # refuses one of another version
        self._parent = parent.run_id
        claimed_s = self._claim(parent)
        stored = stored_runs.read_trials(self._store, parent)
        self._finished, self._unfinished = dict(stored.finished), dict(stored.unfinished)
        self._describe(opening)
        self._environments = {
            path.rpartition("/")[2]
            for path in self._store.texts(self._parent, stored_runs.ENVIRONMENTS)
        }
        self._confirm(claimed_s)
        for run in stored.doubles:
            _log.warning("run %s doubles trial %s: deleted", run.run_id, run.tags["trial_key"])
            self._store.delete_run(run.run_id)
        self.doubles_removed += len(stored.doubles)
        self._table = TableWriter(
            self._store, self._parent, stored.token, stored.in_table, stored.stale
        )
        if stored.is_damaged:  # whoever can read it must not miss what is written from here on
            self._table.write(self._finished.values(), self._unfinished.values())
        return list(self._finished.values())

    def record(self, batch: Sequence[FinishedTrial]) -> dict[str, str]:
        """Write trials that have ended; what the store has already is not written again.

        Returns:
            Why the store will never take some of them, by trial key; usually empty.

        Raises:
            TrackingError: the store failed; the same batch can be given again.
            LeaseHeld: the lease was lost (this process was suspended for longer than it lasts).
        """
        refused: dict[str, str] = {}
        for trial in batch:
            self.beat()
            try:
                self._record_one(trial)
            except ContentRefused as error:  # must not keep the others waiting forever
                _log.error("trial %s: %s", trial.key, error)
                refused[trial.key] = str(error)
        if self._table is not None and self._table.is_late:
            self.update_table()
        return refused

    def update_table(self) -> None:
        """Write all that is recorded into the parent run's table, for quick reading."""
        if self._table is not None and self._holds_lease:
            self._table.update(self._finished.values(), self._unfinished.values())

    def beat(self) -> None:
        """Renew the lease, if it is time.

        Raises:
            LeaseHeld: another driver has it.
        """
        now_s = time.time()
        if self._beat_s <= now_s < self._beat_s + lease.BEAT_S:
            return
        opening = self._opened()
        self._refuse_other(self._store.run(self._parent), now_s)
        self._store.log(self._parent, tags=lease.claim(opening.owner, now_s))
        self._beat_s = now_s

    def close(self, state: EndState, texts: Mapping[str, str], description: str = "") -> None:
        """End the session: write the report and the state, and release the lease.

        Args:
            state: the state of the sweep.
            texts: artifacts of the parent run by path.
            description: the beginning of the parent run's page, in Markdown, of at most `TAG_LIMIT`
                characters; "" leaves it as it is.
        """
        self._opened()
        self.update_table()
        for path, text in texts.items():
            self._store.write_text(self._parent, path, text)
        for dataset in self._datasets():
            self._store.log_dataset(self._parent, dataset)
        tags = {"state": state, **lease.released()}
        if description:
            tags[stored_runs.NOTE_TAG] = description[:TAG_LIMIT]
        self._store.log(self._parent, tags=tags)
        self._store.set_status(self._parent, _RUN_STATUS[state], round(time.time() * 1000))
        self._holds_lease = False
        self._store.analyse()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._holds_lease:
            return
        try:
            self.close("stopped", {})
        except TrackingError as second:
            if error is None:
                raise
            _log.warning("the lease is left to end by itself: %s", second)

    def _opened(self) -> SweepOpening:
        if self._opening is None:
            raise RuntimeError("open_sweep() comes first")
        return self._opening

    def _find_parent(self) -> StoredRun | None:
        generation = self._opened().identity.generation
        runs = self._store.search([self._experiment], stored_runs.parents_of(generation))
        return stored_runs.first_parent(runs)

    def _create_parent(self) -> StoredRun:
        identity = self._opened().identity
        run_id = self._store.create_run(
            self._experiment,
            identity.label,
            round(time.time() * 1000),
            stored_runs.parent_tags(identity) | lease.claim(self._opened().owner, time.time()),
        )
        parent = self._find_parent() or self._store.run(run_id)
        if parent.run_id != run_id:
            self._store.delete_run(run_id)  # another driver was first
        return parent

    def _claim(self, parent: StoredRun) -> float:
        """Take the lease, and return the time of that."""
        now_s = time.time()
        self._refuse_other(parent, now_s)
        tags = {"state": "running", **lease.claim(self._opened().owner, now_s)}
        self._store.log(self._parent, tags=tags)
        self._store.set_status(self._parent, "RUNNING")
        self._beat_s, self._holds_lease = now_s, True
        return now_s

    def _confirm(self, claimed_s: float) -> None:
        """Read the lease again, later than another driver that saw it free could write.

        MLflow has no compare-and-set. Of two drivers that write at once the later one reads its
        own name here and the other is refused.
        """
        time.sleep(max(0.0, min(_SETTLE_S, claimed_s + _SETTLE_S - time.time())))
        parent = self._find_parent()
        if parent is None or parent.run_id != self._parent:
            if not self._finished and not self._unfinished:
                self._store.delete_run(self._parent)
            self._holds_lease = False
            tags = parent.tags if parent else {}
            raise LeaseHeld(
                self._opened().identity.label,
                tags.get(lease.OWNER_TAG, "another driver"),
                time.time() + lease.LEASE_S,
            )
        self._refuse_other(parent, time.time())

    def _refuse_other(self, parent: StoredRun, now_s: float) -> None:
        opening = self._opened()
        current = stored_runs.lease_of(self._store, parent)
        if current and current.owner != str(opening.owner) and current.is_held(now_s):
            self._holds_lease = False
            raise LeaseHeld(opening.identity.label, current.holder, current.until_s)

    def _describe(self, opening: SweepOpening) -> None:
        manifest = manifest_adapter.dump_json(manifest_of(opening), indent=2).decode()
        self._store.write_text(self._parent, stored_runs.SPEC_FILE, opening.spec_yaml)
        self._store.write_text(self._parent, stored_runs.PLAN_FILE, canonical(opening.plan))
        self._store.write_text(self._parent, stored_runs.MANIFEST_FILE, manifest)
        self._store.tag_experiment(self._experiment, view_tags(self._parent, opening))

    def _record_one(self, trial: FinishedTrial) -> None:
        stored = self._finished.get(trial.key)
        if stored is not None and fingerprint(stored) == fingerprint(trial):
            return
        assert self._table is not None  # open_sweep comes first
        content = run_content(self._opened().identity, trial)
        content = replace(content, tags={**content.tags, **self._table.late_tags})
        self._keep_environment(trial)
        run_id = stored.run_id if stored else self._unfinished.get(trial.key)
        if run_id is None:
            run = self._create_run(trial.key, content)
            is_new = run.status == "RUNNING" and run.tags == content.tags
        else:
            run, is_new = self._store.run(run_id), False
        self._finished.pop(trial.key, None)
        self._unfinished[trial.key] = run.run_id
        self._table.late += 1
        self._fill(run, content, tags=not is_new)
        del self._unfinished[trial.key]
        self._finished[trial.key] = replace(trial, run_id=run.run_id)

    def _create_run(self, key: str, content: RunContent) -> StoredRun:
        """Make the run, unless an earlier request whose answer was lost has made it."""
        for last_try in (False, True):
            if key in self._unsure:
                query = f"{stored_runs.trials_of(self._parent)} and tags.trial_key = '{key}'"
                for run in self._store.search([self._experiment], query):
                    self._unsure.discard(key)
                    return run
            self._unsure.add(key)
            tags = {PARENT_TAG: self._parent, **content.tags}
            try:
                run_id = self._store.create_run(
                    self._experiment, content.name, content.start_ms, tags
                )
            except TrackingError as error:
                if last_try:
                    raise
                _log.warning("looking for a run whose creation failed: %s", error)
                continue
            self._unsure.discard(key)
            return StoredRun(
                run_id,
                self._experiment,
                content.name,
                "RUNNING",
                content.start_ms,
                None,
                content.tags,
            )
        raise AssertionError("unreachable")

    def _fill(self, run: StoredRun, content: RunContent, *, tags: bool) -> None:
        """Write the content of a run. Its status is set last, so that a partial one is noticed."""
        if run.has_ended:
            # Before anything else: the table has the trial as it was.
            if late := content.tags.get(LATE_TAG):
                self._store.log(run.run_id, tags={LATE_TAG: late})
            self._store.set_status(run.run_id, "RUNNING")
        for path, text in content.texts.items():
            self._store.write_text(run.run_id, path, text)
        for key in TRIAL_TAGS if tags else ():
            if key in run.tags and key not in content.tags:
                self._store.delete_tag(run.run_id, key)
        self._store.log(
            run.run_id,
            params={  # a param cannot change, and an earlier attempt may have written another
                key: value for key, value in content.params.items() if key not in run.params
            },
            tags=content.tags if tags else None,
            points=content.points,
        )
        if content.dataset is not None:
            self._store.log_dataset(run.run_id, content.dataset)
        self._store.set_status(run.run_id, content.status, content.end_ms)

    def _datasets(self) -> list[DatasetRecord]:
        """Return what the trials loaded: one dataset, if all is well."""
        loaded = (trial.outcome.dataset for trial in self._finished.values())
        return list(dict.fromkeys(dataset for dataset in loaded if dataset is not None))

    def _keep_environment(self, trial: FinishedTrial) -> None:
        name = f"{environment_digest(trial)}.json"
        if trial.outcome.environment and name not in self._environments:
            text = canonical(trial.outcome.environment)
            self._store.write_text(self._parent, f"{stored_runs.ENVIRONMENTS}/{name}", text)
            self._environments.add(name)
