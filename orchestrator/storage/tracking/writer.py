"""The writer in the recorder process: one parent run per sweep, one run per trial, exactly once."""

import functools
import logging
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from orchestrator.core.records import EndState, SweepRecord
from orchestrator.core.trial import FinishedTrial, SweepIdentity, canonical, digest
from orchestrator.storage.tracking import reader, stored_records, tracking_errors, trial_table
from orchestrator.storage.tracking.limits import ANSWER_LIMIT
from orchestrator.storage.tracking.stored_records import Answer
from orchestrator.storage.tracking.tracker import (
    RunStatus,
    StoredRun,
    Tracker,
    TrialContent,
)
from orchestrator.storage.tracking.trackers import create_tracker
from orchestrator.storage.tracking.trial_content import TRIAL_TAGS, trial_content
from orchestrator.storage.tracking.trial_table import TABLE_FILE, StoredTrials

_SETTLE_S = 0.5
_RUN_STATUS: Mapping[EndState, RunStatus] = {
    "complete": "finished",
    "stopped": "stopped",
    "failed": "failed",
}

_FEWEST_LATE, _LATE_SHARE = 100, 0.25
"""The new trials, and their share, at which the table is written again.

All tables of a sweep together then take about five times as long to write as the last one.
"""

_log = logging.getLogger(__name__)


class Writer:
    """The writer of one sweep. Used from one thread; the driver's `RecorderCall`s use it."""

    def __init__(self, tracking_uri: str, home: Path) -> None:
        self._uri = tracking_uri
        self._home = home
        self._opening: stored_records.SweepOpening  # from `open` on
        self._holds_lease = False
        self._sweep_run: StoredRun  # from `open` on; as it was then
        self._stored = StoredTrials()
        self._unsure: set[str] = set()  # keys whose creation ended in an error
        self._renewed_s = 0.0
        self._last_run = "", ""  # trial key and run id

    @functools.cached_property
    def _tracker(self) -> Tracker:
        return create_tracker(self._uri, self._home)

    def find(self, name: str, *, fresh: bool) -> stored_records.FoundSweep:
        """Return the latest generation of a sweep, as `reader.find`; none has to be open."""
        return reader.find(self._uri, name, fresh=fresh)

    def read(self) -> tuple[SweepRecord, dict[str, str]]:
        """Return the sweep without its trials, and the ids of their runs by key, in its order."""
        self._update_table()  # so that the next reading needs no single runs
        trials, manifest = list(self._stored.finished.values()), self._opening.manifest
        record = reader.sweep_of(
            self._tracker, self._tracker.run(self._parent_id), manifest, trials
        )
        return replace(record, trials=()), {trial.key: trial.run_id for trial in record.trials}

    def open(
        self,
        opening: stored_records.SweepOpening,
        had: Mapping[str, float] = MappingProxyType({}),
        *,
        has_claimed: bool = False,
    ) -> stored_records.StoreDifferences:
        """Find or make the sweep's runs, and take the lease; or store what an open sweep has now.

        Return the trials in the store, and the keys of those that it lacks, compared with what the
        caller `had`: the end of each outcome by key. A store that is a missing file is made.

        Raise `LeaseHeld` if a live driver records into this sweep, or has taken the lease of one
        that `has_claimed` it, `OtherSweep` for the journal of another one, and errors of `reader`.
        """
        self._opening = opening
        if self._holds_lease:
            self.renew_lease()
            self._describe(is_described=True)
            return stored_records.StoreDifferences([], [])
        parent = self._find_parent()
        if parent is None:
            parent = self._create_parent()
        else:
            reader.read_manifest(self._tracker, parent)  # or refuse it: it is replaced below
        self._sweep_run = parent
        claimed_s = self._claim(parent, has_claimed=has_claimed)
        self._stored = trial_table.read_trials(self._tracker, parent, self._identity)
        self._describe(is_described=stored_records.SOURCE_TAG in parent.tags)
        self._confirm(claimed_s)
        for run in self._stored.doubles:
            _log.warning("run %s repeats trial %s: deleted", run.run_id, run.tags["trial_key"])
            self._tracker.delete_run(run.run_id)
        self._holds_lease, stored = True, self._stored.finished
        ends_s = {key: trial.ended_s for key, trial in stored.items()}
        return stored_records.StoreDifferences(
            [trial for key, trial in stored.items() if trial.ended_s > had.get(key, 0.0)],
            [key for key, end_s in had.items() if end_s > ends_s.get(key, 0.0)],
        )

    def record(self, batch: Sequence[FinishedTrial]) -> dict[str, str]:
        """Write trials that have ended; what the store has already is not written again.

        Return why the store will never take some of them, by trial key; usually none. After a
        `TrackingError` the same batch can be given again. The lease is lost (`LeaseHeld`) if this
        process was suspended for longer than it lasts.
        """
        refused: dict[str, str] = {}
        self.renew_lease()  # also with an empty batch
        if self._stored.needs_table:
            self._write_table()
        for trial in batch:
            self.renew_lease()
            try:
                self._record_one(trial)
            except tracking_errors.ContentRefused as error:  # must not keep other trials waiting
                _log.error("trial %s: %s", trial.key, error)
                self._expect_lease(time.time())  # else the run may be another driver's by now
                refused[trial.key] = str(error)
                if run := self._stored.unfinished.get(trial.key):
                    self._tracker.set_status(run.run_id, "failed", round(trial.ended_s * 1000))
        if self._stored.late >= max(_FEWEST_LATE, _LATE_SHARE * len(self._stored.finished)):
            self._write_table()
        return refused

    def renew_lease(self) -> None:
        """Renew the lease, if it is time; raise `LeaseHeld` if another driver has or had it."""
        now_s = time.time()
        if not self._renewed_s <= now_s < self._renewed_s + stored_records.RENEWAL_S:
            self._expect_lease(now_s)
            self._tracker.log(
                self._parent_id, tags=stored_records.lease_tag(self._opening.owner, now_s)
            )
            self._renewed_s = now_s

    def close(
        self, state: EndState, texts: Mapping[str, str], answer: Answer | None = None
    ) -> None:
        """End the session, as `Recorder.close`; without an answer, the run keeps its last one."""
        self._update_table()
        trials = self._stored.finished.values()
        found = (trial.outcome.environment for trial in trials)
        distinct = {id(environment): environment for environment in found}
        environments = canonical({digest(facts): facts for facts in distinct.values()})
        for path, text in {**texts, "environments.json": environments}.items():
            self._tracker.write_file(self._parent_id, path, text)
        for dataset in reader.datasets(trials):
            self._tracker.log_dataset(self._parent_id, dataset)
        self._publish(answer)
        self._tracker.log(self._parent_id, tags={"state": state, **stored_records.lease_tag()})
        self._tracker.set_status(self._parent_id, _RUN_STATUS[state], round(time.time() * 1000))
        self._holds_lease = False
        self._tracker.settle()

    def log_model(self, run_id: str, packed: Path) -> None:
        """Log a packed model with its run."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            unpack_model(packed, folder)
            if keras_file := min(folder.glob("*.keras"), default=None):
                keras_file.replace(keras_file.with_name("model.keras"))
            self._tracker.log_model(self._tracker.run(run_id), folder)

    @property
    def _parent_id(self) -> str:
        return self._sweep_run.run_id

    @property
    def _identity(self) -> SweepIdentity:
        return self._opening.manifest.identity

    def _find_parent(self) -> StoredRun | None:
        number = str(self._identity.generation)
        runs = self._tracker.sweep_runs(self._identity.name)
        return reader.first_parent(run for run in runs if run.tags.get("generation") == number)

    def _create_parent(self) -> StoredRun:
        identity, now_s = self._identity, time.time()
        tags = {
            "sweep": identity.label,
            "generation": str(identity.generation),
            "workload": identity.workload,
            "state": "running",
            stored_records.ID_TAG: self._opening.sweep_id,
            **stored_records.lease_tag(self._opening.owner, now_s),
        }
        made = self._tracker.create_sweep_run(
            identity.name, identity.label, round(now_s * 1000), tags
        )
        parent = self._find_parent() or made
        if parent.run_id != made.run_id:
            self._tracker.delete_run(made.run_id)  # another driver was first
        return parent

    def _claim(self, parent: StoredRun, *, has_claimed: bool) -> float:
        """Take the lease of the journal's own sweep, and return the time of that."""
        now_s, sweep_id = time.time(), self._opening.sweep_id
        if has_claimed or not self._opening.takes_over:
            self._refuse_other(parent, now_s, has_claimed=has_claimed)
        stored_id = parent.tags.get(stored_records.ID_TAG) or sweep_id
        if stored_id != sweep_id:
            raise tracking_errors.OtherSweep(self._identity.label, self._tracker.shown)
        lease = stored_records.lease_tag(self._opening.owner, now_s)
        tags = {"state": "running", stored_records.ID_TAG: sweep_id, **lease}
        self._tracker.log(self._parent_id, tags=tags)
        self._tracker.set_status(self._parent_id, "running")
        self._renewed_s = now_s
        return now_s

    def _confirm(self, claimed_s: float) -> None:
        """Read the lease again, later than another driver that saw it free could write."""
        # A tracker has no compare-and-set. Of two drivers that write at once the later one reads
        # its own name here and the other is refused.
        time.sleep(max(0.0, min(_SETTLE_S, claimed_s + _SETTLE_S - time.time())))
        parent = self._find_parent()
        if parent is not None and parent.run_id == self._parent_id:
            self._refuse_other(parent, time.time())
            return
        if not self._stored.finished and not self._stored.unfinished:
            self._tracker.delete_run(self._parent_id)
        self._holds_lease = False
        until_s = time.time() + stored_records.LEASE_S
        raise tracking_errors.LeaseHeld(self._identity.label, "another driver", until_s)

    def _refuse_other(self, parent: StoredRun, now_s: float, *, has_claimed: bool = False) -> None:
        lease = reader.lease_of(self._tracker, parent)
        is_lost = has_claimed or lease.is_held(now_s)  # another may have released it already
        if lease.owner != self._opening.owner and is_lost:
            self._holds_lease = False
            owner = str(lease.owner) if lease.owner is not None else ""
            raise tracking_errors.LeaseHeld(self._identity.label, owner, lease.until_s)

    def _expect_lease(self, now_s: float) -> None:
        try:
            self._refuse_other(self._tracker.run(self._parent_id), now_s, has_claimed=True)
        except tracking_errors.LeaseHeld:
            self._delete_double()
            raise

    def _describe(self, *, is_described: bool) -> None:
        opening, manifest = self._opening, self._opening.manifest
        for path, text in (
            (reader.SPEC_FILE, opening.spec_yaml),
            ("plan.json", canonical(opening.plan)),
            (reader.MANIFEST_FILE, stored_records.MANIFEST.dump(manifest)),
        ):
            self._tracker.write_file(self._parent_id, path, text)
        self._tracker.log(self._parent_id, tags=manifest.identity.code_facts)
        waiting = f"The answer of {manifest.identity.label} appears here at the end.\n"
        self._publish(None if is_described else Answer(waiting))

    def _publish(self, answer: Answer | None) -> None:
        if answer is not None:
            answer = replace(answer, description=answer.description[:ANSWER_LIMIT])
        settings = {name for trial in self._stored.finished.values() for name in trial.config}
        self._tracker.show_sweep(self._parent_id, self._opening.manifest, settings, answer)

    def _update_table(self) -> None:
        if (self._stored.late or self._stored.needs_table) and self._holds_lease:
            self._write_table()

    @property
    def _table_tag(self) -> str:
        return trial_table.table_tag(self._stored.table + 1)

    def _write_table(self) -> None:
        stored = self._stored
        stored.needs_table = True
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TABLE_FILE
            trials = reader.in_order(stored.finished.values(), self._opening.manifest.arms)
            trial_table.write_table(path, stored.table + 1, trials)
            self._tracker.write_file(self._parent_id, TABLE_FILE, path)
        stored.table, stored.late, stored.needs_table = stored.table + 1, 0, False

    def _record_one(self, trial: FinishedTrial) -> None:
        key = trial.key
        stored = self._stored.finished.get(key)
        if stored is not None and _revision(stored) == _revision(trial):
            return
        content = trial_content(self._identity, trial, self._opening.manifest.arms)
        content = replace(content, tags={**content.tags, self._table_tag: "1"})
        run_id = stored.run_id if stored else ""
        if key in self._stored.unfinished:
            run_id = self._stored.unfinished[key].run_id
        run = self._tracker.run(run_id) if run_id else self._create_run(key, content)
        self._stored.finished.pop(key, None)
        self._stored.unfinished[key] = run
        self._stored.late += 1
        self._last_run = key, run.run_id
        self._fill(run, content)
        del self._stored.unfinished[key]
        self._stored.finished[key] = replace(trial, run_id=run.run_id)

    def _delete_double(self) -> None:
        """Delete the last run of this driver if another one has recorded its trial as well."""
        # This process may have been suspended while it wrote it, for longer than the lease.
        key, run_id = self._last_run
        runs = [run.run_id for run in self._runs_of_trial(key)]
        if run_id in runs and len(runs) > 1:
            self._tracker.delete_run(run_id)

    def _runs_of_trial(self, key: str) -> Iterator[StoredRun]:
        return self._tracker.trial_runs(self._sweep_run, tag=("trial_key", key))

    def _create_run(self, key: str, content: TrialContent) -> StoredRun:
        """Make the run, unless an earlier request whose answer was lost has made it."""
        if key in self._unsure:
            made_earlier = next(self._runs_of_trial(key), None)
            if made_earlier is not None:
                return made_earlier
        self._unsure.add(key)
        run = self._tracker.create_trial_run(self._sweep_run, content)
        self._unsure.discard(key)
        return run

    def _fill(self, run: StoredRun, content: TrialContent) -> None:
        """Write the content of a run. Its status is set last, so that a partial one is noticed."""
        if run.has_ended:
            # Before anything else: the table has the trial as it was.
            self._tracker.log(run.run_id, tags={self._table_tag: "1"})
            self._tracker.set_status(run.run_id, "running")
        for path, text in content.texts.items():
            self._tracker.write_file(run.run_id, path, text)
        for key in TRIAL_TAGS:
            if key in run.tags and key not in content.tags:
                self._tracker.delete_tag(run.run_id, key)
        self._tracker.log(
            run.run_id,
            params={  # a param cannot change, and an earlier attempt may have written another
                key: value for key, value in content.params.items() if key not in run.params
            },
            tags={key: value for key, value in content.tags.items() if run.tags.get(key) != value},
            points=content.points,
        )
        if content.dataset is not None:
            self._tracker.log_dataset(run.run_id, content.dataset)
        self._tracker.set_status(run.run_id, content.status, content.end_ms)


def _revision(trial: FinishedTrial) -> tuple[str, int, float, float]:
    return trial.status, trial.attempt, trial.started_s, trial.ended_s


def unpack_model(packed: Path, folder: Path) -> None:
    """Unpack files and folders that lie in the folder; raise `tarfile.TarError` for anything else.

    `extractall(filter="data")` does this from Python 3.11.4 on; Debian 12 has 3.11.2.
    """
    with tarfile.open(packed) as tar:
        for member in tar.getmembers():
            is_inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
            if not is_inside or not (member.isfile() or member.isdir()):
                raise tarfile.TarError(
                    f"{packed}: {member.name!r} is not a file or folder of one model"
                )
        tar.extractall(folder)
