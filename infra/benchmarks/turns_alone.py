"""Do arms that take turns have the ratios and results of arms that train alone?

Five different sweeps: a built-in model, an own Keras model, a PyTorch module, a training loop of a
user's own, and one with a pruner. Each runs with both arms, which then train in turns, and once
more with each arm alone. A row has the speed-up of the second arm by both ways, the largest
difference of the result over all trials, and whether the same configs were pruned. A sweep that the
store has already is only read, so that the benchmark resumes.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from infra.benchmarks import rig
from orchestrator.analysis.statistics import estimates
from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.home import sweep_home

_SIZES = [{"units": units} for units in (20, 26, 33, 43, 56, 64)]
_DIGITS = {"dataset": "digits", "epochs": 8, "dropout": 0.0}
_MODULE = "sweeps.questions.pytorch_65597"

SWEEPS: Mapping[str, Mapping[str, Any]] = {
    "built-in": {
        "workload": "image_rows",
        "settings": {**_DIGITS, "learning_rate": 0.005},
        "search": {"configs": _SIZES, "objectives": {"val_accuracy": "maximize"}},
        "arms": ["tensorflow/portable", "tensorflow/portable+unroll"],
    },
    "own-model": {
        "model": "sweeps.own_model:build",
        "data": "sweeps.own_model:load",
        "settings": {"window": 24, "epochs": 3, "batch_size": 64},
        "search": {"configs": _SIZES, "objectives": {"val_mae": "minimize"}},
        "arms": ["torch/portable", "torch/fused"],
    },
    "module": {
        "model": f"{_MODULE}:build",
        "data": f"{_MODULE}:load",
        "settings": {"epochs": 4, "window": 30, "dtype": "float32"},
        "search": {
            "configs": [{"batch_size": size} for size in (16, 32, 48, 64, 96, 128)],
            "objectives": {"loss": "minimize"},
        },
        "arms": ["torch/auto", "torch/auto+bf16"],
    },
    "own-loop": {
        "workload": "sweeps.own_workload:run",
        "settings": {"epochs": 16, "samples": 8192, "sequence_length": 16, "learning_rate": 0.01},
        "search": {"configs": _SIZES, "objectives": {"accuracy": "maximize"}},
        "arms": ["numpy/float32", "numpy/float64"],
    },
    "pruned": {
        "workload": "image_rows",
        "settings": {**_DIGITS, "epochs": 12},
        "search": {
            "sampler": "random",
            "configs": 12,
            "space": {
                "units": {"low": 16, "high": 64},
                "learning_rate": {"low": 0.0001, "high": 0.1, "log": True},
            },
            "objectives": {"val_accuracy": "maximize"},
            "pruner": {"name": "median", "n_startup_trials": 4, "n_warmup_steps": 2},
        },
        "arms": ["tensorflow/portable", "tensorflow/portable+unroll"],
    },
}


def run(name: str, arms: Sequence[str], home: Path) -> list[FinishedTrial]:
    """Run one of the sweeps on these arms; return its trials."""
    kind = name.partition("-alone")[0]
    spec: dict[str, Any] = deepcopy(dict(SWEEPS[kind]))
    spec["arms"] = {"implementations": list(arms), "hardware": ["cpu"]}
    ended, _ = rig.run(yaml.safe_dump({"name": f"turns-{name}", **spec}), home)
    assert ended.stopped is None, ended.stopped
    return list(ended.record.trials)


def compare(kind: str, home: Path) -> dict[str, Any]:
    """Run a sweep in turns and alone; return the row of the table."""
    arms, result = SWEEPS[kind]["arms"], next(iter(SWEEPS[kind]["search"]["objectives"]))
    together = run(kind, arms, home)
    alone = [
        trial
        for number, arm in enumerate(arms)
        for trial in run(f"{kind}-alone-{number}", [arm], home)
    ]
    row: dict[str, Any] = {"name": f"{kind}: {arms[1]} by {arms[0]}"}
    for way, trials in (("in turns", together), ("alone", alone)):
        times = {
            (trial.block, str(trial.arm.implementation)): trial.metrics["step_ms"]
            for trial in trials
            if trial.status in ("complete", "pruned")
        }
        logs = [
            math.log(times[block, arms[0]] / times[block, arms[1]])
            for block in sorted({block for block, _ in times})
            if (block, arms[0]) in times and (block, arms[1]) in times
        ]
        of_logs = estimates.t_interval(logs)
        assert of_logs is not None, f"{kind}: fewer than two configs on both arms"
        interval = estimates.exponential(of_logs)
        row[way] = f"{interval.value:.2f} × ({interval.low:.2f}–{interval.high:.2f})"
    results = [
        {(t.block, t.arm.implementation): t.metrics.get(result) for t in trials}
        for trials in (together, alone)
    ]
    pairs = [(results[0][key], results[1].get(key)) for key in results[0]]
    row["difference"] = max(
        (abs(a - b) for a, b in pairs if a is not None and b is not None), default=math.nan
    )
    pruned = [
        {(t.block, t.arm.implementation) for t in trials if t.status == "pruned"}
        for trials in (together, alone)
    ]
    row["pruned"] = f"{len(pruned[0])}, {len(pruned[1])}, both {len(pruned[0] & pruned[1])}"
    return row


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(SWEEPS), choices=list(SWEEPS))
    asked: argparse.Namespace = parser.parse_args()
    home = sweep_home()
    home.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("keras", "tensorflow", "torch")
    rows = []
    for kind in asked.kinds:
        rows.append(compare(kind, home))
        print(rows[-1], flush=True)
    columns = {"in turns": "", "alone": "", "difference": ".2g", "pruned": ""}
    lines = [
        "Speed-ups and results of arms in turns, and of each arm alone",
        rig.table(rows, columns),
    ]
    rig.publish(asked.output, "turns_alone", environment, lines, rows=rows)


if __name__ == "__main__":
    main()
