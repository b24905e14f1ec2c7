"""What the nodes of a start have answered about their GPUs: each is asked once, before its trials.

The nodes of the plan are asked before the sweep begins, all at once. A node that joins later is
asked beside the running sweep, and waits for its own answer only.
"""

import threading
from collections.abc import Callable, Container
from concurrent.futures import Future
from dataclasses import dataclass, field

from orchestrator.execution.gpu_presence import GpuQuestion, GpuUse, gpu_questions
from orchestrator.hardware import Node
from orchestrator.planning.plan import Plan, UnusableGpu
from orchestrator.spec import SweepSpec


@dataclass(slots=True)
class GpuAnswers:
    """The GPUs that frameworks cannot use, of all nodes that have been asked.

    `ask` asks nodes, waits for them, and returns what they cannot use. `succeeded` returns where
    implementations have had trials: they are not asked for again.
    """

    spec: SweepSpec
    ask: Callable[[list[GpuQuestion]], list[UnusableGpu]]
    succeeded: Callable[[], Container[GpuUse]] = frozenset
    unusable: list[UnusableGpu] = field(default_factory=list)
    _waiting: dict[str, "Future[list[UnusableGpu]]"] = field(default_factory=dict)

    def questions(self, plan: Plan) -> list[GpuQuestion]:
        """Return what is to be asked before the trials of a plan."""
        return gpu_questions(self.spec, plan, self.succeeded())

    def wait_for(self, questions: list[GpuQuestion]) -> None:
        """Ask all of these, and wait for the answers."""
        self.unusable += self.ask(questions)

    def begin(self, node: Node, plan: Plan) -> bool:
        """Ask a node that has joined, in a thread; return False if there is nothing to ask.

        `plan` has the arms that could run on this node.
        """
        questions = self.questions(plan)
        if not questions:
            return False
        answer = Future[list[UnusableGpu]]()

        def run() -> None:
            try:
                answer.set_result(self.ask(questions))
            except BaseException as error:  # noqa: BLE001 - the sweep stops, or the node has left
                answer.set_exception(error)

        self._waiting[node.id] = answer
        threading.Thread(target=run, daemon=True, name=f"gpu-{node.id[:8]}").start()
        return True

    def take_answered(self) -> list[str]:
        """Return the ids of the nodes that have answered since the last call.

        A node that could not be asked counts as answered: its trials will show what is wrong.
        """
        answered = [node_id for node_id, answer in self._waiting.items() if answer.done()]
        for node_id in answered:
            answer = self._waiting.pop(node_id)
            if answer.exception() is None:
                self.unusable += answer.result()
        return answered

    def is_waiting_for(self, node: Node) -> bool:
        """Return whether a node is being asked."""
        return node.id in self._waiting

    def describe(self, node: Node, known: Container[str] = ()) -> str:
        """Return what cannot use a node's GPUs, and why; "" if all can or that is known."""
        found = dict[str, list[str]]()
        for gpu in self.unusable:
            if gpu.node_id == node.id and gpu.reason not in known:
                found.setdefault(gpu.reason, []).append(gpu.name)
        return "; ".join(
            f"{', '.join(names)} cannot use its GPUs: {why}" for why, names in found.items()
        )
