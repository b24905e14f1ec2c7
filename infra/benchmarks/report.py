"""Time and memory of reports and queries of many trials, compared with a search for the same runs.

The store is written by SQL, with the content that the recorder gives its runs: trials are as large
as in quickstart.yaml. Then `rnnsweep report` (text, page, text without the table of trials),
`rnnsweep query` and, for up to 10,000 trials, `mlflow.search_runs` run in turns, each as a process.

Targets on two cores, else the exit code is 1: 10,000 trials as text within 5 s, as a page within
15 s, both within 1 GiB; 100,000 as text within 30 s and 2 GiB, as a page within 60 s and 10 MB, and
a query of them within 5 s.
"""

import itertools
import math
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from infra.benchmarks import rig
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.storage.tracking.mlflow import address
from orchestrator.storage.tracking.mlflow.mlflow_names import PARENT_TAG, mlflow_status, mlflow_tag
from orchestrator.storage.tracking.mlflow.store import MlflowStore
from orchestrator.storage.tracking.trial_content import trial_content
from orchestrator.storage.tracking.trial_table import TABLE_FILE, table_tag, write_table
from orchestrator.storage.tracking.writer import Writer
from tests.building.hardware import build_cpu_use, build_gpu_use
from tests.building.stores import build_opening
from tests.building.trials import IDENTITY, build_full_trial

_USUAL = 10_000
_LIMITS = {
    "report, text": ((5.0, 1024.0), (30.0, 2048.0)),
    "report, html": ((15.0, 1024.0), (60.0, math.inf)),
    "query": ((5.0, math.inf), (5.0, math.inf)),
}
"""Seconds and MiB, for up to the usual number of trials, and for more."""
_PAGE_MB = 10.0
_SEARCH = """
import mlflow
runs = mlflow.search_runs(experiment_names=["quickstart"], max_results=50000)
assert len(runs) == {runs}, len(runs)
"""
_QUERY = (
    "SELECT hardware, implementation, median(step_ms), max(val_accuracy) FROM trials GROUP BY ALL"
)
_IMPLEMENTATIONS = {
    "tensorflow/portable": 1.0,
    "tensorflow/portable+xla": 0.72,
    "tensorflow/portable+unroll": 1.31,
    "jax/portable": 0.64,
    "torch/fused": 0.81,
}
_HARDWARE = {
    build_cpu_use("AMD EPYC 9354"): 1.0,
    build_gpu_use("NVIDIA H200", "AMD EPYC 9354"): 0.21,
}
_ARMS = tuple(Arm(name, hardware) for hardware in _HARDWARE for name in _IMPLEMENTATIONS)
_REPEATS = 2
_METRICS, _EPOCHS, _CURVES, _SAMPLES = 30, 5, 5, 6
"""As many metrics of no meaning, epochs, and curves of so many samples, as quickstart's trials."""


def main() -> int:
    parser = rig.arguments(__doc__)
    parser.add_argument("--trials", type=int, default=_USUAL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="keep the store here, or use the one there")
    asked = parser.parse_args()
    environment = rig.environment("mlflow", "pyarrow", "scipy")
    with tempfile.TemporaryDirectory(prefix="rnnsweep-report-") as scratch:
        home = (asked.store or Path(scratch) / "home").resolve()
        trials = asked.trials // (len(_ARMS) * _REPEATS) * len(_ARMS) * _REPEATS
        if not (home / "mlflow.db").exists():
            with get_context("spawn").Pool(1) as pool:  # measured peaks begin with this one
                pool.apply(_record, (home, trials // (len(_ARMS) * _REPEATS)))
        report = ["-m", "orchestrator", "report", "quickstart", "-o"]
        page = f"{scratch}/report.html"
        commands = {
            "report, text": [*report, f"{scratch}/report.txt"],
            "report, html": [*report, page],
            "query": ["-m", "orchestrator", "query", "quickstart", "--sql", _QUERY],
            "report, text, without the table": [*report, f"{scratch}/report.txt"],
        }
        if trials <= _USUAL:
            commands["mlflow.search_runs"] = ["-c", _SEARCH.format(runs=trials + 1)]
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        environ = {**os.environ, "RNNSWEEP_HOME": str(home), "PYTHONWARNINGS": "ignore"}
        address.set_defaults(environ)
        environ["MLFLOW_TRACKING_URI"] = address.default_mlflow_uri(home, {})
        (table,) = home.glob(f"mlartifacts/**/{TABLE_FILE}")
        for _, (name, command) in itertools.product(range(asked.rounds), commands.items()):
            hidden = table.rename(f"{table}.hidden") if "without" in name else None
            runs[name].append(_run([sys.executable, *command], environ))
            if hidden:
                hidden.rename(table)
        page_mb = Path(page).stat().st_size / 1e6
        store_mib = (home / "mlflow.db").stat().st_size / 2**20
    rows: list[dict[str, Any]] = []
    for name, costs in runs.items():
        row: dict[str, Any] = {key: statistics.median(c[key] for c in costs) for key in costs[0]}
        if name in _LIMITS:
            wall_s, mib = _LIMITS[name][trials > _USUAL]
            is_missed = row["wall_s"] > wall_s or row["peak_mib"] > mib or page_mb > _PAGE_MB
            row["target"] = f"{wall_s:.0f} s: {'missed' if is_missed else 'reached'}"
        rows.append({"name": name, **row})
    lines = [
        f"Reports of {trials} trials of {len(_ARMS)} arms, from SQLite ({store_mib:.0f} MiB);"
        f" each in a process of its own; medians; the page has {page_mb:.1f} MB",
        rig.table(rows, {"wall_s": ".2f", "cpu_s": ".2f", "peak_mib": ".0f", "target": ""}),
    ]
    name = "report" if trials <= _USUAL else f"report-{trials}"
    figures = {"trials": trials, "page_mb": page_mb, "medians": rows, "runs": runs}
    rig.publish(asked.output, name, environment, lines, **figures)
    return int(any("missed" in row.get("target", "") for row in rows))


def _run(command: list[str], environ: Mapping[str, str]) -> dict[str, float]:
    """Run a command; return the load before it, its time and its largest resident set."""
    load_before, began_s = os.getloadavg()[0], time.perf_counter()
    pid = os.posix_spawn(command[0], command, environ)
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began_s
    assert os.waitstatus_to_exitcode(status) == 0, " ".join(command)
    cpu_s = usage.ru_utime + usage.ru_stime
    cost = {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": usage.ru_maxrss / 1024}
    return {"load_before": load_before, **cost}


_TABLES = {
    "runs": "run_uuid, name, status, start_time, end_time, artifact_uri, lifecycle_stage,"
    " experiment_id, user_id",
    "tags": "key, value, run_uuid",
    "params": "key, value, run_uuid",
    "metrics": "key, value, timestamp, run_uuid, step, is_nan",
    "latest_metrics": "key, value, timestamp, run_uuid, step, is_nan",
}


def _record(home: Path, blocks: int) -> None:
    """Write a store: the sweep's run by the recorder's writer, the runs of its trials by SQL."""
    uri = address.default_mlflow_uri(home, {})
    writer = Writer(uri, home)
    writer.open(build_opening(arms=_ARMS, impossible=(), blocks=blocks, repeats=_REPEATS))
    writer.close("complete", {})
    store = MlflowStore(uri, home)
    (parent,) = store.sweep_runs("quickstart")
    trials = []
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        query = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
        (folder,) = database.execute(query, [parent.run_id]).fetchone()
        for number, finished in enumerate(_finished(blocks)):
            trials.append(replace(finished, run_id=f"{number:032x}"))
            place = folder.replace(parent.run_id, trials[-1].run_id)
            of_run = place, "active", parent.experiment_id, "root"
            _insert(database, trials[-1], parent.run_id, of_run)
        database.execute("ANALYZE")
        database.commit()
    with tempfile.TemporaryDirectory() as scratch:
        write_table(Path(scratch) / TABLE_FILE, 1, trials)
        store.write_file(parent.run_id, TABLE_FILE, Path(scratch) / TABLE_FILE)


def _insert(
    database: sqlite3.Connection, trial: FinishedTrial, parent_id: str, of_run: tuple[str, ...]
) -> None:
    content, own = trial_content(IDENTITY, trial), trial.run_id
    tags = {
        **{mlflow_tag(name): text for name, text in content.tags.items()},
        PARENT_TAG: parent_id,
        mlflow_tag(table_tag(1)): "1",
        "mlflow.runName": content.name,
    }
    points = {(p.name, p.at_ms, p.step): p for p in content.points}
    latest = {p.name: p for p in sorted(points.values(), key=lambda p: (p.step, p.at_ms))}
    rows: dict[str, list[tuple[Any, ...]]] = {
        "runs": [
            (
                own,
                content.name,
                mlflow_status(content.status),
                content.start_ms,
                content.end_ms,
                *of_run,
            )
        ],
        "tags": [(key, value, own) for key, value in tags.items()],
        "params": [(key, value, own) for key, value in content.params.items()],
        "metrics": [(p.name, p.value, p.at_ms, own, p.step, False) for p in points.values()],
        "latest_metrics": [(p.name, p.value, p.at_ms, own, p.step, False) for p in latest.values()],
    }
    for table, columns in _TABLES.items():
        marks = ", ".join("?" * len(columns.split(",")))
        database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows[table])


def _finished(blocks: int) -> Iterator[FinishedTrial]:
    clock_s = 1.79e9
    for block, repeat, arm in itertools.product(range(blocks), range(_REPEATS), _ARMS):
        chance = random.Random(f"{block} {repeat} {arm}")
        factor = _IMPLEMENTATIONS[arm.implementation] * _HARDWARE[arm.hardware]
        step_ms = (1 + block / 20) * factor * math.exp(chance.gauss(0, 0.05))
        took_s, accuracy = step_ms / 5, 0.8 + 0.01 * math.log(1 + block) + chance.gauss(0, 0.01)
        metrics = {f"metric_{index}_pct": chance.uniform(0.1, 5) for index in range(_METRICS)}
        metrics |= {"step_ms": step_ms, "train_s": took_s, "val_accuracy": accuracy}
        at_s = tuple(took_s * step / _SAMPLES for step in range(_SAMPLES))
        names = [f"system/curve_{index}" for index in range(_CURVES)]
        curves = {name: tuple(round(chance.uniform(0, 100), 3) for _ in at_s) for name in names}
        telemetry = Telemetry("rapl", "cpu_package", other_trainers=0, at_s=at_s, curves=curves)
        outcome = {"started_s": clock_s, "metrics": metrics, "telemetry": telemetry}
        clock_s += took_s
        yield build_full_trial(block, arm, repeat, _EPOCHS, **outcome, ended_s=clock_s)


if __name__ == "__main__":
    sys.exit(main())
