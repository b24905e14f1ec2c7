"""Time and memory of a report of 10,000 trials, compared with a plain search for the same runs.

    python -m tests.benchmarks.report [--trials 10000] [--rounds 3] [--store FOLDER]
                                      [--output FOLDER]

The recorder itself writes the store, from a replayed journal: some minutes; with --store it is kept
and used again. Its trials are made up by a law and a seeded noise, and are as large as those of
`sweeps/quickstart.yaml` (34 metrics, 5 epochs, telemetry with curves). Then `rnnsweep report`, as
text and as a page, `mlflow.search_runs` of the same runs, and a mere import of MLflow with a client
run in turns, each as a process of its own.

Targets on two cores: text within 5 s, a page within 15 s, both within 1 GiB. The exit code is 1 if
one is missed.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.core.arms import Arm
from orchestrator.core.trial import (
    Block,
    EpochRecord,
    FinishedTrial,
    Outcome,
    Telemetry,
    make_trial,
)
from orchestrator.storage.journal import Journal, SweepOpened
from orchestrator.storage.resume import rebuild, unrecorded_trials
from orchestrator.storage.tracking import address
from orchestrator.storage.tracking.address import tracking_uri
from orchestrator.storage.tracking.recorder import Recorder
from tests.benchmarks import rig
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_sweeps import IDENTITY, finished, opening

_LIMITS_S = {"report, text": 5.0, "report, html": 15.0}
_LIMIT_MIB = 1024.0
_SEARCH = """
import mlflow
found = mlflow.search_runs(experiment_names=[{name!r}], max_results=50000)
assert len(found) == {runs}, len(found)
"""
_CLIENT = "from mlflow import MlflowClient; MlflowClient().search_experiments()"
_NAME = "report-benchmark"
_REPEATS = 2
_EPOCHS = 5
_PATIENCE_S = 3600.0
_FACTORS = {
    "tensorflow/portable": 1.0,
    "tensorflow/portable+xla": 0.72,
    "tensorflow/portable+unroll": 1.31,
    "jax/portable": 0.64,
    "torch/fused": 0.81,
}
_HARDWARE = {on_cpu("AMD EPYC 9354"): 1.0, on_gpu("NVIDIA H200", "AMD EPYC 9354"): 0.21}
_ARMS = tuple(Arm(name, hardware) for hardware in _HARDWARE for name in _FACTORS)
_IDENTITY = replace(IDENTITY, name=_NAME)
_OTHER_METRICS, _CURVES, _SAMPLES = 26, 5, 6
"""As many metrics without a law, and curves of so many samples, as a trial of quickstart has."""


def main() -> int:
    """Create the store if necessary, measure, print and write the result."""
    parser = rig.arguments(__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="keep the store here, and use what is there")
    asked = parser.parse_args()
    environment = rig.environment("mlflow", "pyarrow", "scipy")
    with tempfile.TemporaryDirectory(prefix="rnnsweep-report-") as scratch:
        home = (asked.store or Path(scratch) / "home").resolve()
        trials = _record(home, asked.trials // (len(_ARMS) * _REPEATS))
        report = ["-m", "orchestrator", "report", _NAME, "-o"]
        commands = {
            "report, text": [*report, f"{scratch}/report.txt"],
            "report, html": [*report, f"{scratch}/report.html"],
            "mlflow.search_runs": ["-c", _SEARCH.format(name=_NAME, runs=trials + 1)],
            "import mlflow and a client": ["-c", _CLIENT],
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for _ in range(asked.rounds):
            for name, command in commands.items():
                runs[name].append(_run([sys.executable, *command], _environ(home)))
        store_mib = (home / "mlflow.db").stat().st_size / 2**20
    lines = [
        f"Reports of {trials} trials of {len(_ARMS)} arms, from SQLite ({store_mib:.0f} MiB);"
        " each in a process of its own",
        f"\n{'median':<28}{'wall':>10}{'CPU':>10}{'peak':>12}  to reach",
    ]
    medians, is_missed = {}, False
    for name, own in runs.items():
        cost = medians[name] = {key: statistics.median(one[key] for one in own) for key in own[0]}
        aim = ""
        if limit_s := _LIMITS_S.get(name):
            misses = cost["wall_s"] > limit_s or cost["peak_mib"] > _LIMIT_MIB
            is_missed |= misses
            aim = f"  {limit_s:.0f} s, 1 GiB: {'missed' if misses else 'reached'}"
        cells = f"{cost['wall_s']:>8.2f} s{cost['cpu_s']:>8.2f} s{cost['peak_mib']:>8.0f} MiB"
        lines.append(f"{name:<28}{cells}{aim}")
    figures = {"trials": trials, "medians": medians, "runs": runs}
    rig.publish(asked.output, "report", environment, lines, **figures)
    return 1 if is_missed else 0


def _environ(home: Path) -> dict[str, str]:
    environ = {**os.environ, "RNNSWEEP_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    address.set_defaults(environ)
    return environ | {"MLFLOW_TRACKING_URI": tracking_uri(home, {})}


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


def _record(home: Path, configs: int) -> int:
    """Complete the sweep in the store of `home`; return the number of its trials."""
    with Journal(home / "sweeps" / _NAME / "1") as journal:
        if journal.state is None:
            journal.append(SweepOpened(_IDENTITY, {}))
            for entry in rebuild(_finished(configs)):
                journal.append(entry)
        state = journal.state
    assert state is not None
    sweep = opening(_IDENTITY, arms=_ARMS, impossible=(), blocks=configs, repeats=_REPEATS)
    with Recorder(tracking_uri(home, {}), home, home / "recorder.log") as recorder:
        for trial in unrecorded_trials(state, recorder.open(sweep)):
            recorder.put(trial)
        recorder.drain(_PATIENCE_S)
        recorder.close("complete", {}, timeout_s=_PATIENCE_S)
    return len(state.finished)


def _finished(configs: int) -> Iterator[FinishedTrial]:
    clock_s = 1.79e9
    for index in range(configs):
        chance = random.Random(index)
        units, layers = round(16 * 16 ** chance.random()), chance.randint(1, 2)
        block = Block(index, {"units": units, "layers": layers, "batch_size": 32})
        for repeat in range(_REPEATS):
            for arm in _ARMS:
                trial = make_trial(_IDENTITY, block, arm, repeat)
                outcome = _outcome(units, layers, arm, clock_s, random.Random(trial.key))
                clock_s = outcome.ended_s
                yield FinishedTrial(trial, outcome)


def _outcome(units: int, layers: int, arm: Arm, began_s: float, chance: random.Random) -> Outcome:
    factor = _FACTORS[arm.implementation] * _HARDWARE[arm.hardware]
    work = units**1.2 * layers / 125
    step_ms = (0.3 + work) * factor * math.exp(chance.gauss(0, 0.05))
    took_s = _EPOCHS * 45 * step_ms / 1e3
    accuracy = min(0.99, 0.7 + 0.05 * math.log(units) + chance.gauss(0, 0.01))
    epochs = tuple(
        EpochRecord(
            index, took_s / _EPOCHS, took_s / 15, dict.fromkeys(names, accuracy / (index + 1))
        )
        for names in [("accuracy", "loss", "val_accuracy", "val_loss")]
        for index in range(_EPOCHS)
    )
    metrics = {
        **epochs[0].metrics,
        "train_s": took_s,
        "step_ms": step_ms,
        "model_flops_per_step": 1e8 * work,
        "model_flops_per_s": 1e11 * work / step_ms,
        "energy_j": 40 * took_s,
        **{f"metric_{index}_pct": chance.uniform(0.1, 5) for index in range(_OTHER_METRICS)},
    }
    at_s = tuple(took_s * step / _SAMPLES for step in range(_SAMPLES))
    curves = {
        f"system/curve_{index}": tuple(round(chance.uniform(0, 100), 3) for _ in at_s)
        for index in range(_CURVES)
    }
    return replace(
        finished().outcome,
        started_s=began_s,
        ended_s=began_s + took_s,
        node="node-1" if arm.device == "cpu" else "node-2",
        metrics=metrics,
        epochs=epochs,
        trainer_trials=chance.randrange(40),
        telemetry=Telemetry(
            energy_method="rapl",
            energy_scope="cpu_package",
            other_trainers=0,
            at_s=at_s,
            curves=curves,
        ),
        cost_basis="the node",
    )


if __name__ == "__main__":
    sys.exit(main())
