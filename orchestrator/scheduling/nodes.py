"""The nodes that a running sweep works on, as they leave, join and fail.

Nodes of the classes that the plan names are used as they come; a class that the plan does not
have needs another start, because its arms belong to every block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.core.trial import Arm, Outcome
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.plan import Plan, PlannedArm, make_plan
from orchestrator.spec import SweepSpec

_STRIKES = 3
"""So many trials in a row that fail on a node leave it out, where another node has its hardware."""

_OF_A_NODE = ("crash", "data", "lost", "not_possible", "out_of_memory", "hung")
"""Failures that may be the node's and not the trial's."""


@dataclass(slots=True)
class Fleet:
    """Which nodes trials may be sent to.

    Args:
        spec: decides which hardware a node may stand for.
        plan: of this start; its arms stay the same.
        nodes: those of the plan.
        warn: tells the user what came, went, or is left out.
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
        """The lanes of the nodes that are in use now."""
        there = self._arms_on(node for node in self.nodes if node.id not in self._left_out)
        absent = {
            planned.arm: replace(planned, hardware=replace(planned.hardware, nodes=()))
            for planned in self.plan.possible
        }
        arms = tuple(there.get(arm, absent[arm]) for arm in self.plan.arms)
        return make_lanes(replace(self.plan, possible=arms))

    def take(self, nodes: Sequence[Node]) -> None:
        """The nodes that the cluster has now."""
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
        """Say, once of each, which nodes have joined and could not be probed, and why."""
        for id_ in unusable.keys() - self._reported:
            self._reported.add(id_)
            self.warn(
                f"a node has joined and is not used, as it cannot run rnnsweep: {unusable[id_]}."
                " Every node needs its dependencies, in the Python that Ray runs in"
            )

    def ended(self, node: Node, outcome: Outcome | None) -> None:
        """Note how a trial ended on a node; None where its worker was lost there."""
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
            f"node {node.profile.hostname} is left out: {self._strikes[node.id]} trials in a row"
            " failed there; other nodes have its hardware"
        )

    def news(self) -> tuple[LaneGroup, ...] | None:
        """The lanes to go on with, once after each change; None where nothing changed."""
        if not self._news:
            return None
        self._news = False
        return self.lanes

    def _take_in(self, node: Node) -> None:
        """Use a node that has joined, unless an arm could then not go on where it runs now."""
        used = [node for node in self.nodes if node.id not in self._left_out]
        self.nodes = (*self.nodes, node)
        if self._arms_on(used).keys() - self._arms_on([*used, node]).keys():
            self._left_out.add(node.id)
            why = " and is not used: it has fewer CPUs than a trial takes (arms.hardware)"
        else:
            why = self._why_idle(node)
        self.warn(f"node {node.profile.hostname} has joined{why}")

    def _arms_on(self, nodes: Iterable[Node]) -> dict[Arm, PlannedArm]:
        return {planned.arm: planned for planned in make_plan(self.spec, classify(nodes)).possible}

    def _why_idle(self, node: Node) -> str:
        """Where nothing runs on a node that has joined."""
        if any(lane.node.id == node.id for group in self.lanes for lane in group.lanes):
            return ""
        classes = ", ".join(hardware_class.name for hardware_class in classify([node]))
        return (
            f" and is not used: no arm of this start runs on {classes}; the same command, run"
            " again, lays its plan anew"
        )

    def _others_have_hardware_of(self, node: Node) -> bool:
        mine = [
            group for group in self.lanes if any(lane.node.id == node.id for lane in group.lanes)
        ]
        return bool(mine) and all(len(group.lanes) > 1 for group in mine)
