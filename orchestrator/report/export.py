"""A sweep as files that other programs read without rnnsweep: `rnnsweep export`.

The form is documented in `docs/operation.md`. Within its number (`EXPORT`), files and columns may
be added. Removing one, or changing its meaning, changes the number.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.core.errors import Refusal
from orchestrator.core.formats import Format
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, digest
from orchestrator.report.query import trial_table
from orchestrator.storage.tracking.records import MANIFEST, TRIAL, Manifest
from orchestrator.storage.tracking.trial_content import curve_points

EXPORT = Format("an exported sweep", 1, id="rnnsweep-export")

INDEX_FILE = "export.json"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of an export: what it has, and what writes it."""

    name: str
    content: str
    write: Callable[[Path], object]


def export_sweep(
    record: SweepRecord,
    manifest: Manifest,
    folder: Path,
    *,
    spec_yaml: str = "",
    kept: Mapping[str, FinishedTrial] | None = None,
) -> list[str]:
    """Write a sweep to a folder, which is made and must be new or empty; return the files' names.

    `kept` are trials by key as this machine's journal has them, with the curves of the machine's
    load, which a trial that was read back from a store lacks. The index is written last: a folder
    without it is no whole export.
    """
    _expect_empty(folder)
    whole = [_with_load(trial, (kept or {}).get(trial.key)) for trial in record.trials]
    files = [
        ExportedFile(
            "sweep.json",
            "the manifest: identity, objectives, arms, what cannot run, criteria of the report",
            lambda path: path.write_text(f"{MANIFEST.dump(manifest)}\n", encoding="utf-8"),
        ),
        ExportedFile(
            "trials.parquet",
            "a row for each trial: the columns of `rnnsweep query`",
            lambda path: pq.write_table(trial_table([record]), path, compression="zstd"),
        ),
        ExportedFile(
            "curves.parquet",
            "a row for each point of each curve of each trial",
            lambda path: pq.write_table(_curves(whole), path, compression="zstd"),
        ),
        ExportedFile(
            "environments.json",
            "each environment in which trials ran, and the environment of each trial by its key",
            lambda path: _write_json(path, _environments(record.trials)),
        ),
        ExportedFile(
            "records.jsonl",
            "the whole record of each trial, one in a line",
            lambda path: path.write_text(
                "".join(f"{TRIAL.dump(trial)}\n" for trial in whole), encoding="utf-8"
            ),
        ),
    ]
    if spec_yaml:
        files.append(
            ExportedFile(
                "spec.yaml",
                "the spec of the last start",
                lambda path: path.write_text(spec_yaml, encoding="utf-8"),
            )
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            file.write(folder / file.name)
        _write_json(folder / INDEX_FILE, _index(record, folder, files))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise Refusal(f"{folder}: expected a folder to write to, received: {problem}") from error
    return [INDEX_FILE, *(file.name for file in files)]


def _with_load(trial: FinishedTrial, kept: FinishedTrial | None) -> FinishedTrial:
    """Return a trial with the curves of the machine's load that the same outcome has elsewhere."""
    if kept is None or (kept.status, kept.ended_s) != (trial.status, trial.ended_s):
        return trial
    return replace(trial, outcome=replace(trial.outcome, telemetry=kept.telemetry))


def _expect_empty(folder: Path) -> None:
    try:
        is_empty = not folder.exists() or not any(folder.iterdir())
        is_foreign = folder.exists() and folder.stat().st_uid not in (0, os.geteuid())
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise Refusal(
            f"{folder}: expected a new or an empty folder, received: {problem}"
        ) from error
    if not is_empty:
        raise Refusal(
            f"{folder}: expected a new or an empty folder, received one with files. Name another"
        )
    if is_foreign:  # who could put links in the place of its files
        raise Refusal(
            f"{folder}: expected a new folder, or an empty one of yours, received another user's"
        )


def _index(record: SweepRecord, folder: Path, files: Iterable[ExportedFile]) -> dict[str, Any]:
    return {
        **EXPORT.head(),
        "sweep": record.name,
        "generation": record.generation,
        "workload": record.workload,
        "state": record.state,
        "trials": len(record.trials),
        "files": [
            {
                "name": file.name,
                "content": file.content,
                "bytes": (folder / file.name).stat().st_size,
                "sha256": hashlib.sha256((folder / file.name).read_bytes()).hexdigest(),
            }
            for file in files
        ],
    }


def _curves(trials: Sequence[FinishedTrial]) -> pa.Table:
    points = [(trial, point) for trial in trials for point in curve_points(trial.outcome)]
    return pa.table(
        {
            "trial_key": pa.array([trial.key for trial, _ in points], pa.string()),
            "curve": pa.array([point.name for _, point in points], pa.string()),
            "step": pa.array([point.step for _, point in points], pa.int64()),
            "at": pa.array([point.at_ms for _, point in points], pa.timestamp("ms")),
            "value": pa.array([point.value for _, point in points], pa.float64()),
        }
    )


def _environments(trials: Iterable[FinishedTrial]) -> dict[str, Any]:
    of_trial = {trial.key: trial.outcome.environment for trial in trials}
    digests = {key: digest(environment) for key, environment in of_trial.items()}
    return {
        "environments": {digests[key]: dict(facts) for key, facts in of_trial.items()},
        "trials": digests,
    }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
