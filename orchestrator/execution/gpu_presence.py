"""Whether frameworks can use a node's GPUs, asked before the first trial there.

A plan knows the GPUs from their driver's library. Whether a framework can use them depends on its
build, its CUDA packages and the driver: only the framework itself can tell.
`orchestrator.scheduling.gpu_answers` decides when a node is asked.
"""

import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.cluster import connection
from orchestrator.execution.trainer_answers import ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.planning.feasibility import layers_are_masked
from orchestrator.planning.plan import Plan, UnusableGpu
from orchestrator.spec import SweepSpec
from workloads.backends.registry import backends
from workloads.implementations import parse_implementation
from workloads.protocol import TrialRequest
from workloads.registry import find_workload

PRESENCE_WORKLOAD = "workloads.diagnostics.devices:report_devices"
MASKED_BATCHES_WORKLOAD = "workloads.diagnostics.masked_batches:check_masks"

_POLL_S = 0.2

_ANSWER_S = 900.0
"""A node without an answer by then is used: TensorFlow compiles for minutes on a new GPU."""


class GpuUse(NamedTuple):
    """An implementation on the GPUs of a class on one host."""

    implementation: str
    class_id: str
    hostname: str


@dataclass(frozen=True, slots=True)
class GpuQuestion:
    """What one node is asked: whether a backend sees its GPU, and whether its masks are right.

    `masked` are the implementations of the backend whose arms run masked layers in cuDNN.
    """

    node_id: str
    backend: str
    masked: tuple[str, ...] = ()


def gpu_questions(spec: SweepSpec, plan: Plan, succeeded: Container[GpuUse]) -> list[GpuQuestion]:
    """Return what to ask the nodes of a plan, once for each backend and node.

    Where an implementation has `succeeded` in a trial of the sweep there is nothing to ask.
    """
    if find_workload(spec.workload_name).names_own_implementations:
        return []
    masked = dict[tuple[str, str], set[str]]()
    for planned in plan.possible:
        implementation = parse_implementation(planned.arm.implementation)
        if planned.arm.device != "gpu" or implementation.backend not in backends():
            continue
        for node in planned.hardware.nodes:
            class_id, host = planned.arm.hardware_class.id, node.profile.hostname
            if GpuUse(planned.arm.implementation, class_id, host) in succeeded:
                continue
            found = masked.setdefault((node.id, implementation.backend), set())
            if layers_are_masked(spec, planned.arm.implementation, planned.arm.variant):
                found.add(planned.arm.implementation)
    return [
        GpuQuestion(node_id, backend, tuple(sorted(names)))
        for (node_id, backend), names in masked.items()
    ]


def ask_nodes(
    questions: Sequence[GpuQuestion], *, on_cluster: bool, check: Callable[[], None]
) -> list[UnusableGpu]:
    """Ask all questions at once; return what cannot be used, and why.

    `check` is called while nodes answer, and may raise. A node that leaves meanwhile, or is silent
    for 15 minutes, has no answer.
    """
    if not questions:
        return []
    until_s = time.monotonic() + _ANSWER_S
    if on_cluster:
        asked = [(question.node_id, question) for question in questions]
        answers = connection.answers_of_nodes(answer_question, asked, check, until_s=until_s)
        return [unusable for answer in answers for unusable in answer]
    with ThreadPoolExecutor(len(questions), "gpu") as pool:
        pending = {pool.submit(answer_question, question) for question in questions}
        return [unusable for answer in _completed(pending, check) for unusable in answer.result()]


def answer_question(question: GpuQuestion) -> list[UnusableGpu]:
    """Ask a backend on this node, in a trainer of its own."""
    portable = parse_implementation(f"{question.backend}/portable")
    with TrainerProcess(portable, "gpu") as trainer:
        answer = ask_trainer(trainer, TrialRequest(PRESENCE_WORKLOAD, str(portable), device="gpu"))
        if answer.failure == "not_possible":
            return [UnusableGpu(question.node_id, question.backend, str(answer.reason))]
        found = list[UnusableGpu]()
        for implementation in question.masked if answer.reason is None else ():
            asked = TrialRequest(MASKED_BATCHES_WORKLOAD, implementation, device="gpu")
            answer = ask_trainer(trainer, asked)
            if answer.failure == "not_possible":
                reason = str(answer.reason)
                found.append(UnusableGpu(question.node_id, implementation, reason))
            if not answer.is_usable:
                break
        return found


def _completed(
    pending: set[Future[list[UnusableGpu]]], check: Callable[[], None]
) -> Iterator[Future[list[UnusableGpu]]]:
    while pending:
        check()
        done, pending = wait(pending, timeout=_POLL_S)
        yield from done
