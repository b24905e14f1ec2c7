"""The writer of one sweep's runs: a parent, a child per trial, each exactly once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal

from orchestrator.core.trial import DatasetRecord, FinishedTrial, canonical
from orchestrator.storage.tracking import lease, sweep_runs
from orchestrator.storage.tracking.errors import ContentRefused, LeaseHeld, TrackingError
from orchestrator.storage.tracking.manifest import SweepOpening, manifest_adapter, manifest_of
from orchestrator.storage.tracking.mlflow_store import Store, StoredRun
from orchestrator.storage.tracking.run_content import (
    OPTIONAL_TAGS,
    PARENT_TAG,
    RunContent,
    run_content,
)
from orchestrator.storage.tracking.table_writer import Shelf
from orchestrator.storage.tracking.trial_record import TAG_LIMIT, environment_digest, fingerprint
from orchestrator.storage.tracking.trial_runs import (
    ENVIRONMENTS,
    LATE_TAG,
    Child,
    of_parent,
    read_children,
)
from orchestrator.storage.tracking.ui_views import view_tags

_SETTLE_S = 0.5
_RUN_STATUS = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

_log = logging.getLogger(__name__)


class Tracker:
    """Records one sweep. Used from one thread; a context manager that gives the lease back."""

    def __init__(self, tracking_uri: str, artifact_root: Path | None) -> None:
        """Connect to a store; a SQLite store that is not there is made.

        Raises:
            TrackingError: it cannot be reached.
        """
        self._store = Store(tracking_uri, create=True)
        self._artifact_root = artifact_root
        self._opening: SweepOpening | None = None
        self._holds_lease = False
        self._parent = ""
        self._experiment = ""
        self._children: dict[str, Child] = {}
        self._unsure: set[str] = set()  # keys whose creation ended in an error
        self._environments: set[str] = set()
        self._shelf: Shelf | None = None
        self._beaten_s = 0.0
        self.doubles_removed = 0

    def open_sweep(self, opening: SweepOpening) -> list[FinishedTrial]:
        """Find or make the sweep's runs, take the lease, and say what the store has finished.

        Raises:
            LeaseHeld: a live driver records into this sweep.
            TrackingError: the store cannot be reached or used.
        """
        name = opening.identity.name
        self._opening = opening
        self._experiment = self._store.experiment(name) or self._store.create_experiment(
            name, self._artifact_root
        )
        parent = self._find_parent() or self._create_parent()
        self._parent = parent.run_id
        claimed_s = self._claim(parent)
        found = read_children(self._store, parent)
        self._children = dict(found.kept)
        self._describe(opening)
        self._environments = {
            path.rpartition("/")[2] for path in self._store.texts(self._parent, ENVIRONMENTS)
        }
        self._confirm(claimed_s)
        for run in found.doubles:
            _log.warning("run %s doubles trial %s: deleted", run.run_id, run.tags["trial_key"])
            self._store.delete_run(run.run_id)
        self.doubles_removed += len(found.doubles)
        self._shelf = Shelf(self._store, self._parent, found)
        return [each.finished for each in self._children.values() if each.finished is not None]

    def record(self, batch: Sequence[FinishedTrial]) -> dict[str, str]:
        """Write trials that have ended; what the store has already is not written again.

        Returns:
            Why the store will never take some of them, by trial key; empty as a rule.

        Raises:
            TrackingError: the store failed; the same batch can be given again.
            LeaseHeld: the lease was lost (this process was suspended for longer than it lasts).
        """
        refused: dict[str, str] = {}
        for finished in batch:
            self.beat()
            try:
                self._record_one(finished)
            except ContentRefused as error:  # must not keep the others waiting for ever
                _log.error("trial %s: %s", finished.trial.key, error)
                refused[finished.trial.key] = str(error)
        if self._shelf is not None and self._shelf.is_due:
            self.keep_table()
        return refused

    def keep_table(self) -> None:
        """Have all that is recorded in the parent run's table, for quick reading."""
        if self._shelf is not None and self._holds_lease:
            self._shelf.put(self._children.values())

    def beat(self) -> None:
        """Renew the lease, if it is time.

        Raises:
            LeaseHeld: another driver has it.
        """
        now_s = time.time()
        if self._beaten_s <= now_s < self._beaten_s + lease.BEAT_S:
            return
        opening = self._opened()
        self._refuse_other(self._store.run(self._parent).tags, now_s)
        self._store.log(self._parent, tags=lease.claim(opening.owner, now_s))
        self._beaten_s = now_s

    def close(
        self,
        state: Literal["complete", "stopped", "failed"],
        texts: Mapping[str, str],
        description: str = "",
    ) -> None:
        """End the session: the report, the state, and the lease given back.

        Args:
            state: how the sweep stands.
            texts: artifacts of the parent run by path.
            description: what the parent run's page begins with, in Markdown, of at most `TAG_LIMIT`
                characters; "" leaves it as it is.
        """
        self.keep_table()
        for path, text in texts.items():
            self._store.write_text(self._parent, path, text)
        for dataset in self._datasets():
            self._store.log_dataset(self._parent, dataset)
        tags = {"state": state, **lease.released()}
        if description:
            tags[sweep_runs.NOTE_TAG] = description[:TAG_LIMIT]
        self._store.log(self._parent, tags=tags)
        self._store.set_status(self._parent, _RUN_STATUS[state], round(time.time() * 1000))
        self._holds_lease = False
        self._store.analyse()

    def __enter__(self) -> Tracker:
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
        found = self._store.search([self._experiment], sweep_runs.of_generation(generation))
        return sweep_runs.first(found)

    def _create_parent(self) -> StoredRun:
        identity = self._opened().identity
        run_id = self._store.create_run(
            self._experiment,
            identity.label,
            round(time.time() * 1000),
            sweep_runs.tags(identity) | lease.claim(self._opened().owner, time.time()),
        )
        parent = self._find_parent() or self._store.run(run_id)
        if parent.run_id != run_id:
            self._store.delete_run(run_id)  # another driver was first
        return parent

    def _claim(self, parent: StoredRun) -> float:
        """Take the lease; when that was."""
        now_s = time.time()
        self._refuse_other(parent.tags, now_s)
        tags = {"state": "running", **lease.claim(self._opened().owner, now_s)}
        self._store.log(self._parent, tags=tags)
        self._store.set_status(self._parent, "RUNNING")
        self._beaten_s, self._holds_lease = now_s, True
        return now_s

    def _confirm(self, claimed_s: float) -> None:
        """Read the lease again, later than another driver that saw it free could write.

        MLflow has no compare-and-set. Of two drivers that write at once the later one reads its
        own name here and the other is refused.
        """
        time.sleep(max(0.0, min(_SETTLE_S, claimed_s + _SETTLE_S - time.time())))
        parent = self._find_parent()
        if parent is None or parent.run_id != self._parent:
            if not self._children:
                self._store.delete_run(self._parent)
            self._holds_lease = False
            tags = parent.tags if parent else {}
            raise LeaseHeld(
                self._opened().identity.label,
                tags.get(lease.OWNER_TAG, "another driver"),
                time.time() + lease.LEASE_S,
            )
        self._refuse_other(parent.tags, time.time())

    def _refuse_other(self, tags: Mapping[str, str], now_s: float) -> None:
        opening = self._opened()
        other = lease.holder(tags, opening.owner, now_s)
        if other is not None:
            self._holds_lease = False
            raise LeaseHeld(opening.identity.label, *other)

    def _describe(self, opening: SweepOpening) -> None:
        manifest = manifest_adapter.dump_json(manifest_of(opening), indent=2).decode()
        self._store.write_text(self._parent, sweep_runs.SPEC_FILE, opening.spec_yaml)
        self._store.write_text(self._parent, sweep_runs.PLAN_FILE, canonical(opening.plan))
        self._store.write_text(self._parent, sweep_runs.MANIFEST_FILE, manifest)
        self._store.tag_experiment(self._experiment, view_tags(self._parent, opening))

    def _record_one(self, finished: FinishedTrial) -> None:
        key = finished.trial.key
        known = self._children.get(key)
        if known and known.finished and fingerprint(known.finished) == fingerprint(finished):
            return
        assert self._shelf is not None  # open_sweep comes first
        content = run_content(self._opened().identity, finished)
        content = replace(content, tags={**content.tags, **self._shelf.late_tags})
        self._keep_environment(finished)
        if known is None:
            run = self._create_child(key, content)
            new = run.status == "RUNNING" and run.tags == content.tags
        else:
            run, new = self._store.run(known.run_id), False
        self._children[key] = Child(run.run_id, None)
        self._shelf.late += 1
        self._fill(run, content, tags=not new)
        self._children[key] = Child(run.run_id, finished)

    def _create_child(self, key: str, content: RunContent) -> StoredRun:
        """Make the run, unless an earlier request whose answer was lost has made it."""
        for last_try in (False, True):
            if key in self._unsure:
                query = f"{of_parent(self._parent)} and tags.trial_key = '{key}'"
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
        """Write all that a run says; ended last, so that a half-written one can be told."""
        if run.has_ended:
            # Before anything else: the table has the trial as it was.
            if late := content.tags.get(LATE_TAG):
                self._store.log(run.run_id, tags={LATE_TAG: late})
            self._store.set_status(run.run_id, "RUNNING")
        for path, text in content.texts.items():
            self._store.write_text(run.run_id, path, text)
        for key in OPTIONAL_TAGS if tags else ():
            if key in run.tags and key not in content.tags:
                self._store.delete_tag(run.run_id, key)
        self._store.log(
            run.run_id,
            params={  # a param cannot change, and an earlier version may have written another
                key: value for key, value in content.params.items() if key not in run.params
            },
            tags=content.tags if tags else None,
            points=content.points,
        )
        if content.dataset is not None:
            self._store.log_dataset(run.run_id, content.dataset)
        self._store.set_status(run.run_id, content.status, content.end_ms)

    def _datasets(self) -> list[DatasetRecord]:
        """What the trials loaded: one, if all is well."""
        loaded = [
            each.finished.outcome.dataset for each in self._children.values() if each.finished
        ]
        return list(dict.fromkeys(each for each in loaded if each is not None))

    def _keep_environment(self, finished: FinishedTrial) -> None:
        name = f"{environment_digest(finished)}.json"
        if finished.outcome.environment and name not in self._environments:
            text = canonical(finished.outcome.environment)
            self._store.write_text(self._parent, f"{ENVIRONMENTS}/{name}", text)
            self._environments.add(name)
