"""The nodes and GPUs that a session uses: nodes that leave, join, or keep failing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.core.arms import Arm
from orchestrator.core.failure_limit import OF_A_NODE
from orchestrator.core.trial import Outcome
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.plan import Plan, PlannedArm, make_plan
from orchestrator.scheduling.gpu_answers import GpuAnswers
from orchestrator.spec import SweepSpec

_MOST_FAILURES = 3  # in a row on one node; then it is excluded, if another node has its hardware


@dataclass(slots=True)
class UsableNodes:
    """The present nodes of the plan's hardware classes, without those that are excluded.

    `has_changed` is set when the lanes are to be made again, with `lanes`. `warn` shows a line to
    the user. `gpus` has what nodes answered about their GPUs; a node that joins is used after it.
    """

    spec: SweepSpec
    plan: Plan
    nodes: tuple[Node, ...]
    warn: Callable[[str], None]
    gpus: GpuAnswers
    has_changed: bool = False
    _excluded: set[str] = field(default_factory=set)
    _lost_gpus: dict[str, set[str]] = field(default_factory=dict)
    _failures_in_a_row: Counter[str] = field(default_factory=Counter)
    _reported: set[str] = field(default_factory=set)

    def lanes(self) -> tuple[LaneGroup, ...]:
        """Return the lanes of the plan's arms on the nodes of now; an arm may have none."""
        arms_here = self._arms_on(self._used())
        arms = tuple(
            arms_here.get(planned.arm)
            or replace(planned, hardware=replace(planned.hardware, nodes=()))
            for planned in self.plan.possible
        )
        lost = {id_: len(gpus) for id_, gpus in self._lost_gpus.items()}
        return make_lanes(replace(self.plan, possible=arms), lost)

    def count_end(self, node: Node, outcome: Outcome | None) -> None:
        """Count how a round ended on a node, by the outcome of its best trial.

        None if its worker was lost there. A node on which three rounds in a row failed in a way
        that may be the node's fault is excluded, if other nodes have all of its hardware.
        """
        failure = outcome.failure if outcome else None
        if outcome and (failure is None or failure.reason not in OF_A_NODE):
            self._failures_in_a_row[node.id] = 0
            return
        self._failures_in_a_row[node.id] += 1
        count = self._failures_in_a_row[node.id]
        if count < _MOST_FAILURES or node.id in self._excluded:
            return
        its_groups = [group for group in self.lanes() if node.id in _node_ids(group)]
        if its_groups and all(len(group.lanes) > 1 for group in its_groups):
            self._excluded.add(node.id)
            self.has_changed = True
            self.warn(
                f"node {node.profile.hostname} is excluded, because {count} rounds in a row failed"
                " there; other nodes have the same hardware"
            )

    def exclude_gpu(self, node: Node, gpu: str) -> None:
        """Exclude a GPU that fell off the bus, and its node if that was the last one there."""
        lost = self._lost_gpus.setdefault(node.id, set())
        if gpu in lost:
            return
        lanes = [lane for group in self.lanes() for lane in group.lanes]
        lost.add(gpu)
        if all(lane.slots == 1 for lane in lanes if lane.node.id == node.id):
            self._excluded.add(node.id)
        self.has_changed = True
        self.warn(f"{gpu} of node {node.profile.hostname} is excluded")

    def follow(self, present: Sequence[Node], unusable: Mapping[str, str]) -> None:
        """Take the cluster's nodes of now, and the new nodes that cannot be used, with reasons."""
        if tuple(present) != self.nodes:
            self._replace_nodes(present)
        answered = self.gpus.take_answered()
        for node in self.nodes:
            if node.id in answered:
                self._use_if_possible(node)
        for node_id in unusable.keys() - self._reported:
            self._reported.add(node_id)
            self.warn(
                f"a node has joined, but cannot run rnnsweep: {unusable[node_id]}. Install its"
                " dependencies there, in the Python that runs Ray"
            )

    def _replace_nodes(self, present: Sequence[Node]) -> None:
        """Give up the nodes that have left, with a warning, and consider each that has joined."""
        ids_before, ids_now = {node.id for node in self.nodes}, {node.id for node in present}
        for node in self.nodes:
            if node.id not in ids_now:
                self.warn(
                    f"node {node.profile.hostname} has left; its trials move to a node with the"
                    " same hardware, or wait for one"
                )
        self.has_changed |= ids_before != ids_now
        self.nodes = tuple(node for node in present if node.id in ids_before)
        for node in present:
            if node.id not in ids_before:
                self.nodes = (*self.nodes, node)
                if not self.gpus.begin(node, self._plan_on(node)):
                    self._use_if_possible(node)

    @property
    def is_asking(self) -> bool:
        """Whether a node that has joined is not used yet, since its GPUs are being asked about."""
        return any(map(self.gpus.is_waiting_for, self.nodes))

    def _use_if_possible(self, node: Node) -> None:
        """Use a node that has joined, unless an arm could then not run where it runs now."""
        self.has_changed = True
        used_before = [other for other in self._used() if other.id != node.id]
        reason = ""
        if self._arms_on(used_before).keys() - self._arms_on([*used_before, node]).keys():
            self._excluded.add(node.id)
            reason = "it has fewer CPUs than a trial needs (arms.hardware)"
        elif not any(node.id in _node_ids(group) for group in self.lanes()):
            classes = ", ".join(hardware_class.name for hardware_class in classify([node]))
            reason = (
                f"no arm of this start runs on {classes}; to use it, run the same command again"
                " afterwards"
            )
        blind = self.gpus.describe(node)
        if reason:
            reason = f" and is not used: {blind or reason}"
        elif blind:
            reason = f"; {blind}"
        self.warn(f"node {node.profile.hostname} has joined{reason}")

    def _used(self) -> list[Node]:
        """Return the nodes that are neither excluded nor being asked."""
        return [
            node
            for node in self.nodes
            if node.id not in self._excluded and not self.gpus.is_waiting_for(node)
        ]

    def _plan_on(self, node: Node) -> Plan:
        """Return the part of this start's plan that could run on a node."""
        plan = make_plan(self.spec, classify([node]))
        possible = tuple(planned for planned in plan.possible if planned.arm in self.plan.arms)
        return replace(plan, possible=possible)

    def _arms_on(self, nodes: Iterable[Node]) -> dict[Arm, PlannedArm]:
        """Return the arms that a plan on these nodes alone can run."""
        plan = make_plan(self.spec, classify(nodes), unusable=self.gpus.unusable)
        return {planned.arm: planned for planned in plan.possible}


def _node_ids(group: LaneGroup) -> set[str]:
    return {lane.node.id for lane in group.lanes}
