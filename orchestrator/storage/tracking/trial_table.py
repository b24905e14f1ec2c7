"""A sweep's trials: in one file, `trials.parquet` of the sweep's run, and in runs that it lacks.

The file has the columns of `to_rows`, which `query` reads alone, and the column `record` to read
trials back: reading 10,000 runs takes MLflow half a minute, and this file a second. It has only
trials of its sweep. Runs that somebody deleted are left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from orchestrator.core.formats import Format, this_rnnsweep
from orchestrator.core.trial import (
    Block,
    FinishedTrial,
    SweepIdentity,
    canonical,
    make_trial,
    value_text,
)
from orchestrator.core.trial_columns import COLUMNS, CellKind, config_names, metric_names
from orchestrator.storage.tracking import stored_records
from orchestrator.storage.tracking.tracker import StoredRun, Tracker, read_run_text
from orchestrator.storage.tracking.tracking_errors import (
    Damaged,
    Outdated,
    TrackingError,
    WrongVersion,
)
from workloads.protocol import encode_message

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

TABLE_FILE = "trials.parquet"
CONFIG, METRIC = "config.", "metric."
"""The prefixes of the columns of params and metrics: a param may have the name of a column."""

FINGERPRINT = "fingerprint"
"""The column of fingerprints as JSON, from which queries compute the differences between arms."""

TABLE = Format("a table of trials", 9)
"""A cache: a table of another number is written again, from the runs."""

_RECORD = "record"
_INSTEAD = "The runs are read instead"
_ROWS_OF_GROUP, _ROWS_AT_ONCE = 5000, 500
"""The rows that are in memory twice while a table is read (at once): as text and as trials."""

_log = logging.getLogger(__name__)


def to_rows(trials: Sequence[FinishedTrial]) -> pa.Table:
    """Return trials as a table: all `COLUMNS`, each param and metric. NaN is a missing value."""
    import pyarrow as pa  # noqa: PLC0415  (a process that handles no table needs none of it)

    arrays = {c.name: to_array([c.get(trial) for trial in trials], c.kind) for c in COLUMNS}
    texts = [None if t.fingerprint is None else encode_message(t.fingerprint) for t in trials]
    arrays[FINGERPRINT] = to_array(texts, "text")
    for name in config_names(trials):
        arrays[CONFIG + name] = to_array([trial.params.get(name) for trial in trials])
    for name in metric_names(trials):
        arrays[METRIC + name] = to_array([t.metrics.get(name) for t in trials], "number")
    return pa.table(arrays)


def to_array(cells: Sequence[Any], kind: CellKind | None = None) -> pa.Array:
    """Return cells as a column of this kind, or of the one that fits all of them."""
    import pyarrow as pa  # noqa: PLC0415

    types = {
        "whole": pa.int64(),
        "number": pa.float64(),
        "text": pa.string(),
        "truth": pa.bool_(),
        "time": pa.timestamp("ms"),  # in UTC
    }
    kind = kind or _kind(cells)
    values = [None if cell is None else _as(kind, cell) for cell in cells]
    return pa.array(values, types[kind], from_pandas=True)  # NaN becomes null


def _kind(cells: Iterable[Any]) -> CellKind:
    types = {type(cell) for cell in cells if cell is not None}
    if types == {bool}:
        return "truth"
    if types == {int} and all(cell is None or abs(cell) < 2**63 for cell in cells):
        return "whole"
    return "number" if types and types <= {int, float} else "text"


def _as(kind: CellKind, cell: Any) -> Any:
    if kind == "text":
        # A text may have a lone surrogate.
        return value_text(cell).encode(errors="backslashreplace").decode()
    if kind == "time":
        return round(1000 * cell)
    return float(cell) if kind == "number" else cell


def write_table(path: Path, number: int, trials: Sequence[FinishedTrial]) -> None:
    """Write a table of trials; the tables of a sweep are numbered from 1."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = to_rows(trials)
    head = {"version": TABLE.number, "written_by": this_rnnsweep(), "number": number}
    about = {"rnnsweep": canonical(head)}
    schema = rows.schema.append(pa.field(_RECORD, pa.string())).with_metadata(about)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, max(len(trials), 1), _ROWS_OF_GROUP):
            texts = [*map(stored_records.record_text, trials[first : first + _ROWS_OF_GROUP])]
            part = rows.slice(first, _ROWS_OF_GROUP)
            part = part.append_column(_RECORD, pa.array(texts, pa.string()))
            writer.write_table(part)


def read_table(path: Path, source: str = TABLE_FILE) -> tuple[int, list[FinishedTrial]]:
    """Return the number and the trials of a table, which is read a group of rows at a time.

    Raise `Outdated` for another format number, and `Damaged`; the runs have all that it has.
    """
    return _read(path, source, lambda file: list(_trials(file, source)))


def read_stored_rows(path: Path, source: str = TABLE_FILE) -> tuple[int, pa.Table]:
    """Return the number and the rows of a table, as `read_table`."""

    def rows(file: Any) -> Any:
        names = [name for name in file.schema_arrow.names if name != _RECORD]
        return file.read(columns=names).replace_schema_metadata()

    return _read(path, source, rows)


def _read(path: Path, source: str, content: Callable[[Any], _T]) -> tuple[int, _T]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            about = json.loads(file.schema_arrow.metadata[b"rnnsweep"])
            if about["version"] != TABLE.number:
                raise Outdated(source, f"it has format {about['version']}", _INSTEAD)
            return about["number"], content(file)
    except (Outdated, WrongVersion):
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, TrackingError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise Damaged(source, f"it cannot be read ({reason})", _INSTEAD) from error


def _trials(file: Any, source: str) -> Iterator[FinishedTrial]:
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["run_id", _RECORD]):
        ids, texts = (column.to_pylist() for column in batch.columns)
        for run_id, text in zip(ids, texts, strict=True):
            yield replace(stored_records.TRIAL.load(text, f"a row of {source}"), run_id=run_id)


@dataclass(slots=True)
class StoredTrials:
    """The trials of a sweep by key, and runs that double one of them.

    Of two runs of one trial the first finished one is kept, else the first. `unfinished` are runs
    whose writer was stopped half-way. `table` is the number of the table that was read, or 0, and
    `late` the number of trials that it lacks or has otherwise. `needs_table` marks a table that
    could not be read or written: it is written before any run.
    """

    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    unfinished: dict[str, StoredRun] = field(default_factory=dict)
    doubles: list[StoredRun] = field(default_factory=list)
    table: int = 0
    late: int = 0
    needs_table: bool = False


def table_tag(number: int) -> str:
    """Return the tag of the runs that this table has first as they are now.

    The number is in the tag's name, since MLflow has an index of names, and none of values.
    """
    return f"{stored_records.HIDDEN}table.{number}"


def read_trials(tracker: Tracker, parent: StoredRun, identity: SweepIdentity) -> StoredTrials:
    """Return the trials that the tracker has of a sweep."""
    stored = StoredTrials()
    table = _read_table(tracker, parent, stored, read_table)
    if table is None:
        _add_runs(tracker, stored, tracker.trial_runs(parent), identity)
        return stored
    stored.table, trials = table
    changes = _changes(tracker, parent, stored.table)
    gone = {run.run_id for run in changes.deleted}
    stored.finished = {trial.key: trial for trial in trials if trial.run_id not in gone}
    stored.late = len(trials) - len(stored.finished)
    stored.late += _add_runs(tracker, stored, changes.late, identity)
    _add_runs(tracker, stored, changes.half_written, identity)
    return stored


def read_table_rows(tracker: Tracker, parent: StoredRun) -> pa.Table | None:
    """Return the rows of the table; None if runs were recorded or deleted since it was written."""
    table = _read_table(tracker, parent, StoredTrials(), read_stored_rows)
    if table is None:
        return None
    number, rows = table
    changes = _changes(tracker, parent, number)
    gone = {run.run_id for run in changes.deleted}
    if gone and not gone.isdisjoint(rows["run_id"].to_pylist()):
        return None
    has_others = any(next(runs, None) for runs in (changes.late, changes.half_written))
    return None if has_others else rows


class _Changes(NamedTuple):
    """The runs of a sweep that differ from a table: each is searched for when it is first read."""

    deleted: Iterator[StoredRun]
    late: Iterator[StoredRun]
    """Recorded after the table was written."""

    half_written: Iterator[StoredRun]


def _changes(tracker: Tracker, parent: StoredRun, table: int) -> _Changes:
    return _Changes(
        tracker.trial_runs(parent, deleted=True),
        tracker.trial_runs(parent, tag=(table_tag(table + 1), "1")),
        tracker.trial_runs(parent, status="running"),
    )


def _add_runs(
    tracker: Tracker, stored: StoredTrials, runs: Iterable[StoredRun], identity: SweepIdentity
) -> int:
    """Add what is in these runs, and return their number; a run replaces its own row."""
    count = 0
    for run in runs:
        key = run.tags.get("trial_key")
        if key is None:
            continue
        count += 1
        trial = finished_of(tracker, run)
        if trial is not None and not _is_own(trial, identity):
            _log.warning("run %s is skipped: its trial has another trial's key", run.run_id)
            trial = None
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


def _is_own(trial: FinishedTrial, identity: SweepIdentity) -> bool:
    """Return whether a trial has its key in the sweep: else it is damaged, or no part of it."""
    block = Block(trial.block, trial.config)
    return trial.key == make_trial(identity, block, trial.arm, trial.repeat).key


def _read_table(
    tracker: Tracker, parent: StoredRun, stored: StoredTrials, read: Callable[[Path, str], _T]
) -> _T | None:
    if TABLE_FILE not in tracker.files(parent.run_id):
        return None
    try:
        with tracker.file(parent.run_id, TABLE_FILE) as path:
            return read(path, f"{TABLE_FILE} of run {parent.run_id} in {tracker.shown}")
    except Damaged as error:
        level = logging.INFO if isinstance(error, Outdated) else logging.WARNING
        _log.log(level, "run %s: %s", parent.run_id, error)
        stored.needs_table = True
        return None


def finished_of(tracker: Tracker, run: StoredRun) -> FinishedTrial | None:
    """Return the trial of a run; None where its writer was stopped half-way, or it is damaged."""
    text = run.tags.get(stored_records.RECORD_TAG)
    if not run.has_ended or text is None:
        return None
    try:
        if text == stored_records.RECORD_FILE:
            text = read_run_text(tracker, run.run_id, stored_records.RECORD_FILE)
        source = f"tag {stored_records.RECORD_TAG} of run {run.run_id} in {tracker.shown}"
        return replace(stored_records.TRIAL.load(text, source), run_id=run.run_id)
    except WrongVersion:
        raise
    except TrackingError as error:
        # One damaged run must not make a sweep unreadable: the trial is recorded or run once more.
        _log.warning("run %s is skipped: %s", run.run_id, error)
        return None
