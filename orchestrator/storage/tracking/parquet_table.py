"""A sweep's trials in one file, `trials.parquet` of the parent run, for quick reading.

Reading 10,000 runs takes MLflow half a minute, and this file a second. Its columns have the names
and values of `mlflow.search_runs`, for whoever loads it. The column `record` holds each trial
whole, as its run's tag does; reports read this one. The file is a copy: runs that are written
after it are marked by a tag, and `orchestrator.storage.tracking.stored_runs` reads them too.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator.core.trial import ConfigValue, FinishedTrial, canonical
from orchestrator.core.trial_columns import TAGS, metric_names
from orchestrator.storage.tracking.errors import TrackingError, WrongVersion
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.run_content import trial_params, trial_tags
from orchestrator.storage.tracking.trial_record import (
    environment_digest,
    finished_trial,
    record_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FILE = "trials.parquet"

LATE_TAG = "after_table"
"""The tables that existed, by token, when a trial's run was last written: it is in none."""

_VERSION = 3
_ROWS_AT_ONCE = 500
"""The rows of a group, which are in memory twice while a table is read: as text and as trials."""

_FEWEST_LATE = 100
_LATE_SHARE = 0.25
"""The share of new trials at which a table is written again.

All tables of a sweep together then take about five times as long to write as the last one.
"""
_PAUSE_S = 300.0

_log = logging.getLogger(__name__)

Environment: TypeAlias = Mapping[str, str | int | float | bool | None]


class TableUnreadable(TrackingError):
    """The file is damaged. The runs have everything that it has."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The content of a table.

    `token` differs from that of every other table of the sweep; `unfinished` are the runs that
    existed and were incomplete when it was written.
    """

    token: str
    trials: tuple[FinishedTrial, ...]
    unfinished: tuple[str, ...] = ()


class TableWriter:
    """The writer of one sweep's table. `late` counts the trials by which it is out of date."""

    def __init__(
        self, store: MlflowStore, parent_id: str, token: str | None, in_table: int, late: int
    ) -> None:
        """Continue with the table that is there: its token, its trials, and those it lacks."""
        self._store, self._parent_id = store, parent_id
        self._token, self._next = token, _new_token()
        self._is_unsure = False
        self._in_table = in_table
        self._pause_until_s = 0.0
        self.late = late

    @property
    def is_late(self) -> bool:
        """True if so much was written since the last table that reading takes long."""
        enough = max(_FEWEST_LATE, _LATE_SHARE * self._in_table)
        return self.late >= enough and time.monotonic() >= self._pause_until_s

    @property
    def late_tags(self) -> Mapping[str, str]:
        """The tags of a run that is written now.

        A table whose writing ended in an error may exist: its token is among them.
        """
        tokens = [self._token, self._next if self._is_unsure else None]
        text = " ".join(token for token in tokens if token)
        return {LATE_TAG: text} if text else {}

    def update(self, trials: Iterable[FinishedTrial], unfinished: Iterable[str]) -> None:
        """Write the table, if it lacks anything.

        A table that cannot be written costs only time: writing it is tried again later.
        """
        if not self.late:
            return
        try:
            self.write(trials, unfinished)
        except Exception as error:  # noqa: BLE001  (recording must continue without a table)
            self._pause_until_s = time.monotonic() + _PAUSE_S
            _log.warning("the table is written later: %s", error)

    def write(self, trials: Iterable[FinishedTrial], unfinished: Iterable[str]) -> None:
        """Write the table.

        Raises:
            TrackingError: the store cannot be written.
        """
        rows = list(trials)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TABLE_FILE
            write_table(path, self._next, rows, list(unfinished))
            self._is_unsure = True
            self._store.write_file(self._parent_id, path)
        self._token, self._next, self._is_unsure = self._next, _new_token(), False
        self._in_table, self.late = len(rows), 0


def write_table(
    path: Path, token: str, trials: Sequence[FinishedTrial], unfinished: Sequence[str]
) -> None:
    """Write a table of these trials."""
    import pyarrow as pa  # noqa: PLC0415  (a process that writes no table needs none of it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    environments = {environment_digest(trial): trial.outcome.environment for trial in trials}
    about = {
        "version": _VERSION,
        "token": token,
        "unfinished": list(unfinished),
        "environments": environments,
    }
    columns = _Columns(pa, trials)
    schema = columns.schema.with_metadata({"rnnsweep": canonical(about)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(trials), _ROWS_AT_ONCE):
            writer.write_table(columns.filled(trials[start : start + _ROWS_AT_ONCE], schema))


def read_table(path: Path, place: str = TABLE_FILE) -> StoredTable:
    """Return the trials of a table, which is read a group of rows at a time.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
        TableUnreadable: it is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            about = json.loads(file.schema_arrow.metadata[b"rnnsweep"])
            if about["version"] != _VERSION:
                raise WrongVersion(place, "a table of trials", _VERSION, about["version"])
            trials = tuple(_read_trials(file, about["environments"], place))
            return StoredTable(about["token"], trials, tuple(about["unfinished"]))
    except WrongVersion:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, TrackingError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise TableUnreadable(
            place, "a table of trials", reason, "The runs are read instead"
        ) from error


def _read_trials(
    file: Any, environments: Mapping[str, Environment], place: str
) -> Iterator[FinishedTrial]:
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["run_id", "record"]):
        ids, texts = (column.to_pylist() for column in batch.columns)
        for run_id, text in zip(ids, texts, strict=True):
            yield replace(finished_trial(text, environments, place), run_id=run_id)


def _new_token() -> str:
    return uuid.uuid4().hex[:12]


class _Columns:
    """The columns of some trials, and their values."""

    def __init__(self, pa: Any, trials: Sequence[FinishedTrial]) -> None:
        self._pa = pa
        self._params = _types(pa, (_params(trial) for trial in trials))
        text, number, time = pa.string(), pa.float64(), pa.timestamp("ms", "UTC")
        self.schema: pa.Schema = pa.schema(
            [
                ("run_id", text),
                ("status", text),
                ("start_time", time),
                ("end_time", time),
                *((f"params.{name}", kind) for name, kind in self._params.items()),
                *((f"metrics.{name}", number) for name in metric_names(trials)),
                *((f"tags.{column.name}", text) for column in TAGS),
                ("record", text),
            ]
        )

    def filled(self, trials: Sequence[FinishedTrial], schema: pa.Schema) -> pa.Table:
        """Return a group of rows."""
        return self._pa.Table.from_pylist([self._row(trial) for trial in trials], schema)

    def _row(self, trial: FinishedTrial) -> dict[str, Any]:
        is_text = {name: kind == self._pa.string() for name, kind in self._params.items()}
        params, tags = _params(trial), trial_tags(trial)
        return {
            "run_id": trial.run_id,
            "status": "FAILED" if trial.status == "failed" else "FINISHED",
            "start_time": round(trial.started_s * 1000),
            "end_time": round(trial.ended_s * 1000),
            **{
                f"params.{name}": _text(value) if is_text[name] else value
                for name, value in params.items()
            },
            **{f"metrics.{name}": value for name, value in trial.metrics.items()},
            **{f"tags.{name}": _text(value) for name, value in tags.items()},
            "record": record_text(trial),
        }


def _params(trial: FinishedTrial) -> dict[str, ConfigValue]:
    own = trial_params(trial)
    config = {
        f"settings.{key}" if key in own else key: value for key, value in trial.config.items()
    }
    return config | own


def _text(value: ConfigValue) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text.encode(errors="replace").decode()  # UTF-8 has no lone surrogates


def _types(pa: Any, rows: Iterable[Mapping[str, ConfigValue]]) -> dict[str, Any]:
    """Return a type for each param that fits all of its values: text, where they differ in kind."""
    kinds: dict[str, set[type]] = {}
    for params in rows:
        for name, value in params.items():
            is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
            kinds.setdefault(name, set()).add(str if is_long else type(value))
    types = {
        frozenset({bool}): pa.bool_(),
        frozenset({int}): pa.int64(),
        frozenset({float}): pa.float64(),
    }
    return {
        name: types.get(frozenset(classes), pa.string()) for name, classes in sorted(kinds.items())
    }
