"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

    python -m tests.benchmarks.unlike_nodes [--output FOLDER] [--only real|simulated] [--note TEXT]

* real: a Ray cluster on this machine, of nodes that may use one CPU (the fast class: one node) or
  two (the slow class: four nodes), with a sweep of random search. Trials sleep, so that the
  machine's CPUs are free for the scheduling. Each node's processes are confined to its CPUs, so
  that its probe detects another class. Targets: every class idle for at most 5 % of its time, and
  a makespan of at most 1.10 × its bound.
* simulated: the trade between idle hardware and learning of the sampler, over many seeds. The
  product's `Blocks` and `Suggester` assign the trials and report them to the sampler; durations and
  accuracies are those of `sleeper`, and a trial begins as soon as its lane has room.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import shutil
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.cluster.connection import token_settings
from orchestrator.core.trial import Config
from orchestrator.execution.trainer_process import confined
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.sampler import Suggester, Suggestions
from orchestrator.spec import parse
from tests.benchmarks import rig
from tests.orchestrator.sample_plans import complete, identity, node
from tests.orchestrator.sample_specs import spec_text
from tests.workloads.examples import sleeper

DEVICES = {"fast": 1, "slow": 4}
CPUS = {"fast": 1, "slow": 2}
"""Nodes of each class, and the CPUs that its nodes may use, by which they are classified."""

RATIO = 20
"""The time of a slow trial over that of a fast one."""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep: blocks, seconds of a fast trial, search, and the slow arm's work (10: all of it)."""

    blocks: int
    fast_s: float
    sampler: str = "random"
    open_blocks: int | None = None
    over: str = "mean"
    slow_rounds: int = 10
    seed: int = 0

    @property
    def seconds(self) -> dict[str, float]:
        return {"fast": self.fast_s, "slow": RATIO * self.fast_s}

    def spec(self) -> str:
        slow: dict[str, Any] = {"class": "*, 2 CPUs"}
        if self.slow_rounds < 10:  # objectives do not read an arm with settings of its own
            slow["settings"] = {"rounds": self.slow_rounds}
        seconds = {f"{name}_s": whole_s for name, whole_s in self.seconds.items()}
        return spec_text(
            name="unlike",
            workload="tests.workloads.examples.sleeper:run",
            settings={**seconds, "fast_cpus": CPUS["fast"], "rounds": 10},
            sampler=self.sampler,
            configs=self.blocks,
            space={name: {"low": 0.0, "high": 1.0} for name in sleeper.SPACE},
            objectives={"val_accuracy": {"direction": "maximize", "over": self.over}},
            open_blocks=self.open_blocks,
            implementations=["python/sleeper"],
            hardware=["*, 1 CPU", slow],
            seed=self.seed,
        )


def judge(
    spans: Iterable[tuple[str, float, float]], began_s: float, best: float | None = None
) -> dict[str, float]:
    """Return the figures of a run whose first trial was assigned at `began_s`.

    The idle share of a class is that of its devices between its first trial and its last. The
    makespan is also given relative to its lower bound: the time of the busiest class if its
    work is spread evenly over its devices and no time is lost between trials.

    Args:
        spans: class, begin and end (seconds) of each trial.
        began_s: on the same clock.
        best: the value of the best config, if it is known.
    """
    own = defaultdict[str, list[tuple[float, float]]](list)
    for name, first_s, last_s in spans:
        own[name].append((first_s, last_s))
    figures: dict[str, float] = {}
    bound_s, makespan_s = 0.0, 0.0
    for name, devices in DEVICES.items():
        work_s = math.fsum(ended - began for began, ended in own[name]) / devices
        done_s = max(ended for _, ended in own[name])
        figures[f"{name}_idle_share"] = 1 - work_s / (done_s - min(own[name])[0])
        figures[f"{name}_done_s"] = done_s - began_s
        bound_s, makespan_s = max(bound_s, work_s), max(makespan_s, done_s - began_s)
    figures |= {"makespan_s": makespan_s, "stretch": makespan_s / bound_s}
    return figures if best is None else {**figures, "best": best}


def simulated(question: Question) -> dict[str, float]:
    """Run a sweep with a simulated clock; `best` is the best config's value without noise."""
    spec = parse(question.spec(), source="unlike")
    plan = make_plan(spec, classify(unlike_nodes()))
    groups = make_lanes(plan)
    source = Suggestions(plan, Suggester(spec.search, spec.seed), spec.search.objectives)
    limit = open_limit(spec, plan, groups)
    blocks = Blocks(identity(spec.seed), plan, groups, source, limit)
    spans: list[tuple[str, float, float]] = []
    waiting = defaultdict[str, list[Assignment]](list)
    at_work: Counter[str] = Counter()
    events: list[tuple[float, int, Assignment]] = []
    order, now_s, best = itertools.count(), 0.0, 0.0
    while not blocks.done:
        while (assigned := blocks.next()) is not None:
            waiting[assigned[0].lane.node.id].append(assigned[0])
        for id_, queue in waiting.items():
            while queue and at_work[id_] < queue[0].lane.room(queue[0].device):
                started = queue.pop(0)
                at_work[id_] += 1
                name = "fast" if started.lane.node.profile.cpus == CPUS["fast"] else "slow"
                share = (
                    _rounds(started) / 10 * sleeper.relative_duration(sizes(started.trial.config))
                )
                ends_s = now_s + question.seconds[name] * share
                heapq.heappush(events, (ends_s, next(order), started))
                spans.append((name, now_s, ends_s))
        now_s, _, ended = heapq.heappop(events)
        at_work[ended.lane.node.id] -= 1
        config = sizes(ended.trial.config)
        accuracy = sleeper.accuracy(config, ended.trial.seed, _rounds(ended))
        best = max(best, sleeper.true_accuracy(config))
        blocks.finish(ended, complete(accuracy))
    return judge(spans, 0.0, best)


def sizes(config: Config) -> dict[str, float]:
    """Return a config of numbers as `sleeper` takes it."""
    return {name: float(value) for name, value in config.items()}


def _rounds(assignment: Assignment) -> int:
    return int(assignment.trial.arm.usage.settings.get("rounds", 10))


def unlike_nodes() -> list[Node]:
    """Return nodes of each class, with profiles as probes of real nodes would report."""
    names = [(name, f"{name}-{number}") for name in DEVICES for number in range(DEVICES[name])]
    return [replace(node(id_, CPUS[name], cpu_model="CPU"), cpus=1) for name, id_ in names]


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
            rows = [{"name": "rnnsweep", **ours(base, address)}]
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
    return {"name": name, **{key: statistics.fmean(run[key] for run in runs) for key in runs[0]}}


_STORE_BYTES = 80 * 2**20


@contextlib.contextmanager
def cluster_of_unlike_nodes() -> Iterator[str]:
    """Start a head without CPUs and nodes of both classes; yield the cluster's address."""
    # Raises SystemExit: this machine has too few CPUs for two classes.
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


if __name__ == "__main__":
    main()
