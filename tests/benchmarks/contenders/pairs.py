"""Pairs of an arm and its reference script, and one measurement of both."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import psutil

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
        process = contender.process
        began_s, busy_s, own_s = time.perf_counter(), _busy_s(), _own_s(process)
        answers[contender.name] = contender.answer()
        seconds = time.perf_counter() - began_s
        busy_cpus.append((_busy_s() - busy_s - (_own_s(process) - own_s)) / seconds)
    return Asked(answers[pair.arm.name], answers[pair.reference.name], max(busy_cpus))


def _busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    idle = times["idle"] + times.get("iowait", 0.0)
    inside = times.get("guest", 0.0) + times.get("guest_nice", 0.0)  # counted as user as well
    return float(sum(times.values()) - idle - inside)


def _own_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
