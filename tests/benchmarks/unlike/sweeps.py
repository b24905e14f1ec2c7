"""The same work on the same nodes, as a sweep of rnnsweep and as plain Tune."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.cli.progress import PlainLines
from orchestrator.core.stop_signal import StopSignal
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.sweep import RunOptions, run_sweep
from orchestrator.spec import parse
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import AttemptStarted, TrialFinished, read
from orchestrator.storage.tracking import tracking_uri
from tests.benchmarks.unlike.busy import Result, Span, judge
from tests.benchmarks.unlike.nodes import FAST_CPUS
from tests.workloads.examples import sleeper

_SPEC = """
name: unlike
workload: tests.workloads.examples.sleeper:run
settings: {{fast_s: {fast_s}, slow_s: {slow_s}, fast_cpus: {fast_cpus}, rounds: 10}}
search:
  sampler: {sampler}
  configs: {blocks}
  {open_blocks}
  space: {{{space}}}
  objectives: {{val_accuracy: {{direction: maximize, over: "{over}"}}}}
arms:
  implementations: [python/sleeper]
  hardware: ["*, 1 CPU", {slow}]
seed: {seed}
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep to run: sizes in seconds and blocks, and the search.

    `less_rounds` is the slow arm's amount of work; the full amount is 10.
    """

    name: str
    blocks: int
    fast_s: float
    slow_s: float
    devices: Mapping[str, int]
    sampler: str = "random"
    open_blocks: int | None = None
    over: str = "mean"
    less_rounds: int | None = None
    seed: int = 0

    def spec(self) -> str:
        """Return the text of the spec file."""
        slow = '{class: "*, 2 CPUs"'
        slow += f", settings: {{rounds: {self.less_rounds}}}}}" if self.less_rounds else "}"
        return _SPEC.format(
            fast_s=self.fast_s,
            slow_s=self.slow_s,
            fast_cpus=FAST_CPUS,
            sampler=self.sampler,
            blocks=self.blocks,
            open_blocks=f"open_blocks: {self.open_blocks}" if self.open_blocks else "",
            space=", ".join(f"{name}: {{low: 0.0, high: 1.0}}" for name in sleeper.SPACE),
            over=self.over,
            slow=slow,
            seed=self.seed,
        )


def ours(question: Question, address: str) -> Result:
    """Run it as a normal sweep, with journal, MLflow and report."""
    spec = parse(question.spec(), source="unlike")
    with tempfile.TemporaryDirectory() as scratch, StopSignal(lambda: None) as stop:
        home = Path(scratch)
        ended = run_sweep(
            spec,
            RunOptions(home, tracking_uri(home, {}), address),
            stop=stop,
            view=_silent,
            confirm=lambda plan, missing: None,
        )
        records = read(SweepFolder(home, spec.name).generation(1))
    complete = [trial for trial in ended.record.trials if trial.status == "complete"]
    assert len(complete) == 2 * question.blocks, f"{len(complete)} trials complete"
    finished = [record.finished for record in records if isinstance(record, TrialFinished)]
    began_s = min(record.at_s for record in records if isinstance(record, AttemptStarted))
    spans = [
        Span(
            "fast" if str(trial.trial.arm.hardware).endswith(", 1 CPU") else "slow",
            trial.outcome.started_s,
            trial.outcome.ended_s,
        )
        for trial in finished
    ]
    best = max(sleeper.true_accuracy(_floats(trial.trial.config)) for trial in finished)
    return judge(question.name, spans, began_s, dict(question.devices), best)


def _silent(plan: Plan) -> PlainLines:
    return PlainLines(Console(quiet=True), plan)


def _floats(config: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in config.items()}


def plain_tune(question: Question, address: str) -> Result:
    """Run it as plain Tune: OptunaSearch over configs and hardware, with reused actors."""
    import optuna  # noqa: PLC0415  (with Ray, seconds)
    import ray  # noqa: PLC0415
    from ray import tune  # noqa: PLC0415
    from ray.tune.search.optuna import OptunaSearch  # noqa: PLC0415

    distributions = optuna.distributions
    space: dict[str, Any] = {
        name: distributions.FloatDistribution(0.0, 1.0) for name in sleeper.SPACE
    }
    space["hardware"] = distributions.CategoricalDistribution(["fast", "slow"])
    seconds = {"fast": question.fast_s, "slow": question.slow_s}
    os.environ.pop("TUNE_MAX_PENDING_TRIALS_PG", None)  # set by a sweep of rnnsweep
    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:
        nodes = _by_speed()

        def bundles(config: dict[str, Any]) -> tune.PlacementGroupFactory:
            selector = {"ray.io/node-id": f"in({', '.join(nodes[config['hardware']])})"}
            return tune.PlacementGroupFactory([{"CPU": 1}], bundle_label_selector=[selector])

        def train(config: dict[str, Any]) -> dict[str, Any]:
            began_s = time.time()
            time.sleep(seconds[config["hardware"]] * (0.5 + config["width"]))
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
    spans = [Span(row["hardware_used"], row["began_s"], row["ended_s"]) for row in results]
    return judge(question.name, spans, began_s, dict(question.devices), None)


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
    ids: dict[str, list[str]] = {"fast": [], "slow": []}
    for node, cpus in zip(alive, counts, strict=True):
        ids["fast" if cpus == FAST_CPUS else "slow"].append(node["NodeID"])
    return ids
