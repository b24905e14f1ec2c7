"""How many steps a longer compilation needs to pay for itself ("XLA pays after N steps")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.report.statistics import Estimate
from orchestrator.trial import Arm

BreakEvenVerdict = Literal["pays", "never", "cannot tell"]


@dataclass(frozen=True, slots=True)
class BlockExpense:
    """One block: by how many seconds the arm compiles longer, and by how much its step is shorter."""

    block: int
    extra_compile_s: float
    saved_step_ms: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """An arm that compiles longer than another, and after how many steps it has caught up.

    `steps` is the ratio of the means over blocks with Fieller's interval, whose upper end may be
    infinite; None where it is never, or cannot be told, for `reason`. Only warm trainers' trials
    count: the first pays for its start.
    """

    arm: Arm
    baseline: Arm
    verdict: BreakEvenVerdict
    steps: Estimate | None
    extra_compile_s: Estimate | None
    saved_step_ms: Estimate | None
    blocks: tuple[BlockExpense, ...]
    reason: str = ""
