"""Who takes part in a check: those that can run here, less those that turn out not to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity.findings import Failed
from orchestrator.diagnostics.parity.request import Impossible, ParityRequest, Participant
from orchestrator.diagnostics.parity.trainers import RequestOutcome
from workloads.eligibility import Cell
from workloads.settings.image_rows import ImageRowsSettings


@dataclass(slots=True)
class Participants:
    """Who takes part, with which settings; and who could not, as that turns out."""

    request: ParityRequest
    base_settings: Mapping[str, Any]
    members: list[Participant] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    impossible: list[Impossible] = field(default_factory=list)

    @classmethod
    def of(
        cls, request: ParityRequest, cells: Sequence[Cell], base_settings: Mapping[str, Any]
    ) -> Participants:
        """All participants of some cells."""
        participants = cls(request, base_settings)
        for cell in cells:
            for each in request.participants(cell, base_settings):
                if isinstance(each, Participant):
                    participants.members.append(each)
                else:
                    participants.impossible.append(each)
        return participants

    def settings(self, cell: Cell) -> ImageRowsSettings:
        """The complete settings of a cell."""
        return self.request.resolved(cell, self.base_settings)

    def expect(self, number: int) -> None:
        """Refuse a check for which fewer participants of every cell can run here."""
        counts = [
            sum(participant.cell == each.cell for participant in self.members)
            for each in self.members
        ]
        if max(counts, default=0) >= number:
            return
        able = ", ".join(dict.fromkeys(participant.label for participant in self.members)) or "none"
        reasons = {f"{each.implementation}: {each.reason}" for each in self.impossible}
        raise Refusal(
            f"nothing to compare: expected at least {number} of the implementations on some device"
            f" here; received {able}" + "".join(f"\n  {reason}" for reason in sorted(reasons))
        )

    def keep(self, answered: Mapping[Participant, RequestOutcome]) -> None:
        """Go on with those that succeeded."""
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
