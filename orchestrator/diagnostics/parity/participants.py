"""Who takes part in a check: those that can run here, less those that turn out not to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity.findings import Failed
from orchestrator.diagnostics.parity.question import Impossible, Question, Side
from orchestrator.diagnostics.parity.trainers import Answer
from workloads.eligibility import Cell
from workloads.settings.image_rows import ImageRowsSettings


@dataclass(slots=True)
class Part:
    """Who takes part, with which settings; and who could not, as that turns out."""

    question: Question
    beneath: Mapping[str, Any]
    sides: list[Side] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    impossible: list[Impossible] = field(default_factory=list)

    @classmethod
    def of(cls, question: Question, cells: Sequence[Cell], beneath: Mapping[str, Any]) -> Part:
        """All sides of some cells."""
        part = cls(question, beneath)
        for cell in cells:
            for each in question.sides(cell, beneath):
                if isinstance(each, Side):
                    part.sides.append(each)
                else:
                    part.impossible.append(each)
        return part

    def settings(self, cell: Cell) -> ImageRowsSettings:
        """The complete settings of a cell."""
        return self.question.resolved(cell, self.beneath)

    def expect(self, number: int) -> None:
        """Refuse a check for which fewer sides of every cell can run here."""
        counts = [sum(side.cell == each.cell for side in self.sides) for each in self.sides]
        if max(counts, default=0) >= number:
            return
        able = ", ".join(dict.fromkeys(str(side.arm) for side in self.sides)) or "none"
        reasons = {f"{each.implementation}: {each.reason}" for each in self.impossible}
        raise Refusal(
            f"nothing to compare: expected at least {number} of the implementations on some device"
            f" here; received {able}" + "".join(f"\n  {reason}" for reason in sorted(reasons))
        )

    def keep(self, answered: Mapping[Side, Answer]) -> None:
        """Go on with those that succeeded."""
        for side, answer in answered.items():
            if answer.reason is None:
                continue
            self.sides.remove(side)
            if answer.possible:
                self.failed.append(Failed(side, answer.reason))
            else:
                self.impossible.append(Impossible(side.implementation, side.cell, answer.reason))
