"""The same work on the same nodes, as a sweep of rnnsweep and as plain Tune.

Each node's processes are confined to some of the machine's CPUs, so that its probe detects another
hardware class: one CPU is the fast class, two CPUs are the slow one.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.cluster.connection import token_settings
from orchestrator.execution.trainer_process import confined
from tests.benchmarks import rig
from tests.benchmarks.unlike.simulated import CPUS, DEVICES, Question, judge, sizes
from tests.workloads.examples import sleeper

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
                    cluster.add_node(**_node(cpus=1), wait=False)
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
        nodes = _by_speed()

        def bundles(config: dict[str, Any]) -> tune.PlacementGroupFactory:
            selector = {"ray.io/node-id": f"in({', '.join(nodes[config['hardware']])})"}
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


def _by_speed() -> dict[str, list[str]]:
    """Return the ids of the nodes by class, detected in their own processes."""
    import ray  # noqa: PLC0415

    def count() -> int:
        return len(os.sched_getaffinity(0))

    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    counts = ray.get(
        [
            ray.remote(count)
            .options(num_cpus=0, label_selector={"ray.io/node-id": node["NodeID"]})
            .remote()
            for node in alive
        ]
    )
    usable = list(zip(alive, counts, strict=True))
    return {name: [n["NodeID"] for n, count in usable if count == CPUS[name]] for name in CPUS}
