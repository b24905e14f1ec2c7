"""Lanes of work, one per node, with their Ray resources and labels.

Tune starts pending trials of different shapes in arbitrary order. So rounds that exclude each other
on a node share one placement shape, or wait until the device's turn comes: their order is kept.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from orchestrator.core.arms import Arm, Usage
from orchestrator.hardware import Node
from orchestrator.planning.plan import Plan, PlannedArm
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Lane:
    """The queue of rounds of a node: `slots` run at once, each with its own CPUs and GPUs.

    A CPU arm on a node with several GPUs `takes_turns` with their arms: at work are either as many
    rounds on GPUs as there are slots, or one round on the CPU, which has the whole node. Each of
    `lost` GPUs keeps the CPUs of a slot.
    """

    node: Node
    cpus: int
    gpus: int = 0
    slots: int = 1
    takes_turns: bool = False
    lost: int = 0

    def bundle(self, device: Device) -> dict[str, float]:
        """Return what one round on this device reserves, as Ray resources."""
        if device == "cpu" and self.takes_turns:
            return {"CPU": self.node.cpus - self.lost * self.cpus}
        return {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    def room(self, device: Device) -> int:
        """Return how many rounds on this device run at once."""
        return 1 if device == "cpu" else self.slots

    def cpus_used(self, arm: Arm) -> int | None:
        """Return how many CPUs the arm's trainer may keep busy here; None for all of the node's."""
        usage = arm.usage
        if usage.threads is not None:
            return usage.threads
        if arm.device == "cpu":
            return None
        share = _share(self.node, usage)
        return share if share < _usable(self.node) else None


@dataclass(frozen=True, slots=True, eq=False)
class LaneGroup:
    """Arms that run on the same nodes, and a lane for each of these nodes.

    A node of several such groups has one lane, which is in each of them. Arms of one hardware may
    be in several groups: a framework that cannot use a node's GPU runs on the other nodes only.
    """

    arms: frozenset[Arm]
    lanes: tuple[Lane, ...]


def make_lanes(plan: Plan, lost: Mapping[str, int] | None = None) -> tuple[LaneGroup, ...]:
    """Return one group of lanes for each set of nodes that the plan's arms run on.

    `lost` are numbers of GPUs that fell off the bus since the start, by node.
    GPU arms run on all GPUs of a node at once, each with its share of the CPUs. On a machine with
    one GPU the CPU and the GPU arm share one shape, and are in one round; with several GPUs their
    rounds take turns.
    """
    arms: dict[str, list[PlannedArm]] = defaultdict(list)
    on_nodes: dict[frozenset[str], set[Arm]] = defaultdict(set)
    for planned in plan.possible:
        for node in planned.hardware.nodes:
            arms[node.id].append(planned)
        on_nodes[frozenset(node.id for node in planned.hardware.nodes)].add(planned.arm)
    nodes = {node.id: node for planned in plan.possible for node in planned.hardware.nodes}
    lanes = {id_: _lane(node, arms[id_], (lost or {}).get(id_, 0)) for id_, node in nodes.items()}
    return tuple(
        LaneGroup(frozenset(its_arms), tuple(lane for id_, lane in lanes.items() if id_ in ids))
        for ids, its_arms in on_nodes.items()
    )


@lru_cache(maxsize=256)
def count_lanes(groups: tuple[LaneGroup, ...]) -> int:
    """Return how many lanes some groups have."""
    return len({lane.node.id for group in groups for lane in group.lanes})


def _lane(node: Node, arms: Sequence[PlannedArm], lost: int) -> Lane:
    on_gpus = [planned for planned in arms if planned.hardware.device == "gpu"]
    if not on_gpus:
        return Lane(node, node.cpus)
    cpus = max(_share(node, planned.arm.usage) for planned in on_gpus)
    slots = max(1, min(node.gpus, _usable(node) // cpus) - lost)
    is_mixed = len(on_gpus) < len(arms)
    if is_mixed and slots == 1 and not lost:
        return Lane(node, node.cpus, gpus=1)
    return Lane(node, cpus, gpus=1, slots=slots, takes_turns=is_mixed, lost=lost)


def _share(node: Node, usage: Usage) -> int:
    """Return the CPUs of a GPU trial: as it asks for, or the node's divided by its GPUs."""
    usable = _usable(node)
    return usage.cpus or usable // min(node.gpus, usable)  # a GPU has a CPU at least


def _usable(node: Node) -> int:
    """Return the CPUs that trials may share: Ray may be configured with more than there are."""
    return min(node.cpus, node.profile.cpus)
