"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

The trade between idle hardware and learning of the sampler, over many seeds, with a simulated
clock. The product's `Blocks` and `Suggester` assign the trials and report them to the sampler;
durations and accuracies follow a law, and a trial begins as soon as its lane has room.
"""

import heapq
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from orchestrator.core.trial import Config
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
from tests.orchestrator.sample_specs import OWN, spec_text

DEVICES = {"fast": 1, "slow": 4}
CPUS = {"fast": 1, "slow": 2}
"""Nodes of each class, and the CPUs that its nodes may use, by which they are classified."""

RATIO = 20

SPACE = {"depth": 0.35, "width": 0.8, "rate": 0.55, "decay": 0.15}
"""Parameters between 0 and 1, and the best place; `width` also decides the time of a trial."""


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
        return spec_text(
            OWN,
            settings={"rounds": 10},
            sampler=self.sampler,
            configs=self.blocks,
            space={name: {"low": 0.0, "high": 1.0} for name in SPACE},
            objectives={"val_accuracy": {"direction": "maximize", "over": self.over}},
            open_blocks=self.open_blocks,
            hardware=["*, 1 CPU", slow],
            seed=self.seed,
        )


def judge(spans: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Return the figures of trials by class, begin and end (seconds); the first begins at 0."""
    # The idle share of a class is that of its devices between its first trial and its last. The
    # makespan is also given relative to its lower bound: the time of the busiest class if its
    # work is spread evenly over its devices and no time is lost between trials.
    own = defaultdict[str, list[tuple[float, float]]](list)
    for name, first_s, last_s in spans:
        own[name].append((first_s, last_s))
    figures: dict[str, float] = {}
    bound_s, makespan_s = 0.0, 0.0
    for name, devices in DEVICES.items():
        work_s = math.fsum(ended - began for began, ended in own[name]) / devices
        done_s = max(ended for _, ended in own[name])
        figures[f"{name}_idle_share"] = 1 - work_s / (done_s - min(own[name])[0])
        figures[f"{name}_done_s"] = done_s
        bound_s, makespan_s = max(bound_s, work_s), max(makespan_s, done_s)
    return {**figures, "makespan_s": makespan_s, "stretch": makespan_s / bound_s}


def simulated(question: Question) -> dict[str, float]:
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
                share = _rounds(started) / 10 * (0.5 + sizes(started.trial.config)["width"])
                ends_s = now_s + question.seconds[name] * share
                heapq.heappush(events, (ends_s, next(order), started))
                spans.append((name, now_s, ends_s))
        now_s, _, ended = heapq.heappop(events)
        at_work[ended.lane.node.id] -= 1
        best = max(best, accuracy := true_accuracy(sizes(ended.trial.config)))
        noise = random.Random(ended.trial.seed).gauss(0.0, 0.005)
        blocks.finish(ended, complete(accuracy * (1 - 0.5 ** (_rounds(ended) / 2)) + noise))
    return {**judge(spans), "best": best}


def true_accuracy(config: Mapping[str, float]) -> float:
    return math.exp(-2 * math.fsum((config[name] - best) ** 2 for name, best in SPACE.items()))


def sizes(config: Config) -> dict[str, float]:
    return {name: float(value) for name, value in config.items()}


def _rounds(assignment: Assignment) -> int:
    return int(assignment.trial.arm.usage.settings.get("rounds", 10))


def unlike_nodes() -> list[Node]:
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
    asked = parser.parse_args()
    base = Question(asked.blocks, asked.fast_s)
    devices = ", ".join(f"{count} {name}" for name, count in DEVICES.items())
    rows: list[dict[str, Any]] = []
    for name, search in _SEARCHES.items():
        runs = [simulated(replace(base, seed=n, **search)) for n in range(asked.seeds)]
        rows.append({"name": name, **{key: fmean(run[key] for run in runs) for key in runs[0]}})
    lines = [
        f"Unlike nodes: {devices}; a slow trial takes {RATIO} × a fast one",
        f"Simulated clock, {asked.blocks} blocks, means over {asked.seeds} seeds",
        rig.table(rows, _COLUMNS),
    ]
    figures = {"blocks": asked.blocks, "simulated": rows}
    rig.publish(asked.output, "unlike_nodes_simulated", rig.environment("optuna"), lines, **figures)


if __name__ == "__main__":
    main()
