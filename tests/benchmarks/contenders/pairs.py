"""Pairs of an arm and its reference script, and one measurement of both."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.benchmarks.contenders.neighbours import watched
from tests.benchmarks.contenders.processes import (
    Answer,
    Arm,
    Contender,
    Question,
    Script,
    bare_keras,
    hand_written,
)
from workloads.implementations import parse_implementation
from workloads.protocol import Device

IMPLEMENTATIONS: dict[Device, tuple[str, ...]] = {
    "cpu": (
        "tensorflow/portable",
        "tensorflow/portable+xla",
        "tensorflow/portable+unroll",
        "jax/portable",
        "torch/portable",
        "torch/fused",
    ),
    "gpu": (
        "tensorflow/portable",
        "tensorflow/portable+xla",
        "tensorflow/cudnn",
        "tensorflow/fused",
        "jax/portable",
        "jax/cudnn",
        "jax/fused",
        "torch/portable",
        "torch/cudnn",
        "torch/fused",
    ),
}
_QUIET_CPUS, _TRIES = 0.1, 4


@dataclass(frozen=True, slots=True)
class Pair:
    """An arm and the script that a user would write instead; `at_most` is the target ratio."""

    arm: Arm
    reference: Script
    at_most: float


@dataclass(frozen=True, slots=True)
class Asked:
    """Both answers of a pair, and the larger number of CPUs that others kept busy."""

    arm: Answer
    reference: Answer
    neighbours_cpus: float

    @property
    def ratio(self) -> float:
        """The arm's time over its reference's."""
        return self.arm.step_ms / self.reference.step_ms


def opened(implementation: str, question: Question) -> Pair:
    """Start both processes of a pair; fused stacks are paired with the hand-written loop."""
    arm = Arm(implementation, question)
    if parse_implementation(implementation).kernel == "fused":
        return Pair(arm, hand_written(question), at_most=1.05)
    return Pair(arm, bare_keras(implementation, question), at_most=1.03)


def ask_quietly(pair: Pair, order: random.Random) -> Asked:
    """Measure again while others load the machine; return the try with the least load."""
    tries: list[Asked] = []
    while not tries or (tries[-1].neighbours_cpus > _QUIET_CPUS and len(tries) < _TRIES):
        tries.append(ask(pair, order))
    return min(tries, key=lambda asked: asked.neighbours_cpus)


def ask(pair: Pair, order: random.Random) -> Asked:
    """Measure both sides of a pair, one right after the other."""
    contenders: list[Contender] = [pair.arm, pair.reference]
    answers, busy_cpus = {}, []
    for contender in order.sample(contenders, k=2):
        with watched(contender.process) as neighbours:
            answers[contender.name] = contender.answer()
        busy_cpus.append(neighbours.cpus)
    return Asked(answers[pair.arm.name], answers[pair.reference.name], max(busy_cpus))
