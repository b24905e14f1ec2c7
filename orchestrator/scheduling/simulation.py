"""A sweep under a simulated clock: real decisions, and durations from elsewhere."""

import heapq
import itertools
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.core.trial import Outcome
from orchestrator.hardware import Node
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment


@dataclass(frozen=True, slots=True)
class Span:
    """The time that an assignment has its lane, in seconds after the first one begins."""

    assignment: Assignment
    began_s: float
    ended_s: float


def simulate(
    blocks: Blocks,
    run: Callable[[Assignment], tuple[float, Sequence[Outcome]]],
    pause_s: float = 0.0,
) -> list[Span]:
    """Run all of the blocks on their lanes; return what ran, in the order of the starts.

    A trial begins `pause_s` after its lane has room. `run` gives the seconds that an assignment
    takes, and the outcomes of its trials.
    """
    waiting = defaultdict[str, deque[Assignment]](deque)
    at_work = Counter[str]()
    ends: list[tuple[float, int, Assignment, Sequence[Outcome]]] = []
    spans, order, now_s = list[Span](), itertools.count(), 0.0
    changed = set[str]()
    while not blocks.done:
        while (handed_out := blocks.next()) is not None:
            assignment = handed_out[0]
            waiting[assignment.lane.node.id].append(assignment)
            changed.add(assignment.lane.node.id)
        for id_ in sorted(changed):
            queue = waiting[id_]
            while queue and at_work[id_] < queue[0].lane.room(queue[0].device):
                assignment = queue.popleft()
                at_work[id_] += 1
                began_s = now_s + pause_s
                seconds, outcomes = run(assignment)
                spans.append(Span(assignment, began_s, began_s + seconds))
                heapq.heappush(ends, (began_s + seconds, next(order), assignment, outcomes))
        now_s, _, assignment, outcomes = heapq.heappop(ends)
        changed = {assignment.lane.node.id}
        at_work[assignment.lane.node.id] -= 1
        blocks.finish(assignment, *outcomes)
    return spans


def idle_shares(spans: Iterable[Span], nodes: Iterable[Node]) -> dict[str, tuple[float, float]]:
    """Return the shares of time in which the nodes of each class run no trial.

    The first is up to the last trial of all, the second up to the last one of the class.
    """
    work_s, last_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for span in spans:
        lane = span.assignment.lane
        name = lane.node.main_class.name
        work_s[name] += (span.ended_s - span.began_s) / lane.room(span.assignment.device)
        last_s[name] = max(last_s[name], span.ended_s)
    most_s, shares = max(last_s.values()), dict[str, tuple[float, float]]()
    for name, count in Counter(node.main_class.name for node in nodes).items():
        mean_s = work_s[name] / count
        shares[name] = 1 - mean_s / most_s, 1 - mean_s / (last_s[name] or math.inf)
    return shares
