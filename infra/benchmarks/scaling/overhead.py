"""A trial that does nothing: rnnsweep, compared with Ray Tune and Optuna, with and without records.

All contenders run in one process, one after another, on MLflow stores of SQLite that exist before
the clock starts. What each of them kept is counted in its store afterwards.
"""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

import mlflow
import optuna
from optuna_integration import MLflowCallback
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.search.optuna import OptunaSearch

from infra.benchmarks import rig
from infra.benchmarks.scaling import endurance
from orchestrator.cli.output import quiet
from orchestrator.cluster.connection import connect
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri

TRIALS = 300
_UNITS = 1_000_000


@dataclass(frozen=True)
class Contender:
    """A loop over trials that do nothing, and the MLflow store that it records in, if any."""

    name: str
    seconds: float
    store: str | None

    @property
    def ms_a_trial(self) -> float:
        return 1e3 * self.seconds / TRIALS


def measure() -> list[dict[str, Any]]:
    """Run all, without Ray's own start; rnnsweep's time includes its report, read from MLflow."""
    with tempfile.TemporaryDirectory() as scratch, quiet(Path(scratch, "log")):
        home = Path(scratch, "home")
        _, began_s = rig.run(endurance.spec(TRIALS), home)
        ours = Contender("rnnsweep", time.time() - began_s, default_mlflow_uri(home, {}))
        state = read(SweepFolder(home, endurance.NAME).generation(1))
        assert state is not None
        outcomes = Counter(done.status for done in state.finished.values())
        assert outcomes == {"complete": TRIALS}, outcomes
        recording_tune, recording_optuna = (
            _new_store(scratch, "tune"),
            _new_store(scratch, "optuna"),
        )
        with connect(None):
            peers = [
                Contender("Tune", _tune_s(f"{scratch}/plain", []), None),
                Contender(
                    "Tune and MLflowLoggerCallback",
                    _tune_s(
                        f"{scratch}/recorded",
                        [MLflowLoggerCallback(recording_tune, experiment_name="peer")],
                    ),
                    recording_tune,
                ),
            ]
        peers.append(Contender("Optuna, in memory", _optuna_s([]), None))
        callback = MLflowCallback(recording_optuna, metric_name="val_accuracy")
        peers.append(
            Contender("Optuna and MLflowCallback", _optuna_s([callback]), recording_optuna)
        )
        kept = {contender.name: _kept(contender.store) for contender in (ours, *peers)}
    rows = [rig.figure(f"ms a trial, {ours.name}: {kept[ours.name]}", ours.ms_a_trial, 100.0)]
    rows += [
        rig.figure(f"ms a trial, {peer.name}: {kept[peer.name]}", peer.ms_a_trial) for peer in peers
    ]
    rows += [rig.figure(f"rnnsweep ÷ {peer.name}", ours.seconds / peer.seconds) for peer in peers]
    return rows


def _new_store(folder: str, name: str) -> str:
    """Return the address of an MLflow store whose tables exist: making them takes seconds."""
    address = f"sqlite:///{folder}/{name}.db"
    mlflow.MlflowClient(address).search_experiments()
    return address


def _kept(store: str | None) -> str:
    """Say what a store has: how many runs, and how much a run has at the median."""
    if store is None:
        return "no record"
    client = mlflow.MlflowClient(store)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = [run for run in client.search_runs(ids, max_results=10 * TRIALS) if run.data.params]
    metrics = median_low([len(run.data.metrics) for run in runs])
    params = median_low([len(run.data.params) for run in runs])
    tags = median_low([len(run.data.tags) for run in runs])
    return f"{len(runs)} runs of {metrics} metrics, {params} params, {tags} tags"


def _tune_s(folder: str, callbacks: list[tune.Callback]) -> float:
    """Run Ray Tune as its users do at its quickest: warm actors, a sampler of Optuna."""
    space = {"units": optuna.distributions.IntDistribution(1, _UNITS)}
    sampler = optuna.samplers.RandomSampler(seed=0)
    search = OptunaSearch(space, metric="val_accuracy", mode="max", sampler=sampler)
    config = tune.TuneConfig(num_samples=TRIALS, reuse_actors=True, search_alg=search)
    trainable = tune.with_resources(lambda _: {"val_accuracy": 0.5}, {"cpu": 1})
    run_config = tune.RunConfig(storage_path=folder, verbose=0, callbacks=callbacks)
    began_s = time.perf_counter()
    assert len(tune.Tuner(trainable, tune_config=config, run_config=run_config).fit()) == TRIALS
    return time.perf_counter() - began_s


def _optuna_s(callbacks: list[MLflowCallback]) -> float:
    """Run Optuna's own loop: one process, in which a trial is a call of a function."""

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_int("units", 1, _UNITS)
        return 0.5

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    began_s = time.perf_counter()
    study.optimize(objective, n_trials=TRIALS, callbacks=callbacks)
    assert len(study.trials) == TRIALS
    return time.perf_counter() - began_s
