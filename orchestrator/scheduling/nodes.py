"""The nodes of a running sweep, as they leave, join and fail.

Nodes of the plan's classes are used as they come. A class that the plan does not have needs
another start, because its arms belong to every block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Outcome
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.plan import Plan, PlannedArm, make_plan
from orchestrator.spec import SweepSpec

_STRIKES = 3
"""After so many failed trials in a row a node is excluded, if another node has its hardware."""

_OF_A_NODE = ("crash", "data", "lost", "not_possible", "out_of_memory", "hung")
"""Failures that the node may have caused, and not the trial."""


@dataclass(slots=True)
class Fleet:
    """The nodes that trials may be sent to.

    Args:
        spec: decides which hardware a node counts as.
        plan: of this start; its arms stay the same.
        nodes: those of the plan.
        warn: shows the user which nodes joined, left or are excluded.
    """

    spec: SweepSpec
    plan: Plan
    nodes: tuple[Node, ...]
    warn: Callable[[str], None]
    _left_out: set[str] = field(default_factory=set)
    _strikes: Counter[str] = field(default_factory=Counter)
    _reported: set[str] = field(default_factory=set)
    _news: bool = False

    @property
    def lanes(self) -> tuple[LaneGroup, ...]:
        """Return the lanes of the nodes that are in use now."""
        arms_here = self._arms_on(node for node in self.nodes if node.id not in self._left_out)
        absent = {
            planned.arm: replace(planned, hardware=replace(planned.hardware, nodes=()))
            for planned in self.plan.possible
        }
        arms = tuple(arms_here.get(arm, absent[arm]) for arm in self.plan.arms)
        return make_lanes(replace(self.plan, possible=arms))

    def take(self, nodes: Sequence[Node]) -> None:
        """Take the nodes that the cluster has now."""
        before, now = {node.id for node in self.nodes}, {node.id for node in nodes}
        for node in self.nodes:
            if node.id not in now:
                self.warn(
                    f"node {node.profile.hostname} has left; its trials go to other nodes of"
                    " its hardware, or wait for one"
                )
        joined = [node for node in nodes if node.id not in before]
        self.nodes = tuple(node for node in nodes if node.id in before)
        for node in joined:
            self._take_in(node)
        self._news = self._news or before != now

    def report_unusable(self, unusable: Mapping[str, str]) -> None:
        """Warn once of each node that has joined and could not be probed, with the reason."""
        for id_ in unusable.keys() - self._reported:
            self._reported.add(id_)
            self.warn(
                f"a node has joined and is not used, as it cannot run rnnsweep: {unusable[id_]}."
                " Every node needs its dependencies, in the Python that Ray runs in"
            )

    def ended(self, node: Node, outcome: Outcome | None) -> None:
        """Count how a trial ended on a node; None if its worker was lost there."""
        failed = outcome is None or (
            outcome.failure is not None and outcome.failure.reason in _OF_A_NODE
        )
        if not failed:
            self._strikes[node.id] = 0
            return
        self._strikes[node.id] += 1
        if self._strikes[node.id] < _STRIKES or node.id in self._left_out:
            return
        if not self._others_have_hardware_of(node):
            return
        self._left_out.add(node.id)
        self._news = True
        self.warn(
            f"node {node.profile.hostname} is excluded: {self._strikes[node.id]} trials in a row"
            " failed there; other nodes have its hardware"
        )

    def news(self) -> tuple[LaneGroup, ...] | None:
        """Return the new lanes, once after each change; None if nothing changed."""
        if not self._news:
            return None
        self._news = False
        return self.lanes

    def _take_in(self, node: Node) -> None:
        """Use a node that has joined, unless an arm could then not run where it runs now."""
        used = [node for node in self.nodes if node.id not in self._left_out]
        self.nodes = (*self.nodes, node)
        if self._arms_on(used).keys() - self._arms_on([*used, node]).keys():
            self._left_out.add(node.id)
            reason: str | None = "it has fewer CPUs than a trial takes (arms.hardware)"
        else:
            reason = self._idle_reason(node)
        unused = f" and is not used: {reason}" if reason else ""
        self.warn(f"node {node.profile.hostname} has joined{unused}")

    def _arms_on(self, nodes: Iterable[Node]) -> dict[Arm, PlannedArm]:
        return {planned.arm: planned for planned in make_plan(self.spec, classify(nodes)).possible}

    def _idle_reason(self, node: Node) -> str | None:
        """Return why nothing runs on a node that has joined; None if trials run there."""
        if any(lane.node.id == node.id for group in self.lanes for lane in group.lanes):
            return None
        classes = ", ".join(hardware_class.name for hardware_class in classify([node]))
        return (
            f"no arm of this start runs on {classes}; run the same command again after this start"
            " to plan with that node"
        )

    def _others_have_hardware_of(self, node: Node) -> bool:
        mine = [
            group for group in self.lanes if any(lane.node.id == node.id for lane in group.lanes)
        ]
        return bool(mine) and all(len(group.lanes) > 1 for group in mine)
