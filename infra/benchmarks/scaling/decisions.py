"""Decisions of the scheduling core, without Ray: does the last one cost more than the first?

Two classes of nodes, one 20 × as fast, on a simulated clock; any number of blocks is open. The time
is this process's CPU time in `Dispatcher.next` and `Dispatcher.finish`.
"""

import heapq
import itertools
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from statistics import fmean
from typing import Any

from infra.benchmarks import rig
from orchestrator.core.trial import Block, Outcome
from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.suggester import Suggester
from tests.building.hardware import build_node
from tests.building.scheduling import build_plan
from tests.building.specs import USER_WORKLOAD, build_spec
from tests.building.trials import IDENTITY, build_outcome

_SIZES = [(2, 10_000), (20, 10_000), (200, 20_000), (1_000, 100_000)]
"""Nodes and trials."""


class _Timed(Dispatcher):
    def next(self) -> tuple[Assignment, list[Block]] | None:
        began_s = time.process_time()
        handed_out = super().next()
        took_s[-1] += time.process_time() - began_s
        return handed_out

    def finish(self, assignment: Assignment, *outcomes: Outcome) -> None:
        began_s = time.process_time()
        super().finish(assignment, *outcomes)
        took_s.append(time.process_time() - began_s)


took_s: list[float] = []
"""Of all decisions from one end of a trial to the next."""


def measure() -> list[dict[str, Any]]:
    """Return milliseconds a trial over a whole sweep of each size, with their limits."""
    rows = []
    for nodes, trials in _SIZES:
        _run(nodes, trials)
        tenth = trials // 10
        first, last = (1e3 * fmean(part) for part in (took_s[:tenth], took_s[-tenth:]))
        name = f"{nodes:,} nodes, {trials:,} trials"
        rows += [
            rig.figure(f"{name}: ms a trial", 1e3 * fmean(took_s), 1.0),
            rig.figure(f"{name}: last tenth ÷ first ({first:.2f} ms)", last / first, 1.1),
        ]
    return rows


def _run(nodes: int, trials: int) -> None:
    fleet = [build_node(f"n{n}", cpu_model=["fast", "slow"][n % 2]) for n in range(nodes)]
    laid = build_plan(classify(fleet), implementations=1, blocks=trials // 2)
    search = build_spec(
        USER_WORKLOAD, configs=laid.blocks, space={"units": {"low": 1, "high": 10**9}}
    ).search
    seconds = {node.id: 1.0 if node.profile.cpu_model == "fast" else 20.0 for node in fleet}
    rng, took_s[:] = random.Random(0), [0.0]
    dispatcher = _Timed.begin(
        Ledger(IDENTITY, laid), Suggester(search, 0), search.objectives, make_lanes(laid)
    )
    _simulate(dispatcher, lambda node_id: rng.uniform(0.5, 1.5) * seconds[node_id])


def _simulate(dispatcher: Dispatcher, trial_s: Callable[[str], float]) -> None:
    """Run all trials on their lanes; `trial_s` gives the seconds of a trial on a node."""
    waiting = defaultdict[str, deque[Assignment]](deque)
    at_work = Counter[str]()
    ends: list[tuple[float, int, Assignment]] = []
    order, now_s = itertools.count(), 0.0
    changed = set[str]()
    while not dispatcher.done:
        while (handed_out := dispatcher.next()) is not None:
            assignment = handed_out[0]
            waiting[assignment.lane.node.id].append(assignment)
            changed.add(assignment.lane.node.id)
        for id_ in sorted(changed):
            queue = waiting[id_]
            while queue and at_work[id_] < queue[0].lane.room(queue[0].device):
                assignment = queue.popleft()
                at_work[id_] += 1
                heapq.heappush(ends, (now_s + trial_s(id_), next(order), assignment))
        now_s, _, assignment = heapq.heappop(ends)
        changed = {assignment.lane.node.id}
        at_work[assignment.lane.node.id] -= 1
        dispatcher.finish(assignment, build_outcome())
