"""The participants of a check: all that can run here, without those that failed so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity.findings import Failed
from orchestrator.diagnostics.parity.request import Impossible, ParityRequest, Participant
from orchestrator.diagnostics.parity.trainers import RequestOutcome
from workloads.eligibility import Cell
from workloads.settings.tasks import ImageRowsSettings


@dataclass(slots=True)
class Participants:
    """Members with their settings, those that failed and those that cannot run here."""

    request: ParityRequest
    base_settings: Mapping[str, Any]
    members: list[Participant] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    impossible: list[Impossible] = field(default_factory=list)

    @classmethod
    def of(
        cls, request: ParityRequest, cells: Sequence[Cell], base_settings: Mapping[str, Any]
    ) -> Participants:
        """Return all participants of some cells."""
        participants = cls(request, base_settings)
        for cell in cells:
            for candidate in request.participants(cell, base_settings):
                if isinstance(candidate, Participant):
                    participants.members.append(candidate)
                else:
                    participants.impossible.append(candidate)
        return participants

    def settings(self, cell: Cell) -> ImageRowsSettings:
        """Return the complete settings of a cell."""
        return self.request.resolved(cell, self.base_settings)

    def expect(self, number: int) -> None:
        """Refuse a check if fewer than `number` participants of every cell can run here."""
        counts = [
            sum(participant.cell == member.cell for participant in self.members)
            for member in self.members
        ]
        if max(counts, default=0) >= number:
            return
        able = ", ".join(dict.fromkeys(participant.label for participant in self.members)) or "none"
        reasons = {f"{one.implementation}: {one.reason}" for one in self.impossible}
        raise Refusal(
            f"nothing to compare: expected at least {number} of the implementations on some device"
            f" here; received {able}" + "".join(f"\n  {reason}" for reason in sorted(reasons))
        )

    def drop_failures(self, answered: Mapping[Participant, RequestOutcome]) -> None:
        """Keep only the members that succeeded."""
        for participant, answer in answered.items():
            if answer.reason is None:
                continue
            self.members.remove(participant)
            if answer.possible:
                self.failed.append(Failed(participant, answer.reason))
            else:
                self.impossible.append(
                    Impossible(participant.implementation, participant.cell, answer.reason)
                )
