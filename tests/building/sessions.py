"""A session on invented nodes: from the plan to the journal, without Ray and without a store."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest import mock

from orchestrator.cluster.membership import Membership, NodeRequest
from orchestrator.core.trial import FinishedTrial
from orchestrator.execution.gpu_presence import GpuQuestion
from orchestrator.hardware import Node, classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import UnusableGpu, make_plan
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.gpu_answers import GpuAnswers
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.remaining import RemainingWork, remaining_work
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import parse_spec
from orchestrator.storage.journal import Journal, JournalState, SweepOpened, read
from tests.building.hardware import build_node
from tests.building.scheduling import ConfigLog
from tests.building.trials import IDENTITY

HERE = build_node("a")


@dataclass
class Present:
    nodes: tuple[Node, ...]
    unusable: dict[str, str] = field(default_factory=dict)
    silent_s: float = 0.0
    answered: set[str] = field(default_factory=set)
    answers: bool = False

    def ask(self, node_id: str) -> None:
        self.answered.discard(node_id)

    def has_answered(self, node_id: str) -> bool:
        return self.answers or node_id in self.answered


class SampleSession:
    """A session on invented nodes, as a start makes one; `killed` returns the next start."""

    def __init__(
        self,
        folder: Path,
        text: str,
        nodes: tuple[Node, ...] = (HERE,),
    ) -> None:
        self._nodes = nodes
        self.journal = Journal(folder)
        if self.journal.state is None:
            self.journal.append(SweepOpened(IDENTITY, {}))
        self.spec = parse_spec(text, source="spec")
        self.plan = make_plan(self.spec, classify(nodes))
        work = self.work()
        lanes = make_lanes(work.plan)
        self.dispatcher = Dispatcher.begin(
            work.new_ledger(),
            ConfigLog(),
            self.spec.search.objectives,
            lanes,
            open_limit=open_limit(self.spec, work.plan, lanes),
            baseline=self.spec.baseline,
        )
        self.dispatcher.restore(work.history)
        self.recorded: list[FinishedTrial] = []
        self.view = mock.Mock(spec=Watcher)
        self.warnings: list[str] = []
        self.view.warn.side_effect = self.warnings.append
        self.session = Session(
            self.spec, self.dispatcher, self.journal, self.recorded.append, self.view
        )
        self.asked: list[Sequence[NodeRequest]] = []
        self.now_s = 0.0
        self.present = Present(nodes)
        self.gpu_answers: dict[str, Callable[[], list[UnusableGpu]]] = {}
        self.gpu_questions: list[GpuQuestion] = []
        self.recovery = Recovery(
            self.session,
            cast(Membership, self.present),
            wait_s=100.0,
            gpus=GpuAnswers(self.spec, self._ask_gpus),
            ask_for=self.asked.append,
            clock=lambda: self.now_s,
        )

    def _ask_gpus(self, questions: list[GpuQuestion]) -> list[UnusableGpu]:
        """Return what the nodes of `gpu_answers` say; nothing for the others."""
        self.gpu_questions += questions
        answers = [self.gpu_answers.get(node_id) for node_id in {q.node_id for q in questions}]
        return [gpu for answer in answers if answer for gpu in answer()]

    def work(self) -> RemainingWork:
        return remaining_work(self.spec, self.plan, self.state(), retry_failed=False)

    def state(self) -> JournalState:
        state = read(self.journal.path.parent)
        assert state is not None
        return state

    def lines(self, record: str) -> list[dict[str, Any]]:
        text = self.journal.path.read_text().splitlines()
        return [line for line in map(json.loads, text) if line["record"] == record]

    def assign(self) -> Assignment:
        assignment = self.session.assign()
        assert assignment is not None
        return assignment

    def assignments(self) -> list[Assignment]:
        return list(iter(self.session.assign, None))

    def killed(self, text: str) -> "SampleSession":
        """Return the next start, after this driver ended without a word."""
        self.journal.close()
        return SampleSession(self.journal.path.parent, text, self._nodes)
