"""Handle lost workers, and nodes that leave, join or keep failing, during a sweep.

A trial of a lost worker stays in doubt until its node answers (the worker died by itself, which
counts as an attempt) or is known to be gone (the trial was preempted, which does not). Nodes of the
plan's classes are used as they join; another class needs another start.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.cluster.membership import Membership, NodeRequest, request_nodes
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.failures import OF_A_NODE
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Outcome
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import PlannedArm, make_plan
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.node_wait import replacements
from orchestrator.scheduling.session import Session

_SILENCE_S = 25.0  # of the cluster's head; Ray ends the process some time later
_PAUSE_S = 5.0  # looks further apart show that this process stood still (Ctrl-Z, a snapshot)
_DOUBT_S = 60.0  # then a node that neither answers nor is known to be gone counts as present
_STRIKES = 3  # failed trials in a row that exclude a node, if another node has its hardware


@dataclass(slots=True)
class Recovery:
    """The part of a session that keeps its lanes on the nodes that are there.

    `membership` has the plan's nodes at first. With nothing else to do, the sweep waits `wait_s`
    for hardware whose last node has left. `ask_for` asks an autoscaler for nodes; each request
    replaces the one before.
    """

    session: Session
    membership: Membership
    wait_s: float
    ask_for: Callable[[Sequence[NodeRequest]], object] = request_nodes
    clock: Callable[[], float] = time.monotonic
    requested: list[NodeRequest] = field(default_factory=list)
    _nodes: tuple[Node, ...] = ()
    _excluded: set[str] = field(default_factory=set)
    _lost_gpus: dict[str, set[str]] = field(default_factory=dict)
    _strikes: Counter[str] = field(default_factory=Counter)
    _reported: set[str] = field(default_factory=set)
    _has_changed: bool = False
    _doubts: list[tuple[Assignment, float]] = field(default_factory=list)
    _idle_since: float | None = None
    _looked: float | None = None
    _awake_since: float = 0.0

    def __post_init__(self) -> None:
        self._nodes = self.membership.nodes

    def doubt(self, assignment: Assignment) -> None:
        """Take a trial whose worker was lost."""
        self.membership.ask(assignment.lane.node.id)
        self._doubts.append((assignment, self.clock()))

    def ended(self, node: Node, outcome: Outcome | None) -> None:
        """Count how a trial ended on a node; None if its worker was lost there."""
        failure = outcome.failure if outcome else None
        if outcome and (failure is None or failure.reason not in OF_A_NODE):
            self._strikes[node.id] = 0
            return
        self._strikes[node.id] += 1
        if self._strikes[node.id] < _STRIKES or node.id in self._excluded:
            return
        own = [group for group in self._lanes() if node.id in _ids(group)]
        if own and all(len(group.lanes) > 1 for group in own):
            self._excluded.add(node.id)
            self._has_changed = True
            self.session.watcher.warn(
                f"node {node.profile.hostname} is excluded: {self._strikes[node.id]} trials in a"
                " row failed there; other nodes have its hardware"
            )

    def exclude_gpu(self, node: Node, gpu: str) -> None:
        """Exclude a GPU that fell off the bus, and its node if that was the last one there."""
        lost = self._lost_gpus.setdefault(node.id, set())
        if gpu in lost:
            return
        lanes = [lane for group in self._lanes() for lane in group.lanes]
        lost.add(gpu)
        if all(lane.slots == 1 for lane in lanes if lane.node.id == node.id):
            self._excluded.add(node.id)
        self._has_changed = True
        self.session.watcher.warn(f"{gpu} of node {node.profile.hostname} is excluded")

    def settle(self) -> None:
        """Act on what is known by now; raise `Stopped` if no hardware came for the last trials."""
        self._follow_nodes()
        self._settle_doubts()
        blocks = self.session.blocks
        if self._has_changed:
            self._has_changed = False
            lanes = self._lanes()
            blocks.move(lanes, open_limit(self.session.spec, blocks.plan, lanes))
        stranded = blocks.stranded
        self._ask_for_hardware(stranded)
        self._expect_progress(stranded)

    def expect_head(self) -> None:
        """Raise `Stopped` if the cluster's head is silent; to be called continuously."""
        now = self.clock()
        if self._looked is None or now - self._looked > _PAUSE_S:
            self._awake_since = now
        self._looked = now
        if min(self.membership.silent_s, now - self._awake_since) > _SILENCE_S:
            raise Stopped(
                f"the head of the Ray cluster has not answered for {_SILENCE_S:.0f} seconds"
            )

    def _follow_nodes(self) -> None:
        nodes, warn = self.membership.nodes, self.session.watcher.warn
        if nodes != self._nodes:
            before, now = {node.id for node in self._nodes}, {node.id for node in nodes}
            for node in self._nodes:
                if node.id not in now:
                    warn(
                        f"node {node.profile.hostname} has left; its trials go to other nodes of"
                        " its hardware, or wait for one"
                    )
            self._has_changed |= before != now
            self._nodes = tuple(node for node in nodes if node.id in before)
            for node in nodes:
                if node.id not in before:
                    self._take_in(node)
        unusable = self.membership.unusable
        for id_ in unusable.keys() - self._reported:
            self._reported.add(id_)
            warn(
                f"a node has joined and is not used, as it cannot run rnnsweep: {unusable[id_]}."
                " Every node needs its dependencies, in the Python that Ray runs in"
            )

    def _take_in(self, node: Node) -> None:
        """Use a node that has joined, unless an arm could then not run where it runs now."""
        used = self._used_nodes()
        self._nodes = (*self._nodes, node)
        reason = ""
        if self._arms_on(used).keys() - self._arms_on([*used, node]).keys():
            self._excluded.add(node.id)
            reason = "it has fewer CPUs than a trial takes (arms.hardware)"
        elif not any(node.id in _ids(group) for group in self._lanes()):
            classes = ", ".join(hardware_class.name for hardware_class in classify([node]))
            reason = (
                f"no arm of this start runs on {classes}; run the same command again after this"
                " start to plan with that node"
            )
        unused = f" and is not used: {reason}" if reason else ""
        self.session.watcher.warn(f"node {node.profile.hostname} has joined{unused}")

    def _used_nodes(self) -> list[Node]:
        return [node for node in self._nodes if node.id not in self._excluded]

    def _arms_on(self, nodes: Iterable[Node]) -> dict[Arm, PlannedArm]:
        plan = make_plan(self.session.spec, classify(nodes))
        return {planned.arm: planned for planned in plan.possible}

    def _lanes(self) -> tuple[LaneGroup, ...]:
        arms_here = self._arms_on(self._used_nodes())
        arms = tuple(
            arms_here.get(planned.arm)
            or replace(planned, hardware=replace(planned.hardware, nodes=()))
            for planned in self.session.blocks.plan.possible
        )
        lost = {id_: len(gpus) for id_, gpus in self._lost_gpus.items()}
        return make_lanes(replace(self.session.blocks.plan, possible=arms), lost)

    def _settle_doubts(self) -> None:
        present_ids = {node.id for node in self.membership.nodes}
        open_doubts = []
        for assignment, since in self._doubts:
            node = assignment.lane.node
            if node.id not in present_ids:
                self.session.lose(assignment, preempted=True)
            elif self.membership.has_answered(node.id) or self.clock() - since > _DOUBT_S:
                self.session.lose(assignment)
                self.ended(node, None)
            else:
                open_doubts.append((assignment, since))
        self._doubts = open_doubts

    def _ask_for_hardware(self, stranded: Mapping[HardwareUse, int]) -> None:
        """Ask for new nodes: an autoscaler may have ended idle ones, or a cloud taken them away."""
        wanted = replacements(self.session.spec, self.session.blocks.plan, stranded)
        if wanted != self.requested:
            self.requested = wanted
            with contextlib.suppress(Exception):  # the sweep uses the nodes it has
                self.ask_for(wanted)

    def _expect_progress(self, stranded: Mapping[HardwareUse, int]) -> None:
        if self.session.blocks.out or not stranded:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = self.clock()
        if self.clock() - self._idle_since < self.wait_s:
            return
        if not self.membership.nodes:
            raise Stopped("the Ray cluster has lost every node that trials could run on")
        waiting = ", ".join(f"{stranded[use]} on {use}" for use in sorted(stranded, key=str))
        raise Stopped(
            f"no node is left for some hardware, and none came within {self.wait_s:.0f} seconds"
            f" (limits.node_wait_s); trials that wait: {waiting}"
        )


def _ids(group: LaneGroup) -> set[str]:
    return {lane.node.id for lane in group.lanes}
