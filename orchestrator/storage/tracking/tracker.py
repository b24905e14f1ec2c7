"""The protocol of a tracker: the store in which people look at a sweep's trials.

A tracker keeps *runs*. Each generation of a sweep has one, the *sweep's run*, and each trial has
one below it. A run has a status, params (which never change), tags (short texts, which do),
metrics (points of curves) and files.

The life of a sweep, and who calls what:

1. The recorder process opens the tracker to write. `Writer.open` looks for the sweep's run
   (`sweep_runs`) or makes it (`create_sweep_run`), and takes the lease, which is one of its tags.
2. It reads what the tracker has of the sweep already (`file`, `trial_runs`), and describes the
   sweep (`write_file`, `log`, `show_sweep`).
3. `Writer.record` gets a trial that has ended: `create_trial_run`, then `log` and `write_file`, and
   last `set_status`, so that a run whose writer died is noticed by its status and is completed.
   Between trials the lease is renewed (`log`).
4. `Writer.close` writes the reports and the state, releases the lease, and calls `settle`.
5. Commands and notebooks open the tracker to read: `sweep_runs`, `file`, `trial_runs`.

Exactly once, the lease, batches, retries, the table of all trials, and versions are the sweep's own
and stand in `writer`, `reader` and `trial_table`. A tracker only keeps what it is given. It has
three duties:

- A call that returned is kept, whatever happens to this process. What one process wrote, the next
  call of any process reads.
- `create_sweep_run` and `create_trial_run` make one run or raise an error. They never try again
  themselves, because a first request whose answer was lost may have made the run. The writer
  searches for it before it asks again.
- Every error is raised as a `TrackingError`, as `StoreAway` if the same call may succeed later, and
  as `ContentRefused` if the tracker works and will never take this content.

Names, tags and params are as MLflow takes them, for every tracker (`limits`): `trial_content` cuts
and cleans them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from orchestrator.core.trial import DatasetRecord
from orchestrator.storage.tracking.stored_records import Answer, Manifest

RunStatus: TypeAlias = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric. Times are milliseconds since the epoch."""

    name: str
    value: float
    at_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as the tracker has it. Times are milliseconds since the epoch; 0 is no end.

    `experiment_id` is the tracker's id of the sweep's name, if it groups runs by it. `metrics` has
    the last point of each curve. The runs that `Tracker.trial_runs` yields may lack params and
    metrics.
    """

    run_id: str
    experiment_id: str
    name: str
    status: RunStatus
    start_ms: int
    tags: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    end_ms: int = 0

    @property
    def has_ended(self) -> bool:
        """True if its writer reached the end of it."""
        return self.status in ("finished", "failed")


@dataclass(frozen=True, slots=True)
class TrialContent:
    """The content of a trial's run. `texts` are files by path.

    `arm_index` is the position of its arm in the sweep, for a tracker that gives arms a colour.
    """

    name: str
    start_ms: int
    end_ms: int
    status: Literal["finished", "failed"]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[Point, ...]
    dataset: DatasetRecord | None
    texts: Mapping[str, str] = field(default_factory=dict)
    arm_index: int | None = None


class Tracker(Protocol):
    """An open tracker. Used from one thread. Every method raises `TrackingError`."""

    shown: str
    """Its address for messages: without a password."""

    def sweep_names(self) -> list[str]:
        """Return the names of all sweeps, to suggest one that is spelled like a missing one."""

    def sweep_runs(self, name: str | None = None) -> list[StoredRun]:
        """Return the runs of all generations of a sweep, or of all sweeps: whole, not deleted."""

    def create_sweep_run(
        self, sweep: str, name: str, start_ms: int, tags: Mapping[str, str]
    ) -> StoredRun:
        """Make the run of a generation of the sweep, and return it as it is now."""

    def trial_runs(
        self,
        sweep_run: StoredRun,
        *,
        tag: tuple[str, str] | None = None,
        status: RunStatus | None = None,
        deleted: bool = False,
    ) -> Iterator[StoredRun]:
        """Yield the runs of a sweep's trials in order of their start, each with all of its tags.

        Only runs with this tag, only runs of this status, or only the deleted ones in place of the
        others. Of 10,000 runs usually few have the tag or the status: this must be quick.
        """

    def create_trial_run(self, sweep_run: StoredRun, content: TrialContent) -> StoredRun:
        """Make the running run of a trial with its name, start and tags; return it as it is now."""

    def run(self, run_id: str) -> StoredRun:
        """Return one run, whole."""

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        points: Sequence[Point] = (),
    ) -> None:
        """Add to a run. A tag that it has is replaced; a param that it has is never given."""

    def delete_tag(self, run_id: str, name: str) -> None:
        """Remove a tag that the run has."""

    def log_dataset(self, run_id: str, dataset: DatasetRecord) -> None:
        """Name the data that a run trained on; doing it again changes nothing."""

    def set_status(self, run_id: str, status: RunStatus, end_ms: int | None = None) -> None:
        """Set a run's status; with `end_ms` it has ended."""

    def delete_run(self, run_id: str) -> None:
        """Hide a run: only `trial_runs` with `deleted` yields it."""

    def write_file(self, run_id: str, path: str, content: str | Path) -> None:
        """Keep a text, or a copy of a file, below `path` with the run; replace one of that path."""

    def files(self, run_id: str) -> list[str]:
        """Return the names at the top of a run's files."""

    def file(self, run_id: str, path: str) -> AbstractContextManager[Path]:
        """Give a run's file as a local one that exists while the context lasts."""

    def log_model(self, run: StoredRun, folder: Path) -> None:
        """Keep the model of a trial: the files in `folder`, a Keras model as `model.keras`.

        The writer may call it again after an error.
        """

    def show_sweep(
        self, run_id: str, manifest: Manifest, settings: set[str], answer: Answer | None
    ) -> None:
        """Show people what the sweep is: views, links, and its answer, if there is a new one.

        `settings` are the names in the configs of its trials. The answer's text describes the
        sweep's run; `source` is kept as the tag `stored_records.SOURCE_TAG`. An answer may come
        again with other values, of which params keep the first one.
        """

    def settle(self) -> None:
        """Tidy up after a sweep, for quick reading; may do nothing."""


def read_run_text(tracker: Tracker, run_id: str, path: str) -> str:
    """Return a text file of a run."""
    with tracker.file(run_id, path) as local:
        return local.read_text(encoding="utf-8", errors="replace")
