"""Sweeps on hardware of unlike speed with a simulated clock, and how idle the hardware was.

The product's `Blocks` and `Suggester` assign the trials and report them to the sampler. Durations
and accuracies are those of `sleeper`. A trial begins as soon as its lane has room. Many seeds can
be tried, since one seed does not show the quality of a sampler.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from orchestrator.core.trial import Config, Outcome, SweepIdentity
from orchestrator.hardware import Node, NodeProfile, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.blocks import Assignment, Blocks
from orchestrator.scheduling.sampler import Suggester, Suggestions
from orchestrator.spec import parse
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
        """The seconds of a trial on each class."""
        return {"fast": self.fast_s, "slow": RATIO * self.fast_s}

    def spec(self) -> str:
        """Return the text of the spec file."""
        slow: dict[str, Any] = {"class": "*, 2 CPUs"}
        if self.slow_rounds < 10:  # objectives do not read an arm with settings of its own
            slow["settings"] = {"rounds": self.slow_rounds}
        search: dict[str, Any] = {
            "sampler": self.sampler,
            "configs": self.blocks,
            "space": {name: {"low": 0.0, "high": 1.0} for name in sleeper.SPACE},
            "objectives": {"val_accuracy": {"direction": "maximize", "over": self.over}},
        }
        if self.open_blocks:
            search["open_blocks"] = self.open_blocks
        seconds = {f"{name}_s": whole_s for name, whole_s in self.seconds.items()}
        spec = {
            "name": "unlike",
            "workload": "tests.workloads.examples.sleeper:run",
            "settings": {**seconds, "fast_cpus": CPUS["fast"], "rounds": 10},
            "search": search,
            "arms": {"implementations": ["python/sleeper"], "hardware": ["*, 1 CPU", slow]},
            "seed": self.seed,
        }
        return yaml.safe_dump(spec)


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
    search = spec.comparable_search()
    blocks = Blocks(
        SweepIdentity(spec.name, 1, spec.workload, spec.settings, search, spec.seed, None),
        plan,
        groups,
        Suggestions(plan, Suggester(spec.search, spec.seed), spec.search.objectives),
        open_limit(spec, plan, groups),
    )
    spans: list[tuple[str, float, float]] = []
    waiting = defaultdict[str, list[Assignment]](list)
    at_work: Counter[str] = Counter()
    events: list[tuple[float, int, Assignment]] = []
    order, now_s, best = itertools.count(), 0.0, 0.0
    while not blocks.done:
        while (assigned := blocks.next()) is not None:
            waiting[assigned[0].lane.node.id].append(assigned[0])
        for node, queue in waiting.items():
            while queue and at_work[node] < queue[0].lane.room(queue[0].device):
                started = queue.pop(0)
                at_work[node] += 1
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
        blocks.finish(ended, Outcome("complete", 0, 0, metrics={"val_accuracy": accuracy}))
    return judge(spans, 0.0, best)


def sizes(config: Config) -> dict[str, float]:
    """Return a config of numbers as `sleeper` takes it."""
    return {name: float(value) for name, value in config.items()}


def _rounds(assignment: Assignment) -> int:
    return int(assignment.trial.arm.usage.settings.get("rounds", 10))


def unlike_nodes() -> list[Node]:
    """Return nodes of each class, with profiles as probes of real nodes would report."""
    names = [(name, f"{name}-{number}") for name in DEVICES for number in range(DEVICES[name])]
    return [
        Node(id_, NodeProfile(id_, "CPU", CPUS[name], 8_000, (), None, "Linux", "3.11"), 1)
        for name, id_ in names
    ]
