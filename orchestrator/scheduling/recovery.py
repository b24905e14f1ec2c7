"""What happens when a worker, a node, a GPU or the head of the cluster is lost.

A worker is the process on a node that runs rounds (`execution.actor.TrialActor`).

- A worker is lost: Ray Tune reports it. It may have died by itself, or with its node, which Ray
  knows some seconds later. So the node is asked for an answer, and the round waits for it
  (`LostWorker`) until one of the next two lines is known. After a minute of silence the node counts
  as present.
- The worker died and the node is present: the attempt counts, and the round is tried again on the
  same lane. After `limits.attempts` of them its trials have failed, with the reason `lost`. The
  node gets a strike; a node with three failures in a row is excluded if another one has its
  hardware.
- The node is lost: its lane is removed. What waited there goes to other nodes of its hardware. What
  ran there is tried again in the same way, and the attempt does not count as one of
  `limits.attempts`. After `limits.preemptions` such losses its trials have failed all the same:
  they may be what brings nodes down.
- The last node of some hardware is lost: an autoscaler is asked for another one, if the spec has
  labels to ask by. The rest of the sweep continues; then it waits `limits.node_wait_s`, and stops.
- A node joins: it is asked whether the frameworks of its arms can use its GPUs, and used then.
- A GPU is lost (it fell off the bus): the worker reports that before it begins a round. The round
  goes back and is not charged. The GPU is excluded, and its node if that was the last GPU there.
- A worker does not start within 5 minutes, on a node that has given it its CPUs: it counts as lost,
  or the sweep stops if this is its only node.
- The head is lost: the sweep stops after 25 seconds of silence, and can be resumed.
- Ray ends Tune's loop (its memory monitor does): all that could be running is a lost worker, and a
  new loop begins (`tune_loop.run_trials`).

A lost attempt is charged for the time that it had its slot (`storage.journal.AttemptLost`).
`RetryPolicy` decides whether a round is tried again, `UsableNodes` which nodes and GPUs are used.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.cluster.membership import Membership, NodeRequest, request_nodes
from orchestrator.core.arms import HardwareUse
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.hardware import Node
from orchestrator.planning.objectives import open_limit
from orchestrator.scheduling.gpu_answers import GpuAnswers
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.node_wait import replacements
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.usable_nodes import UsableNodes

_SILENCE_S = 25.0  # of the cluster's head; Ray ends the process some time later
_PAUSE_S = 5.0  # looks further apart show that this process stood still (Ctrl-Z, a snapshot)
_ANSWER_S = 60.0  # then a node that neither answers nor is known to be gone counts as present


@dataclass(slots=True)
class RetryPolicy:
    """How often a trial is tried again after its worker or its node was lost.

    `attempts` is how many attempts may be lost with a worker alone before the trial has failed, and
    `preemptions` how many may be lost with their nodes and still be tried again (`limits` of the
    spec). The trials of a round are lost together and tried again together.
    """

    attempts: int
    preemptions: int
    _lost: Counter[str] = field(default_factory=Counter)
    _lost_with_node: Counter[str] = field(default_factory=Counter)

    def count_loss(self, keys: Sequence[str], *, with_node: bool) -> FailureRecord | None:
        """Count a lost attempt; return None to try again, or the failure that ends the trials."""
        self._lost.update(keys)
        self._lost_with_node.update(keys if with_node else ())
        lost = max(self._lost[key] for key in keys)
        preempted = max(self._lost_with_node[key] for key in keys)
        if lost - preempted < self.attempts and preempted <= self.preemptions:
            return None
        preempted_too = f", in {preempted} of them with its node" if preempted else ""
        return FailureRecord(
            "lost",
            f"the worker was lost in all of {lost} attempts{preempted_too}"
            " (limits.attempts, limits.preemptions)",
        )


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A lost worker of which it is not known yet whether its node is lost too.

    Its trials had their slot from `began_s` to `lost_s` (UNIX). It waits since `since` (the
    recovery's clock) for an answer of the node.
    """

    assignment: Assignment
    began_s: float
    lost_s: float
    since: float


class HeadWatch:
    """The silence of the cluster's head, not counting times in which this process stood still."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looked: float | None = None
        self._awake_since = 0.0

    def expect_answer(self, silent_s: float) -> None:
        """Raise `Stopped` if the head has been silent for too long; to be called continuously."""
        now = self._clock()
        if self._looked is None or now - self._looked > _PAUSE_S:
            self._awake_since = now
        self._looked = now
        if min(silent_s, now - self._awake_since) > _SILENCE_S:
            raise Stopped(
                f"the head of the Ray cluster has not answered for {_SILENCE_S:.0f} seconds"
            )


@dataclass(slots=True)
class Recovery:
    """The part of a session that acts on losses, and keeps its lanes on the nodes that are there.

    `membership` has the plan's nodes at first, and `gpus` what these answered. With nothing else to
    do, the sweep waits `wait_s` for hardware whose last node has left. `ask_for` asks an autoscaler
    for nodes; each request replaces the one before. Other drivers may use the nodes, too, if they
    are `is_shared`.
    """

    session: Session
    membership: Membership
    wait_s: float
    gpus: GpuAnswers
    ask_for: Callable[[Sequence[NodeRequest]], object] = request_nodes
    clock: Callable[[], float] = time.monotonic
    is_shared: bool = True
    requested: list[NodeRequest] = field(default_factory=list)
    retry_policy: RetryPolicy = field(init=False)
    nodes: UsableNodes = field(init=False)
    _head: HeadWatch = field(init=False)
    _unexplained: list[LostWorker] = field(default_factory=list)
    _idle_since: float | None = None

    def __post_init__(self) -> None:
        spec, plan = self.session.spec, self.session.dispatcher.ledger.plan
        limits, warn = spec.limits, self.session.watcher.warn
        self.retry_policy = RetryPolicy(limits.attempts, limits.preemptions)
        self.nodes = UsableNodes(spec, plan, self.membership.nodes, warn, self.gpus)
        self._head = HeadWatch(self.clock)

    def lose_worker(self, assignment: Assignment, began_s: float, lost_s: float) -> None:
        """Take trials whose worker was lost; they had their slot between these times (UNIX)."""
        self.membership.ask(assignment.lane.node.id)
        self._unexplained.append(LostWorker(assignment, began_s, lost_s, self.clock()))

    def lose_gpu(self, node: Node, gpu: str) -> None:
        """Take a GPU that fell off the bus."""
        self.nodes.exclude_gpu(node, gpu)

    def count_end(self, node: Node, outcome: Outcome) -> None:
        """Count how a round ended on a node, which is excluded if it keeps failing."""
        self.nodes.count_end(node, outcome)

    def settle(self) -> None:
        """Act on what is known by now; raise `Stopped` if no hardware came for the last trials."""
        self.nodes.follow(self.membership.nodes, self.membership.unusable)
        self._settle_lost_workers()
        dispatcher = self.session.dispatcher
        if self.nodes.has_changed:
            self.nodes.has_changed = False
            lanes = self.nodes.lanes()
            limit = open_limit(self.session.spec, dispatcher.ledger.plan, lanes)
            dispatcher.set_lanes(lanes, limit)
        waiting = dispatcher.waiting_for_nodes
        self._ask_for_hardware(waiting)
        self._expect_progress(waiting)

    def expect_head(self) -> None:
        """Raise `Stopped` if the cluster's head is silent; to be called continuously."""
        self._head.expect_answer(self.membership.silent_s)

    def _settle_lost_workers(self) -> None:
        """Retry, or give up, the trials of lost workers whose nodes have answered or are gone."""
        present_ids = {node.id for node in self.membership.nodes}
        unexplained, self._unexplained = self._unexplained, []
        for lost in unexplained:
            node = lost.assignment.lane.node
            if node.id not in present_ids:
                self._end_attempt(lost, with_node=True)
            elif self.membership.has_answered(node.id) or self.clock() - lost.since > _ANSWER_S:
                self._end_attempt(lost, with_node=False)
                self.nodes.count_end(node, None)
            else:
                self._unexplained.append(lost)

    def _end_attempt(self, lost: LostWorker, *, with_node: bool) -> None:
        """Retry the trials of a lost worker, or let them fail where the retry policy says so.

        A loss `with_node` counts as a preemption, another one as one of the trial's attempts.
        """
        assignment = lost.assignment
        failure = self.retry_policy.count_loss(assignment.keys, with_node=with_node)
        if failure is None:
            self.session.retry(assignment, max(0.0, lost.lost_s - lost.began_s))
            return
        outcome = Outcome(
            "failed",
            lost.began_s,
            lost.lost_s,
            attempt=assignment.attempt,
            node=assignment.lane.node.profile.hostname,
            failure=failure,
        )
        self.session.finish(assignment, *(outcome for _ in assignment.trials))

    def _ask_for_hardware(self, waiting: Mapping[HardwareUse, int]) -> None:
        """Ask for new nodes: an autoscaler may have ended idle ones, or a cloud taken them away."""
        wanted = replacements(self.session.spec, self.session.dispatcher.ledger.plan, waiting)
        if wanted != self.requested:
            self.requested = wanted
            with contextlib.suppress(Exception):  # the sweep uses the nodes it has
                self.ask_for(wanted)

    def _expect_progress(self, waiting: Mapping[HardwareUse, int]) -> None:
        """Raise `Stopped` once nothing has run for `wait_s`, as hardware is missing."""
        if self.session.dispatcher.out or not waiting or self.nodes.is_asking:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = self.clock()
        if self.clock() - self._idle_since < self.wait_s:
            return
        if not self.membership.nodes:
            raise Stopped("the Ray cluster has lost every node that trials could run on")
        counts = ", ".join(f"{waiting[use]} on {use}" for use in sorted(waiting, key=str))
        raise Stopped(
            f"no node is left for some hardware, and none came within {self.wait_s:.0f} seconds"
            f" (limits.node_wait_s); waiting trials: {counts}"
        )
