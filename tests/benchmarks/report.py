"""Time and memory of a report of 10,000 trials, compared with a plain search for the same runs.

The recorder itself writes the store, in some minutes; its trials are as large as those of
quickstart.yaml. Then `rnnsweep report`, as text and as a page, `mlflow.search_runs` of the same
runs, and a mere import of MLflow with a client run in turns, each as a process of its own.

Targets on two cores: text within 5 s, a page within 15 s, both within 1 GiB. The exit code is 1 if
one is missed.
"""

import itertools
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.storage.tracking import address
from orchestrator.storage.tracking.recorder import Recorder
from tests.benchmarks import rig
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_sweeps import finished, opening

_LIMITS_S = {"report, text": 5.0, "report, html": 15.0}
_LIMIT_MIB = 1024.0
_SEARCH = """
import mlflow
runs = mlflow.search_runs(experiment_names=["quickstart"], max_results=50000)
assert len(runs) == {runs}, len(runs)
"""
_CLIENT = "from mlflow import MlflowClient; MlflowClient().search_experiments()"
_PATIENCE_S = 3600.0
_IMPLEMENTATIONS = {
    "tensorflow/portable": 1.0,
    "tensorflow/portable+xla": 0.72,
    "tensorflow/portable+unroll": 1.31,
    "jax/portable": 0.64,
    "torch/fused": 0.81,
}
_HARDWARE = {on_cpu("AMD EPYC 9354"): 1.0, on_gpu("NVIDIA H200", "AMD EPYC 9354"): 0.21}
_ARMS = tuple(Arm(name, hardware) for hardware in _HARDWARE for name in _IMPLEMENTATIONS)
_REPEATS = 2
_METRICS, _EPOCHS, _CURVES, _SAMPLES = 30, 5, 5, 6
"""As many metrics of no meaning, epochs, and curves of so many samples, as quickstart's trials."""


def main() -> int:
    parser = rig.arguments(__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="keep the store here, and use what is there")
    asked = parser.parse_args()
    environment = rig.environment("mlflow", "pyarrow", "scipy")
    with tempfile.TemporaryDirectory(prefix="rnnsweep-report-") as scratch:
        home = (asked.store or Path(scratch) / "home").resolve()
        trials = _record(home, asked.trials // (len(_ARMS) * _REPEATS))
        report = ["-m", "orchestrator", "report", "quickstart", "-o"]
        commands = {
            "report, text": [*report, f"{scratch}/report.txt"],
            "report, html": [*report, f"{scratch}/report.html"],
            "mlflow.search_runs": ["-c", _SEARCH.format(runs=trials + 1)],
            "import mlflow and a client": ["-c", _CLIENT],
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        environ = {**os.environ, "RNNSWEEP_HOME": str(home), "PYTHONWARNINGS": "ignore"}
        address.set_defaults(environ)
        environ["MLFLOW_TRACKING_URI"] = address.tracking_uri(home, {})
        for _ in range(asked.rounds):
            for name, command in commands.items():
                runs[name].append(_run([sys.executable, *command], environ))
        store_mib = (home / "mlflow.db").stat().st_size / 2**20
    rows: list[dict[str, Any]] = []
    for name, costs in runs.items():
        row: dict[str, Any] = {key: statistics.median(c[key] for c in costs) for key in costs[0]}
        if limit_s := _LIMITS_S.get(name):
            is_missed = row["wall_s"] > limit_s or row["peak_mib"] > _LIMIT_MIB
            row["target"] = f"{limit_s:.0f} s, 1 GiB: {'missed' if is_missed else 'reached'}"
        rows.append({"name": name, **row})
    lines = [
        f"Reports of {trials} trials of {len(_ARMS)} arms, from SQLite ({store_mib:.0f} MiB);"
        " each in a process of its own; medians",
        rig.table(rows, {"wall_s": ".2f", "cpu_s": ".2f", "peak_mib": ".0f", "target": ""}),
    ]
    rig.publish(asked.output, "report", environment, lines, trials=trials, medians=rows, runs=runs)
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


def _record(home: Path, blocks: int) -> int:
    trials = list(_finished(blocks))
    sweep = opening(arms=_ARMS, impossible=(), blocks=blocks, repeats=_REPEATS)
    with Recorder(address.tracking_uri(home, {}), home, home / "recorder.log") as recorder:
        stored = {trial.key for trial in recorder.open(sweep)}
        for trial in trials:
            if trial.key not in stored:
                recorder.put(trial)
        recorder.drain(_PATIENCE_S)
        recorder.close("complete", {}, timeout_s=_PATIENCE_S)
    return len(trials)


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
        yield finished(
            block,
            arm,
            repeat,
            _EPOCHS,
            started_s=clock_s,
            ended_s=clock_s + took_s,
            metrics=metrics,
            telemetry=Telemetry("rapl", "cpu_package", other_trainers=0, at_s=at_s, curves=curves),
        )
        clock_s += took_s


if __name__ == "__main__":
    sys.exit(main())
