"""Waiting, before the first block, for nodes of a spec that an autoscaler could start."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from orchestrator.cluster.membership import NodeRequest
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.selectors import carries, selects
from orchestrator.core.trial import Block, FinishedTrial
from orchestrator.hardware import HardwareClass, Node, classify
from orchestrator.planning.plan import AwaitedArm, Plan, PlannedArm, awaited_entries
from orchestrator.spec import HardwareEntry, SweepSpec

_LOOK_S = 0.5
_ACCELERATOR = "ray.io/accelerator-type"
_CPU_WORDS = (
    "cpu",
    "epyc",
    "ryzen",
    "threadripper",
    "opteron",
    "xeon",
    "intel",
    "core(tm)",
    "processor",
    "neoverse",
    "cortex",
    "graviton",
    "altra",
    "aarch64",
    "x86",
    "apple",
)


def wait_for_nodes(
    spec: SweepSpec,
    nodes: Callable[[], Iterable[Node]],
    *,
    check: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Node, ...]:
    """Wait for the awaited entries' nodes, as long as they allow; `check` may end it by raising."""
    began_s = clock()
    while True:
        check()
        present = tuple(nodes())
        awaited = awaited_entries(spec, classify(present))
        if all(clock() - began_s >= (entry.wait_s or 0.0) for entry in awaited):
            return present
        sleep(_LOOK_S)


def requests(
    awaited: Iterable[AwaitedArm], hardware: Sequence[HardwareClass] = ()
) -> list[NodeRequest]:
    """Return what to ask an autoscaler for: a node for each awaited entry that has labels."""
    # `hardware` are the classes that are there, on nodes with other labels.
    entries = {str(arm.entry): arm.entry for arm in awaited if arm.entry.labels}
    return [
        (_resources(entry, on_gpu=needs_gpu(entry, hardware)), dict(entry.labels))
        for entry in entries.values()
    ]


def replacements(
    spec: SweepSpec, plan: Plan, hardware: Collection[HardwareUse]
) -> list[NodeRequest]:
    """Return what to ask an autoscaler for in place of the lost nodes of some `hardware`."""
    lost = [planned for planned in plan.possible if planned.arm.hardware in hardware]
    wanted: list[NodeRequest] = []
    for entry in spec.hardware:
        devices = {planned.arm.device for planned in lost if _is_on_hardware_of(planned, entry)}
        if entry.labels and devices:
            wanted.append((_resources(entry, on_gpu="gpu" in devices), dict(entry.labels)))
    return wanted


def _is_on_hardware_of(planned: PlannedArm, entry: HardwareEntry) -> bool:
    """Return whether an arm is on hardware that an entry of the spec means."""
    return (
        planned.arm.usage == entry.usage
        and (entry.selector is None or planned.hardware.matches(entry.selector))
        and any(carries(node.labels, entry.labels) for node in planned.hardware.nodes)
    )


def needs_gpu(entry: HardwareEntry, hardware: Sequence[HardwareClass]) -> bool:
    """Return whether an entry of `arms.hardware` that matches no node yet needs a GPU.

    The first rule that applies decides. `cpus` or `class: gpu` needs one, `class: cpu` does not.
    Without a class, an accelerator label does. A class that other nodes have, with other labels,
    needs its device. A class named with a word for CPUs (`epyc`, `16 CPUs`) needs none; a name in
    parentheses does not count. Any other class needs one, such as `*H200*`.
    """
    if entry.cpus is not None:
        return True
    if entry.selector is None:
        condition = entry.labels.get(_ACCELERATOR)
        return condition is not None and not condition.startswith("!")
    name = entry.selector.lower()
    if name in ("cpu", "gpu"):
        return name == "gpu"
    if devices := {there.device for there in hardware if there.matches(name)}:
        return "gpu" in devices
    return not any(word in name.partition(" (")[0] for word in _CPU_WORDS)


def _resources(entry: HardwareEntry, *, on_gpu: bool) -> Mapping[str, float]:
    """Return what one trial of the entry takes, as Ray's autoscaler is asked for it."""
    cpus = float(entry.cpus or entry.threads or 1)
    return {"CPU": cpus, "GPU": 1.0} if on_gpu else {"CPU": cpus}


def arms_worth_waiting_for(
    plan: Plan, history: Iterable[Block | FinishedTrial]
) -> tuple[AwaitedArm, ...]:
    """Return the awaited arms of which some trial may be missing."""
    # The class of an awaited arm is not known yet: nothing of it is missing if earlier starts ran
    # all of its trials on hardware that is absent now.
    done: dict[Arm, set[tuple[int, int]]] = {}
    for trial in (event.trial for event in history if isinstance(event, FinishedTrial)):
        if trial.arm not in plan.arms and plan.has_slot(trial):
            done.setdefault(trial.arm, set()).add((trial.block, trial.repeat))
    whole = [arm for arm, trials in done.items() if len(trials) == plan.blocks * plan.repeats]
    return tuple(
        awaited for awaited in plan.awaited if not any(_could_be(awaited, arm) for arm in whole)
    )


def _could_be(awaited: AwaitedArm, arm: Arm) -> bool:
    """Return whether an arm of earlier starts may be an awaited one."""
    entry = awaited.entry
    return (
        arm.short_name == awaited.arm.short_name
        and arm.usage == entry.usage
        and (entry.selector is None or selects(entry.selector, arm.hardware_class))
    )
