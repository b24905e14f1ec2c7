"""Idle time of fast hardware on a cluster whose hardware classes differ 20 × in speed.

The trade between idle hardware and learning of the sampler, over many seeds, with a simulated
clock. The product's `Blocks` and `Suggester` assign the trials and report them to the sampler;
durations and accuracies follow a law.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from orchestrator.core.trial import Config, Outcome
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.sampler import Suggester, Suggestions
from orchestrator.scheduling.simulation import idle_shares, simulate
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


def simulated(question: Question) -> dict[str, float]:
    spec = parse(question.spec(), source="unlike")
    nodes = unlike_nodes()
    plan = make_plan(spec, classify(nodes))
    groups = make_lanes(plan)
    source = Suggestions(plan, Suggester(spec.search, spec.seed), spec.search.objectives)
    limit = open_limit(spec, plan, groups)
    blocks = Blocks(identity(spec.seed), plan, groups, source, limit)

    def run(assignment: Assignment) -> tuple[float, list[Outcome]]:
        config = sizes(assignment.trial.config)
        seconds = question.seconds[_name(assignment.lane.node)] * (0.5 + config["width"])
        noise = random.Random(assignment.trial.seed).gauss(0.0, 0.005)
        learned = 1 - 0.5 ** (_rounds(assignment) / 2)
        outcome = complete(true_accuracy(config) * learned + noise)
        return seconds * _rounds(assignment) / 10, [outcome]

    spans = simulate(blocks, run)
    shares = idle_shares(spans, nodes)
    idle = {f"{_name(node)}_idle_share": shares[node.main_class.name][1] for node in nodes}
    best = max(true_accuracy(sizes(span.assignment.trial.config)) for span in spans)
    return {**idle, "makespan_s": max(span.ended_s for span in spans), "best": best}


def true_accuracy(config: Mapping[str, float]) -> float:
    return math.exp(-2 * math.fsum((config[name] - best) ** 2 for name, best in SPACE.items()))


def sizes(config: Config) -> dict[str, float]:
    return {name: float(value) for name, value in config.items()}


def _name(node: Node) -> str:
    return node.id.partition("-")[0]


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
    **{"fast_idle_share": ".1%", "slow_idle_share": ".1%"},
    **{"makespan_s": ".0f", "best": ".3f"},
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
