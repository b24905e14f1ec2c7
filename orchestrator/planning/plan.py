"""The plan of a sweep: what will run where, what cannot and why, from the spec and the nodes."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from orchestrator.core.arms import Arm, HardwareUse, RequestedArm
from orchestrator.core.caller import as_typed
from orchestrator.core.criteria import AutoBlocks, Timing
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    ImpossibleArm,
    Trial,
    canonical,
    count_spared,
)
from orchestrator.hardware import HardwareClass, Node
from orchestrator.planning import feasibility
from orchestrator.spec import HardwareEntry, SweepSpec
from orchestrator.spec.sections import FEWEST_BLOCKS


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """An arm that can run, and its hardware class with the nodes that the spec's labels match."""

    arm: Arm
    hardware: HardwareClass


@dataclass(frozen=True, slots=True)
class UnusableGpu:
    """GPUs of a node that a framework cannot use, and its reason.

    `name` is the backend, or one implementation of it that cannot be used there.
    """

    node_id: str
    name: str
    reason: str

    def concerns(self, implementation: str) -> bool:
        """Return whether an implementation cannot be used."""
        return self.name in (implementation, implementation.partition("/")[0])


@dataclass(frozen=True, slots=True)
class AwaitedArm:
    """An arm for which no node has joined yet, and the spec's entry that waits for one."""

    arm: RequestedArm
    entry: HardwareEntry


@dataclass(frozen=True, slots=True)
class Plan:
    """Arms that can run, in the spec's order, arms that cannot, and the sweep's size.

    `listed` are the configs of a list or a grid. `skipped_blocks` are blocks of earlier starts
    whose configs the spec no longer has (see `resumed_from`). `fresh_trainer_reason` is
    why each trial has a trainer process of its own; None if trainers stay warm. `awaited` arms
    become possible or impossible at the end of the wait. With `auto`, `blocks` is the maximum.
    `ending` is whether the number of blocks is fixed, `open` (a rule may stop the sweep before its
    last block) or `decided` (a rule has).
    `timing` is how long slices are, and when rounds of timing arms end.
    """

    possible: tuple[PlannedArm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    listed: tuple[Config, ...] = ()
    skipped_blocks: frozenset[int] = frozenset()
    fresh_trainer_reason: str | None = None
    awaited: tuple[AwaitedArm, ...] = ()
    auto: AutoBlocks | None = None
    timing: Timing = field(default_factory=Timing)
    ending: Literal["fixed", "open", "decided"] = "fixed"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Return the arms that can run."""
        return tuple(planned.arm for planned in self.possible)

    @property
    def trials(self) -> int:
        """Blocks × arms × repeats."""
        return self.blocks * len(self.possible) * self.repeats

    @property
    def can_decide(self) -> bool:
        """Whether the sweep has enough configs, or repeats of its only one, for a verdict.

        True if there is nothing to compare.
        """
        if len(self.possible) + len(self.awaited) < 2:
            return True
        return (self.repeats if self.blocks == 1 else self.blocks) >= FEWEST_BLOCKS

    @property
    def index_count(self) -> int:
        """Return one more than the index of the last block: the blocks, and the skipped ones."""
        return self.blocks + len(self.skipped_blocks)

    def has_block(self, index: int) -> bool:
        """Return whether the block of this index is one of the plan's."""
        return index < self.index_count and index not in self.skipped_blocks

    def has_slot(self, trial: Trial) -> bool:
        """Return whether a trial's block and repeat are the plan's, whatever its arm."""
        return self.has_block(trial.block) and trial.repeat < self.repeats

    def includes(self, trial: Trial) -> bool:
        """Return whether a trial is one of the plan's: there may be fewer arms or blocks now."""
        return trial.arm in self.arms and self.has_slot(trial)

    def count_missing(self, finished: Iterable[FinishedTrial]) -> int:
        """Count the trials without an outcome; one that a pruned block spares is not missing."""
        in_blocks = [trial for trial in finished if self.has_block(trial.block)]
        ended = sum(self.includes(trial.trial) for trial in in_blocks)
        return self.trials - ended - count_spared(in_blocks, self.arms, self.repeats)

    def without(self, arms: Container[Arm]) -> Self:
        """Return this plan without some of its arms."""
        possible = (planned for planned in self.possible if planned.arm not in arms)
        return replace(self, possible=tuple(possible))

    def with_index_count(self, count: int) -> Self:
        """Return this plan with the blocks up to this index, and none to come after them."""
        blocks = count - len(self.skipped_blocks)
        return replace(self, blocks=blocks, auto=None, ending="decided")

    def resumed_from(self, history: Iterable[Block | FinishedTrial]) -> Self:
        """Return this plan with the blocks of earlier starts.

        Of a list or a grid, blocks that have one of its configs keep their index, and all others
        are skipped; a config without a block gets a free index. Of two blocks with one config (from
        two homes) the one with more finished trials counts. Other plans count blocks by index.
        """
        blocks, ended = dict[int, Config](), Counter[int]()
        for event in history:
            if isinstance(event, FinishedTrial):
                ended[event.trial.block] += 1
            else:
                blocks[event.index] = event.config
        if not self.listed or not blocks:
            return self
        wanted, kept = {canonical(config) for config in self.listed}, dict[str, int]()
        for index in sorted(blocks, key=lambda index: (-ended[index], index)):
            if canonical(blocks[index]) in wanted:
                kept.setdefault(canonical(blocks[index]), index)
        free = (index for index in itertools.count() if index not in blocks)
        first = sorted(kept.values())[: self.blocks]
        indices = {*first, *itertools.islice(free, self.blocks - len(first))}
        return replace(self, skipped_blocks=frozenset(range(max(indices))) - indices)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return {
            "arms": [
                {
                    "implementation": arm.implementation,
                    "hardware": str(arm.hardware),
                    "class_id": arm.hardware_class.id,
                    "device": arm.device,
                    "variant": arm.variant and dataclasses.asdict(arm.variant),
                }
                for arm in self.arms
            ],
            "impossible": [
                {**dataclasses.asdict(arm.arm), "reason": arm.reason} for arm in self.impossible
            ],
            "awaited": [
                {**dataclasses.asdict(arm.arm), "wait_s": arm.entry.wait_s} for arm in self.awaited
            ],
            "blocks": self.blocks,
            "repeats": self.repeats,
            "trials": self.trials,
            "blocks_at_least": self.auto.least if self.auto else self.blocks,
            "can_decide": self.can_decide,
            "trainer": "fresh" if self.fresh_trainer_reason else "warm",
        }


Waiting: TypeAlias = Literal["to come", "over"]
"""Awaited nodes (`wait_s`) may still come (`to come`), or did not come in time (`over`)."""


def awaited_entries(
    spec: SweepSpec, hardware: Sequence[HardwareClass]
) -> tuple[HardwareEntry, ...]:
    """Return the entries that the spec waits for and that no node matches yet."""
    return tuple(
        entry
        for entry in spec.hardware
        if entry.wait_s is not None and not feasibility.matching_classes(entry, hardware)
    )


def make_plan(
    spec: SweepSpec,
    hardware: Sequence[HardwareClass],
    waiting: Waiting | None = None,
    unusable: Sequence[UnusableGpu] = (),
) -> Plan:
    """Plan the spec's arms (implementations × hardware × variants) on the present hardware.

    An arm is possible only if its implementation can run every config of the space or the list. On
    GPUs it has no node whose GPUs are `unusable` to it.
    """
    possible: dict[Arm, PlannedArm] = {}
    impossible: dict[RequestedArm, ImpossibleArm] = {}
    awaited: dict[RequestedArm, AwaitedArm] = {}
    to_await = awaited_entries(spec, hardware) if waiting == "to come" else ()
    for entry in spec.hardware:
        classes = feasibility.matching_classes(entry, hardware)
        for implementation, variant in spec.arms.per_hardware:
            asked = RequestedArm(implementation, str(entry), variant.name if variant else None)
            if entry in to_await:
                awaited[asked] = AwaitedArm(asked, entry)
                continue
            reasons = {} if classes else {str(entry): _absence_reason(entry, hardware, waiting)}
            for hardware_class in classes:
                use = HardwareUse(hardware_class.ref, entry.usage)
                reason = feasibility.unusable_reason(entry, hardware_class)
                reason = reason or feasibility.arm_ineligibility_reason(
                    spec, implementation, variant, hardware_class
                )
                usable_nodes, why = _usable_nodes(hardware_class, implementation, unusable)
                reason = reason or (None if usable_nodes else why)
                if reason is not None:
                    reasons[str(use)] = reason
                    continue
                arm = Arm(implementation, use, variant)
                earlier = possible[arm].hardware.nodes if arm in possible else ()
                nodes = tuple(dict.fromkeys((*earlier, *usable_nodes)))
                possible[arm] = PlannedArm(arm, replace(hardware_class, nodes=nodes))
            if len(set(reasons.values())) == 1 and len(reasons) >= len(classes):
                impossible[asked] = ImpossibleArm(asked, *set(reasons.values()))
            else:  # a reason of some of the classes only is reported for these
                for text, reason in reasons.items():
                    requested = replace(asked, hardware=text)
                    impossible[requested] = ImpossibleArm(requested, reason)
    return Plan(
        tuple(possible.values()),
        tuple(impossible.values()),
        spec.most_blocks,
        spec.repeats,
        spec.search.points,
        fresh_trainer_reason=spec.fresh_trainer_reason,
        awaited=tuple(awaited.values()),
        auto=spec.auto_blocks,
        timing=spec.timing,
    )


def _usable_nodes(
    hardware: HardwareClass, implementation: str, unusable: Sequence[UnusableGpu]
) -> tuple[tuple[Node, ...], str]:
    """Return the nodes of a class whose GPUs an implementation can use, and why not the others."""
    if hardware.device != "gpu":
        return hardware.nodes, ""
    reasons = {gpu.node_id: gpu.reason for gpu in unusable if gpu.concerns(implementation)}
    usable = tuple(node for node in hardware.nodes if node.id not in reasons)
    excluded = [reasons[node.id] for node in hardware.nodes if node.id in reasons]
    return usable, "; ".join(dict.fromkeys(excluded))


def _absence_reason(
    entry: HardwareEntry, hardware: Sequence[HardwareClass], waiting: Waiting | None
) -> str:
    reason = feasibility.absence_reason(entry, hardware)
    if entry.wait_s is None:
        return reason
    if waiting == "over":
        return f"{reason}; no such node came within {entry.wait_s:g} s (wait_s)"
    on_cluster = f"a run on a cluster ({as_typed('--address', 'address')})"
    return f"{reason}; {on_cluster} would wait {entry.wait_s:g} s for one"
