"""Handle lost workers, lost nodes and new nodes during a sweep.

A worker is lost before the cause is known. Its trial stays in doubt until its node answers, or is
known to be gone. In the first case the worker died by itself, which counts as an attempt. In the
second case the trial was preempted, which does not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.cluster.autoscaler import NodeRequest
from orchestrator.cluster.membership import Membership
from orchestrator.core.arms import HardwareUse
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Outcome
from orchestrator.planning.open_blocks import open_limit
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.node_wait import replacements
from orchestrator.scheduling.nodes import Fleet
from orchestrator.scheduling.session import Session

_SILENCE_S = 25.0
"""How long the head of the cluster may be silent. Ray ends the process some time later."""

_PAUSE_S = 5.0
"""Looks further apart than this show that this process itself stood still (Ctrl-Z, a snapshot)."""

_DOUBT_S = 60.0
"""After this time a node that neither answers nor is known to be gone counts as present."""


@dataclass(slots=True)
class Recovery:
    """The part of a session that keeps its lanes on the nodes that are there.

    Args:
        session: whose trials they are.
        fleet: the nodes in use.
        presence: the nodes that are there.
        wait_s: how long the sweep waits, with nothing else to do, for hardware whose last node
            has left.
        ask_for: asks an autoscaler for nodes; each request replaces the one before.
        clock: seconds, from anywhere.
    """

    session: Session
    fleet: Fleet
    presence: Membership
    wait_s: float
    ask_for: Callable[[Sequence[NodeRequest]], object] = len
    clock: Callable[[], float] = time.monotonic
    _doubts: list[tuple[Assignment, float]] = field(default_factory=list)
    _idle_since: float | None = None
    _wanted: list[NodeRequest] = field(default_factory=list)
    _looked: float | None = None
    _awake_since: float = 0.0

    def doubt(self, assignment: Assignment) -> None:
        """Take a trial whose worker was lost."""
        self.presence.ask(assignment.lane.node.id)
        self._doubts.append((assignment, self.clock()))

    def ended(self, assignment: Assignment, outcome: Outcome) -> None:
        """Take how a trial ended on a node."""
        self.fleet.ended(assignment.lane.node, outcome)

    def is_in_use(self, node_id: str) -> bool:
        """Return whether trials may be sent to a node."""
        return self.session.blocks.has_lane(node_id)

    def settle(self) -> None:
        """Act on what is known by now.

        Raises:
            Stopped: no hardware came for the remaining trials.
        """
        self.fleet.take(self.presence.nodes)
        self.fleet.report_unusable(self.presence.unusable)
        self._settle_doubts()
        lanes = self.fleet.news()
        if lanes is not None:
            limit = open_limit(self.session.spec, self.fleet.plan, lanes)
            self.session.blocks.move(lanes, limit)
        stranded = self.session.blocks.stranded
        self._ask_for_hardware(stranded)
        self._expect_progress(stranded)

    @property
    def has_asked(self) -> bool:
        """Return whether an autoscaler still has a request for nodes."""
        return bool(self._wanted)

    def expect_head(self) -> None:
        """Notice the loss of the cluster's head; to be called continuously.

        Raises:
            Stopped: it is silent.
        """
        now = self.clock()
        if self._looked is None or now - self._looked > _PAUSE_S:
            self._awake_since = now
        self._looked = now
        if min(self.presence.silent_s, now - self._awake_since) > _SILENCE_S:
            raise Stopped(
                f"the head of the Ray cluster has not answered for {_SILENCE_S:.0f} seconds"
            )

    def _settle_doubts(self) -> None:
        present_ids = {node.id for node in self.presence.nodes}
        open_doubts = []
        for assignment, since in self._doubts:
            node = assignment.lane.node
            if node.id not in present_ids:
                self.session.lose(assignment, preempted=True)
            elif self.presence.has_answered(node.id) or self.clock() - since > _DOUBT_S:
                self.session.lose(assignment)
                self.fleet.ended(node, None)
            else:
                open_doubts.append((assignment, since))
        self._doubts = open_doubts

    def _ask_for_hardware(self, stranded: Mapping[HardwareUse, int]) -> None:
        """Ask for new nodes: an autoscaler may have ended idle ones, or a cloud taken them away."""
        wanted = replacements(self.session.spec, self.fleet.plan, stranded)
        if wanted != self._wanted:
            self._wanted = wanted
            with contextlib.suppress(Exception):  # the sweep uses the nodes it has
                self.ask_for(wanted)

    def _expect_progress(self, stranded: Mapping[HardwareUse, int]) -> None:
        if self.session.blocks.out or not stranded:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = self.clock()
        if self.clock() - self._idle_since < self.wait_s:
            return
        if not self.presence.nodes:
            raise Stopped("the Ray cluster has lost every node that trials could run on")
        waiting = ", ".join(
            f"{stranded[hardware]} on {hardware}" for hardware in sorted(stranded, key=str)
        )
        raise Stopped(
            f"no node is left for some hardware, and none came within {self.wait_s:.0f} seconds"
            f" (limits.node_wait_s); trials that wait: {waiting}"
        )
