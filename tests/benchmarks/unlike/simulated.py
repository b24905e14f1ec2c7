"""Sweeps on hardware of unlike speed with a simulated clock, and how idle the hardware was.

The product's `Blocks` and `Suggester` assign the trials and report them to the sampler. Durations
and accuracies are those of `sleeper`. A trial begins as soon as its lane has room. Many seeds can
be tried, since one seed does not show the quality of a sampler.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from orchestrator.core.trial import Outcome, SweepIdentity
from orchestrator.hardware import Node, NodeProfile, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.open_blocks import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.sampler import Suggester
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.spec import parse
from tests.workloads.examples import sleeper

FAST_CPUS, SLOW_CPUS = 1, 2


@dataclass(frozen=True, slots=True)
class Span:
    """One trial on a device of a class, in seconds of one clock."""

    hardware: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one hardware class in a run.

    `idle_share` is the idle share of its devices between the class's first trial and the end
    of its last. `waited_s` is the time from the run's start to the first trial, `done_s` the time
    to the end of the last.
    """

    hardware: str
    devices: int
    trials: int
    work_s: float
    idle_share: float
    waited_s: float
    done_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """A run: its classes, its makespan, and the lower bound of the makespan.

    The bound is the time of the busiest class if its work is spread evenly over its devices and
    no time is lost between trials.
    """

    name: str
    uses: tuple[Use, ...]
    makespan_s: float
    bound_s: float
    best: float | None = None


def judge(question: Question, spans: Sequence[Span], began_s: float, best: float | None) -> Result:
    """Summarize a run whose first trial was assigned at `began_s`."""
    uses = []
    for hardware, devices in question.devices.items():
        own = [span for span in spans if span.hardware == hardware]
        first_s, last_s = min(span.began_s for span in own), max(span.ended_s for span in own)
        work_s = math.fsum(span.ended_s - span.began_s for span in own)
        idle = 1 - work_s / (devices * (last_s - first_s))
        waited_s, done_s = first_s - began_s, last_s - began_s
        uses.append(Use(hardware, devices, len(own), work_s, idle, waited_s, done_s))
    bound_s = max(use.work_s / use.devices for use in uses)
    makespan_s = max(use.done_s for use in uses)
    return Result(question.name, tuple(uses), makespan_s, bound_s, best)


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
        slow: dict[str, Any] = {"class": "*, 2 CPUs"}
        if self.less_rounds:
            slow["settings"] = {"rounds": self.less_rounds}
        search: dict[str, Any] = {
            "sampler": self.sampler,
            "configs": self.blocks,
            "space": {name: {"low": 0.0, "high": 1.0} for name in sleeper.SPACE},
            "objectives": {"val_accuracy": {"direction": "maximize", "over": self.over}},
        }
        if self.open_blocks:
            search["open_blocks"] = self.open_blocks
        seconds = {"fast_s": self.fast_s, "slow_s": self.slow_s, "fast_cpus": FAST_CPUS}
        spec = {
            "name": "unlike",
            "workload": "tests.workloads.examples.sleeper:run",
            "settings": {**seconds, "rounds": 10},
            "search": search,
            "arms": {"implementations": ["python/sleeper"], "hardware": ["*, 1 CPU", slow]},
            "seed": self.seed,
        }
        return yaml.safe_dump(spec)


def simulated(question: Question) -> Result:
    """Run a sweep with a simulated clock.

    Returns:
        The result; its `best` is the best config's value without noise.
    """
    spec = parse(question.spec(), source="unlike")
    plan = make_plan(spec, classify(unlike_nodes(question.devices)))
    groups = make_lanes(plan)
    identity = SweepIdentity(
        spec.name, 1, spec.workload, spec.settings, spec.comparable_search(), spec.seed, None
    )
    blocks = Blocks(
        identity,
        plan,
        groups,
        Suggestions(plan, Suggester(spec.search, spec.seed), spec.search.objectives),
        open_limit(spec, plan, groups),
    )
    spans: list[Span] = []
    waiting: dict[str, list[Assignment]] = {}
    at_work: Counter[str] = Counter()
    events: list[tuple[float, int, Assignment]] = []
    order, now_s, best = itertools.count(), 0.0, 0.0
    while not blocks.done:
        while (assigned := blocks.next()) is not None:
            waiting.setdefault(assigned[0].lane.node.id, []).append(assigned[0])
        for node, issues in waiting.items():
            while issues and at_work[node] < issues[0].lane.room(issues[0].device):
                issue = issues.pop(0)
                at_work[node] += 1
                whole_s = question.fast_s if _class(issue) == "fast" else question.slow_s
                ends_s = now_s + whole_s * _rounds(issue) / 10 * sleeper.relative_duration(
                    _config(issue)
                )
                heapq.heappush(events, (ends_s, next(order), issue))
                spans.append(Span(_class(issue), now_s, ends_s))
        now_s, _, issue = heapq.heappop(events)
        at_work[issue.lane.node.id] -= 1
        accuracy = sleeper.accuracy(_config(issue), issue.trial.seed, _rounds(issue))
        best = max(best, sleeper.true_accuracy(_config(issue)))
        blocks.finish(issue, Outcome("complete", 0, 0, metrics={"val_accuracy": accuracy}))
    return judge(question, spans, 0.0, best)


def _class(issue: Assignment) -> str:
    return "fast" if issue.lane.node.profile.cpus == FAST_CPUS else "slow"


def _config(issue: Assignment) -> dict[str, float]:
    return {name: float(value) for name, value in issue.trial.config.items()}


def _rounds(issue: Assignment) -> int:
    return int(issue.trial.arm.usage.settings.get("rounds", 10))


def unlike_nodes(devices: Mapping[str, int]) -> list[Node]:
    """Return nodes of each class, with profiles as probes of real nodes would report."""
    cpus = {"fast": FAST_CPUS, "slow": SLOW_CPUS}
    return [
        Node(
            f"{name}-{number}",
            NodeProfile(f"{name}-{number}", "CPU", cpus[name], 8_000, (), None, "Linux", "3.11"),
            1,
        )
        for name, count in devices.items()
        for number in range(count)
    ]
