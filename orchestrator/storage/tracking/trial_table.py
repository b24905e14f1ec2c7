"""A sweep's trials in one file, `trials.parquet` of the parent run, for quick reading.

Its columns have the names and values of `mlflow.search_runs`. The column `record` is for reading
back: that of 10,000 runs takes MLflow half a minute, and this file a second.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.core.trial import ConfigValue, FinishedTrial, canonical
from orchestrator.core.trial_columns import PARAMS, TAGS
from orchestrator.storage.tracking.errors import Damaged, TrackingError, WrongVersion
from orchestrator.storage.tracking.records import TRIAL, record_text

TABLE_FILE = "trials.parquet"
_VERSION = 5
_ROWS_AT_ONCE = 500
"""The rows of a group, which are in memory twice while a table is read: as text and as trials."""


def write_table(path: Path, number: int, trials: Iterable[FinishedTrial]) -> None:
    """Write a table of trials; the tables of a sweep are numbered from 1."""
    import pyarrow as pa  # noqa: PLC0415  (a process that writes no table needs none of it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = [_row(trial) for trial in trials]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column(pa, name, [row.get(name) for row in rows]) for name in names}
    about = canonical({"version": _VERSION, "number": number})
    content = pa.table(columns).replace_schema_metadata({"rnnsweep": about})
    pq.write_table(content, path, row_group_size=_ROWS_AT_ONCE, compression="zstd")


def read_table(path: Path, place: str = TABLE_FILE) -> tuple[int, list[FinishedTrial]]:
    """Return the number and the trials of a table, which is read a group of rows at a time.

    Raise `WrongVersion` for another version's, and `Damaged`; the runs have everything that it has.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            about = json.loads(file.schema_arrow.metadata[b"rnnsweep"])
            if about["version"] != _VERSION:
                raise WrongVersion(place, "a table of trials", _VERSION, about["version"])
            return about["number"], list(_trials(file, place))
    except WrongVersion:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, TrackingError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise Damaged(place, "a table of trials", reason, "The runs are read instead") from error


def _trials(file: Any, place: str) -> Iterator[FinishedTrial]:
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["run_id", "record"]):
        ids, texts = (column.to_pylist() for column in batch.columns)
        for run_id, text in zip(ids, texts, strict=True):
            yield replace(TRIAL.load(text, f"a row of {place}"), run_id=run_id)


def _row(trial: FinishedTrial) -> dict[str, Any]:
    params = {column.name: column.get(trial) for column in PARAMS}
    for name, value in trial.params.items():
        params[f"settings.{name}" if params.get(name) is not None else name] = value
    return {
        "run_id": trial.run_id,
        "status": "FAILED" if trial.status == "failed" else "FINISHED",
        "start_time": round(trial.started_s * 1000),
        "end_time": round(trial.ended_s * 1000),
        **{f"params.{name}": value for name, value in sorted(params.items())},
        **{f"metrics.{name}": value for name, value in sorted(trial.metrics.items())},
        **{f"tags.{column.name}": _text(column.get(trial)) for column in TAGS},
        "record": record_text(trial),
    }


def _column(pa: Any, name: str, values: Sequence[ConfigValue | None]) -> Any:
    """Return a column of the type that fits all values: text, where they differ in kind."""
    if name in ("start_time", "end_time"):
        return pa.array(values, pa.timestamp("ms", "UTC"))
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: ConfigValue | None) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else canonical(value)
    return text.encode(errors="replace").decode()  # UTF-8 has no lone surrogates
