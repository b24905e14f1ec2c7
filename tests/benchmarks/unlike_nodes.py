"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

    python -m tests.benchmarks.unlike_nodes [--output FOLDER] [--only real|simulated] [--note TEXT]

* real: a Ray cluster on this machine, of nodes that may use one CPU (the fast class: one node) or
  two (the slow class: four nodes), as a sweep of rnnsweep with random search and as plain Tune with
  the same sampler. Trials sleep, so that the machine's CPUs are free for the scheduling. Each
  node's processes are confined to its CPUs, so that its probe detects another class. Targets:
  every class idle for at most 5 % of its time, and a makespan of at most 1.10 × its bound.
* simulated: the trade between idle hardware and learning of the sampler, over many seeds.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.cluster.connection import token_settings
from orchestrator.execution.trainer_process import confined
from tests.benchmarks import rig
from tests.benchmarks.unlike.simulated import (
    CPUS,
    DEVICES,
    RATIO,
    Question,
    judge,
    simulated,
    sizes,
)
from tests.workloads.examples import sleeper

_SEARCHES: Mapping[str, Mapping[str, Any]] = {
    "random, all open": {"sampler": "random"},
    "tpe, 2 open": {"sampler": "tpe", "open_blocks": 2},
    "tpe, usual": {"sampler": "tpe"},
    "tpe, 20 open": {"sampler": "tpe", "open_blocks": 20},
    "tpe, all open": {"sampler": "tpe", "open_blocks": 1_000},
    "tpe, over the fast arm": {"sampler": "tpe", "over": "* on *, 1 CPU"},
    "tpe, slow arm with a fifth of the work": {"sampler": "tpe", "slow_rounds": 2},
    "tpe, the same, both arms read": {"sampler": "tpe", "slow_rounds": 2, "over": "* on *"},
}
_COLUMNS = {
    **{"fast_idle_share": ".1%", "slow_idle_share": ".1%", "fast_done_s": ".0f"},
    **{"makespan_s": ".0f", "stretch": ".2f", "best": ".3f"},
}


def main() -> None:
    """Measure, print the tables, and write them with their figures if requested."""
    parser = rig.arguments(__doc__)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--fast-s", type=float, default=1.5, help="a fast trial's mean seconds")
    parser.add_argument("--seeds", type=int, default=40, help="simulations of each search")
    parser.add_argument("--only", choices=["real", "simulated"])
    parser.add_argument("--note", default="", help="a remark about this run, which is recorded")
    asked = parser.parse_args()
    environment = rig.environment("ray", "optuna", "mlflow")
    base = Question(asked.blocks, asked.fast_s)
    devices = ", ".join(f"{count} {name}" for name, count in DEVICES.items())
    lines = [f"Unlike nodes: {devices}; a slow trial takes {RATIO} × a fast one"]
    lines += [asked.note] if asked.note else []
    figures: dict[str, Any] = {"blocks": asked.blocks}
    if asked.only != "simulated":
        with cluster_of_unlike_nodes() as address:
            runs = {"rnnsweep": ours, "plain Tune, OptunaSearch": plain_tune}
            rows = [_means(name, [run(base, address)]) for name, run in runs.items()]
        figures["real"] = rows
        lines += ["\nRandom search, all blocks open", rig.table(rows, _COLUMNS)]
    if asked.only != "real":
        rows = [
            _means(name, [simulated(replace(base, seed=n, **search)) for n in range(asked.seeds)])
            for name, search in _SEARCHES.items()
        ]
        figures["simulated"] = rows
        lines += [f"\nSimulated clock, means over {asked.seeds} seeds", rig.table(rows, _COLUMNS)]
    rig.publish(asked.output, "unlike_nodes", environment, lines, **figures)


def _means(name: str, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the means of some runs' figures."""
    return {"name": name, **{key: statistics.fmean(run[key] for run in runs) for key in runs[0]}}


_STORE_BYTES = 80 * 2**20


@contextlib.contextmanager
def cluster_of_unlike_nodes() -> Iterator[str]:
    """Start a head without CPUs and nodes of both classes; yield the cluster's address.

    Raises:
        SystemExit: this machine has too few CPUs for two classes.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < CPUS["slow"]:
        raise SystemExit(
            f"needs a machine with {CPUS['slow']} CPUs; this process has {len(usable)}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.update(token_settings())  # as a sweep does; other clusters end its actors
    from ray.cluster_utils import Cluster  # noqa: PLC0415  (after the environment is set)

    folder = tempfile.mkdtemp(prefix="unlike-")  # otherwise it becomes the machine's `auto` cluster
    cluster = Cluster(initialize_head=True, head_node_args={**_node(cpus=0), "temp_dir": folder})
    try:
        for name, count in DEVICES.items():
            for _ in range(count):
                with confined(usable[: CPUS[name]]):
                    cluster.add_node(**_node(cpus=1), labels={"speed": name}, wait=False)
        cluster.wait_for_nodes()
        yield str(cluster.address)
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _node(*, cpus: int) -> dict[str, Any]:
    return {
        "num_cpus": cpus,
        "num_gpus": 0,
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
    }


def ours(question: Question, address: str) -> dict[str, float]:
    """Run it as a normal sweep, with journal, MLflow and report."""
    with tempfile.TemporaryDirectory() as scratch:
        ended, began_s = rig.run(question.spec(), Path(scratch), address)
    complete = [trial for trial in ended.record.trials if trial.status == "complete"]
    assert len(complete) == 2 * question.blocks, f"{len(complete)} trials complete"
    classes = [
        "fast" if str(trial.arm.hardware).endswith(", 1 CPU") else "slow" for trial in complete
    ]
    spans = [(name, t.started_s, t.ended_s) for name, t in zip(classes, complete, strict=True)]
    best = max(sleeper.true_accuracy(sizes(trial.config)) for trial in complete)
    return judge(spans, began_s, best)


def plain_tune(question: Question, address: str) -> dict[str, float]:
    """Run it as plain Tune: OptunaSearch over configs and hardware, with reused actors."""
    import optuna  # noqa: PLC0415  (with Ray, seconds)
    import ray  # noqa: PLC0415
    from ray import tune  # noqa: PLC0415
    from ray.tune.search.optuna import OptunaSearch  # noqa: PLC0415

    distributions = optuna.distributions
    space: dict[str, Any] = {
        name: distributions.FloatDistribution(0.0, 1.0) for name in sleeper.SPACE
    }
    space["hardware"] = distributions.CategoricalDistribution(list(DEVICES))
    os.environ.pop("TUNE_MAX_PENDING_TRIALS_PG", None)  # set by a sweep of rnnsweep
    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:

        def bundles(config: dict[str, Any]) -> tune.PlacementGroupFactory:
            selector = {"speed": config["hardware"]}
            return tune.PlacementGroupFactory([{"CPU": 1}], bundle_label_selector=[selector])

        def train(config: dict[str, Any]) -> dict[str, Any]:
            began_s = time.time()
            time.sleep(question.seconds[config["hardware"]] * (0.5 + config["width"]))
            return {
                "val_accuracy": random.random(),
                "hardware_used": config["hardware"],
                "began_s": began_s,
                "ended_s": time.time(),
            }

        with tempfile.TemporaryDirectory() as scratch:
            tuner = tune.Tuner(
                tune.with_resources(train, bundles),
                tune_config=tune.TuneConfig(
                    metric="val_accuracy",
                    mode="max",
                    num_samples=2 * question.blocks,
                    reuse_actors=True,
                    search_alg=OptunaSearch(
                        space,
                        metric="val_accuracy",
                        mode="max",
                        sampler=optuna.samplers.RandomSampler(seed=question.seed),
                    ),
                ),
                run_config=tune.RunConfig(storage_path=scratch, verbose=0),
            )
            began_s = time.time()
            results = [result.metrics for result in tuner.fit() if result.metrics]
    finally:
        ray.shutdown()
        os.environ.pop("RAY_ADDRESS", None)
    spans = [(row["hardware_used"], row["began_s"], row["ended_s"]) for row in results]
    return judge(spans, began_s)


if __name__ == "__main__":
    main()
