"""A sweep's trials as one file, `trials.parquet` of the parent run: one download from anywhere.

Reading 10,000 runs takes MLflow half a minute and this file a second. Its columns have the names
and values of `mlflow.search_runs`, for whoever loads it; `record` holds each trial whole, as its
run's tag does, and is what a report reads. `orchestrator.storage.tracking.trial_runs` sees to it
that the
file is believed only as far as it is true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator.core.trial import ConfigValue, FinishedTrial, canonical
from orchestrator.storage.tracking.errors import TrackingError
from orchestrator.storage.tracking.trial_record import (
    environment_digest,
    finished_trial,
    record_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FILE = "trials.parquet"

_VERSION = 1
_ROWS_AT_ONCE = 500
"""The rows of a group: what is held twice, as text and as trials, while a table is read."""

Environment: TypeAlias = Mapping[str, str | int | float | bool | None]
Row: TypeAlias = tuple[str, FinishedTrial]
"""A trial with the id of its run."""


class TableUnreadable(TrackingError):
    """The file is damaged, or of a later version: the runs have all that it has."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds.

    `token` tells it from every other table of the sweep; `unfinished` are the runs that were there
    and were no whole trials when it was written.
    """

    token: str
    rows: tuple[Row, ...]
    unfinished: tuple[str, ...] = ()


def write_table(path: Path, token: str, rows: Sequence[Row], unfinished: Sequence[str]) -> None:
    """Write a table of these trials."""
    import pyarrow as pa  # noqa: PLC0415  (a driver imports this module and writes none)
    import pyarrow.parquet as pq  # noqa: PLC0415

    environments = {environment_digest(each): each.outcome.environment for _, each in rows}
    about = {
        "version": _VERSION,
        "token": token,
        "unfinished": list(unfinished),
        "environments": environments,
    }
    columns = _Columns(pa, [finished for _, finished in rows])
    schema = columns.schema.with_metadata({"rnnsweep": canonical(about)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            writer.write_table(columns.filled(rows[start : start + _ROWS_AT_ONCE], schema))


def read_table(path: Path) -> Table:
    """The trials of a table, read a group of rows at a time.

    Raises:
        TableUnreadable: it is no table, or none that this version can read.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            about = json.loads(file.schema_arrow.metadata[b"rnnsweep"])
            if about["version"] != _VERSION:
                raise _unreadable(path, f"version {about['version']}")
            rows = tuple(_rows(file, about["environments"]))
            return Table(about["token"], rows, tuple(about["unfinished"]))
    except TableUnreadable:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, TrackingError) as error:
        raise _unreadable(path, str(error).partition("\n")[0][:200]) from error


def _rows(file: Any, environments: Mapping[str, Environment]) -> Iterator[Row]:
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["run_id", "record"]):
        ids, texts = (column.to_pylist() for column in batch.columns)
        for run_id, text in zip(ids, texts, strict=True):
            yield run_id, finished_trial(text, environments)


def _unreadable(path: Path, received: str) -> TableUnreadable:
    return TableUnreadable(
        path.name, f"a table of trials of version {_VERSION}", received, "Its runs are read instead"
    )


class _Columns:
    """The columns of some trials, and their values."""

    def __init__(self, pa: Any, trials: Sequence[FinishedTrial]) -> None:
        self._pa = pa
        self._params = _types(pa, (_params(each) for each in trials))
        text, number, time = pa.string(), pa.float64(), pa.timestamp("ms", "UTC")
        metrics = sorted({name for each in trials for name in each.outcome.metrics})
        self.schema: pa.Schema = pa.schema(
            [
                ("run_id", text),
                ("status", text),
                ("start_time", time),
                ("end_time", time),
                *((f"params.{name}", kind) for name, kind in self._params.items()),
                *((f"metrics.{name}", number) for name in metrics),
                *((f"tags.{name}", text) for name in _TAGS),
                ("record", text),
            ]
        )

    def filled(self, rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
        """A group of rows."""
        return self._pa.Table.from_pylist([self._row(*each) for each in rows], schema)

    def _row(self, run_id: str, finished: FinishedTrial) -> dict[str, Any]:
        outcome = finished.outcome
        is_text = {name: kind == self._pa.string() for name, kind in self._params.items()}
        return {
            "run_id": run_id,
            "status": "FAILED" if outcome.status == "failed" else "FINISHED",
            "start_time": round(outcome.started_s * 1000),
            "end_time": round(outcome.ended_s * 1000),
            **{
                f"params.{name}": _text(value) if is_text[name] else value
                for name, value in _params(finished).items()
            },
            **{f"metrics.{name}": value for name, value in outcome.metrics.items()},
            **{f"tags.{name}": value for name, value in _tags(finished).items()},
            "record": record_text(finished),
        }


_TAGS = (
    "trial_key",
    "block",
    "arm",
    "implementation",
    "hardware",
    "node",
    "outcome",
    "attempt",
    "failure",
    "kernel_ran",
    "disturbed",
)


def _params(finished: FinishedTrial) -> dict[str, ConfigValue]:
    trial = finished.trial
    own: dict[str, ConfigValue] = {"repeat": trial.repeat, "seed": trial.seed}
    config = {
        f"settings.{key}" if key in own else key: value for key, value in trial.config.items()
    }
    return config | own


def _tags(finished: FinishedTrial) -> dict[str, str | None]:
    trial, outcome = finished.trial, finished.outcome
    failure = outcome.failure
    return {
        "trial_key": trial.key,
        "block": str(trial.block),
        "arm": str(trial.arm),
        "implementation": trial.arm.implementation,
        "hardware": str(trial.arm.hardware),
        "node": _text(outcome.node),
        "outcome": outcome.status,
        "attempt": str(outcome.attempt),
        "failure": _text(failure.text) if failure else None,
        "kernel_ran": _text(outcome.kernel.ran) if outcome.kernel else None,
        "disturbed": outcome.telemetry.notes.get("disturbed") if outcome.telemetry else None,
    }


def _text(value: ConfigValue) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text.encode(errors="replace").decode()  # UTF-8 has no lone surrogates


def _types(pa: Any, all_params: Iterable[Mapping[str, ConfigValue]]) -> dict[str, Any]:
    """A type for each param that holds all of its values: text, where they differ in kind."""
    kinds: dict[str, set[type]] = {}
    for params in all_params:
        for name, value in params.items():
            is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
            kinds.setdefault(name, set()).add(str if is_long else type(value))
    known = {
        frozenset({bool}): pa.bool_(),
        frozenset({int}): pa.int64(),
        frozenset({float}): pa.float64(),
    }
    return {name: known.get(frozenset(each), pa.string()) for name, each in sorted(kinds.items())}
