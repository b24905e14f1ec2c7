"""Waiting for nodes that a spec names and that are not there yet, before the first block.

A class that an autoscaler could still start has no node to probe: it is told by Ray's labels, asked
for, and waited for as long as the spec says. Then the plan is laid anew, on what has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from orchestrator.cluster.autoscaler import Request
from orchestrator.core.arms import HardwareUse
from orchestrator.core.labels import carries
from orchestrator.core.names import selects
from orchestrator.core.trial import Arm, Block, FinishedTrial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import AwaitedArm, Plan, make_plan
from orchestrator.spec import HardwareEntry, SweepSpec

_LOOK_S = 0.5


class Presence(Protocol):
    """Who is there (see `membership`)."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that are there, each with its profile."""


def wait_for_nodes(
    spec: SweepSpec,
    presence: Presence,
    *,
    check: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """Wait until every arm that the spec waits for has a node, or its time is up.

    Args:
        spec: the sweep.
        presence: tells the nodes that are there.
        check: called between looks; what it raises ends the waiting.
        clock: seconds, from anywhere.
        sleep: waits so many seconds.

    Returns:
        The plan for the nodes that are there then.
    """
    began_s = clock()
    while True:
        check()
        classes = classify(presence.nodes)
        awaited = make_plan(spec, classes, "to come").awaited
        if all(clock() - began_s >= each.wait_s for each in awaited):
            return make_plan(spec, classes, "over")
        sleep(_LOOK_S)


def requests(awaited: Iterable[AwaitedArm]) -> list[Request]:
    """What to ask an autoscaler for: a node for each entry that has labels to know it by."""
    entries: list[HardwareEntry] = []
    for each in awaited:
        if each.entry.labels and each.entry not in entries:
            entries.append(each.entry)
    return [(_resources(entry), dict(entry.labels)) for entry in entries]


def replacements(spec: SweepSpec, plan: Plan, hardware: Collection[HardwareUse]) -> list[Request]:
    """What to ask an autoscaler for in the place of nodes that have left.

    Args:
        spec: whose entries have the labels to know such nodes by.
        plan: of this start, with the nodes that were there.
        hardware: that has no node any more, as arms name it.
    """
    gone = [
        node
        for planned in plan.possible
        if planned.arm.hardware in hardware
        for node in planned.hardware.nodes
    ]
    return [
        (_resources(entry), dict(entry.labels))
        for entry in spec.hardware
        if entry.labels and any(carries(node.labels, entry.labels) for node in gone)
    ]


def _resources(entry: HardwareEntry) -> Mapping[str, float]:
    wants_gpu = (
        entry.selector == "gpu" or entry.cpus is not None or _ACCELERATOR in entry.labels
    ) and entry.selector != "cpu"
    cpus = float(entry.cpus or entry.threads or 1)
    return {"CPU": cpus, "GPU": 1.0} if wants_gpu else {"CPU": cpus}


_ACCELERATOR = "ray.io/accelerator-type"


def arms_worth_waiting_for(
    plan: Plan, past: Iterable[Block | FinishedTrial]
) -> tuple[AwaitedArm, ...]:
    """The awaited arms of which some trial may be missing.

    What class a node will be is not known before it is there. An arm is taken as done where
    earlier starts did all of its trials on hardware that it could mean and that no node has now.
    """
    done: dict[Arm, set[tuple[int, int]]] = {}
    for trial in (each.trial for each in past if isinstance(each, FinishedTrial)):
        if trial.arm not in plan.arms and plan.has_slot(trial):
            done.setdefault(trial.arm, set()).add((trial.block, trial.repeat))
    whole = [arm for arm, trials in done.items() if len(trials) == plan.blocks * plan.repeats]
    return tuple(each for each in plan.awaited if not any(_could_be(each, arm) for arm in whole))


def _could_be(awaited: AwaitedArm, arm: Arm) -> bool:
    entry = awaited.entry
    return (
        arm.implementation == awaited.arm.implementation
        and arm.usage == entry.usage
        and (entry.selector is None or selects(entry.selector, arm.hardware_class))
    )
