"""Where trials run: lanes of work, one per node, and their Ray resources and labels.

Arms that exclude each other on a node share one placement shape: Tune starts pending trials of
unlike shapes in arbitrary order, and an arm's place in its block's random order would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.hardware import HardwareClass, Node
from orchestrator.plan import Plan

if TYPE_CHECKING:
    from ray.tune import PlacementGroupFactory


@dataclass(frozen=True, slots=True)
class Lane:
    """A node's queue of trials: `slots` run at once, each with so many CPUs and GPUs to itself."""

    node: Node
    cpus: int
    gpus: int = 0
    slots: int = 1

    @property
    def bundle(self) -> dict[str, float]:
        """What one trial reserves, in Ray's terms."""
        return {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Hardware classes that live on the same nodes, and a lane for each of these nodes."""

    hardware: frozenset[str]
    lanes: tuple[Lane, ...]


def make_lanes(plan: Plan) -> tuple[LaneGroup, ...]:
    """One group of lanes for each set of nodes that the plan's arms run on.

    The CPU arm and the GPU arm of one machine take turns on one lane that reserves all of its
    CPUs and one GPU. GPU arms alone run on all GPUs of a node at once, each with its share of
    the CPUs.
    """
    by_nodes: dict[frozenset[str], list[HardwareClass]] = {}
    for planned in plan.possible:
        key = frozenset(node.id for node in planned.hardware.nodes)
        members = by_nodes.setdefault(key, [])
        if planned.hardware not in members:
            members.append(planned.hardware)
    return tuple(
        LaneGroup(
            frozenset(each.name for each in classes),
            tuple(_lane(node, classes) for node in classes[0].nodes),
        )
        for classes in by_nodes.values()
    )


def placement_group(node_id: str, bundle: Mapping[str, float]) -> PlacementGroupFactory:
    """One bundle on one node, found by the label that every Ray node carries."""
    from ray import tune  # noqa: PLC0415  (seconds that `plan` and `--help` do without)

    selector = {"ray.io/node-id": node_id}
    return tune.PlacementGroupFactory([dict(bundle)], bundle_label_selector=[selector])


def _lane(node: Node, classes: list[HardwareClass]) -> Lane:
    devices = {each.device for each in classes}
    if devices == {"cpu"}:
        return Lane(node, node.cpus)
    if "cpu" in devices:
        return Lane(node, node.cpus, gpus=1)
    slots = min(node.gpus, node.cpus)  # each slot holds a CPU at least
    return Lane(node, node.cpus // slots, gpus=1, slots=slots)
