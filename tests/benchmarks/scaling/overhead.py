"""A trial that does nothing: rnnsweep, with journal and MLflow, compared with plain Ray Tune."""

import tempfile
import time
from pathlib import Path
from typing import Any

import optuna
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from orchestrator.cli.output import quiet
from orchestrator.cluster.connection import connect
from tests.benchmarks import rig
from tests.benchmarks.scaling import endurance

TRIALS = 300


def measure() -> list[dict[str, Any]]:
    """Run both, without Ray's own start; rnnsweep's time includes its report, read from MLflow."""
    with tempfile.TemporaryDirectory() as scratch, quiet(Path(scratch, "log")):
        _, began_s = rig.run(endurance.spec(TRIALS), Path(scratch, "home"))
        own_ms = 1e3 * (time.time() - began_s) / TRIALS
        with connect(None):
            tune_ms = 1e3 * _tune_s(scratch) / TRIALS
    return [
        rig.figure("ms a trial, rnnsweep", own_ms, 100.0),
        rig.figure("ms a trial, Tune with reuse_actors and OptunaSearch", tune_ms),
        rig.figure("rnnsweep ÷ Tune", own_ms / tune_ms),
    ]


def _tune_s(folder: str) -> float:
    space = {"units": optuna.distributions.IntDistribution(1, 1_000_000)}
    sampler = optuna.samplers.RandomSampler(seed=0)
    search = OptunaSearch(space, metric="val_accuracy", mode="max", sampler=sampler)
    config = tune.TuneConfig(num_samples=TRIALS, reuse_actors=True, search_alg=search)
    trainable = tune.with_resources(lambda _: {"val_accuracy": 0.5}, {"cpu": 1})
    run_config = tune.RunConfig(storage_path=f"{folder}/tune", verbose=0)
    began_s = time.perf_counter()
    assert len(tune.Tuner(trainable, tune_config=config, run_config=run_config).fit()) == TRIALS
    return time.perf_counter() - began_s
