"""The same sweeps with a simulated clock: the product's `Blocks` and `Suggester`, without Ray.

Durations and accuracies are those of `sleeper`. The code of a real sweep assigns the trials and
reports them to the sampler. A trial begins as soon as its lane has room. So many seeds can
be tried, since one seed does not show the quality of a sampler.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Mapping

from orchestrator.core.trial import Outcome, SweepIdentity
from orchestrator.hardware import Node, NodeProfile, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.open_blocks import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.sampler import Suggester
from orchestrator.spec import parse
from tests.benchmarks.unlike.busy import Result, Span, judge
from tests.benchmarks.unlike.nodes import FAST_CPUS, SLOW_CPUS
from tests.benchmarks.unlike.sweeps import Question
from tests.workloads.examples import sleeper


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
        objectives=spec.search.objectives,
        source=Suggester(spec.search, spec.seed),
        open_limit=open_limit(spec, plan, groups),
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
                ends_s = now_s + _seconds(question, issue)
                heapq.heappush(events, (ends_s, next(order), issue))
                spans.append(Span(_class(issue), now_s, ends_s))
        now_s, _, issue = heapq.heappop(events)
        at_work[issue.lane.node.id] -= 1
        config = {name: float(value) for name, value in issue.trial.config.items()}
        rounds = _rounds(issue)
        accuracy = sleeper.accuracy(config, issue.trial.seed, rounds)
        best = max(best, sleeper.true_accuracy(config))
        blocks.finish(issue, Outcome("complete", 0, 0, metrics={"val_accuracy": accuracy}))
    return judge(question.name, spans, 0.0, dict(question.devices), best)


def _class(issue: Assignment) -> str:
    cpus = issue.lane.node.profile.cpus
    return "fast" if cpus == FAST_CPUS else "slow"


def _rounds(issue: Assignment) -> int:
    return int(issue.trial.arm.usage.settings.get("rounds", 10))


def _seconds(question: Question, issue: Assignment) -> float:
    whole_s = question.fast_s if _class(issue) == "fast" else question.slow_s
    config = {name: float(value) for name, value in issue.trial.config.items()}
    return whole_s * _rounds(issue) / 10 * sleeper.relative_duration(config)


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
