"""The same figures by size: a report that pools all sizes hides what a reader has to choose by."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.statistics import Estimate, Spread
from orchestrator.trial import Arm


@dataclass(frozen=True, slots=True)
class SizeCell:
    """One arm at one size; `speedup` over its baseline, None for fewer than two blocks."""

    arm: Arm
    blocks: int
    time: Spread | None
    rate: Spread | None
    accuracy: Spread | None
    speedup: Estimate | None
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """The matched blocks whose param has one value, or lies in one range; `label` names it."""

    label: str
    low: float | None
    high: float | None
    blocks: tuple[int, ...]
    cells: tuple[SizeCell, ...]


@dataclass(frozen=True, slots=True)
class BySize:
    """The groups along one param that varied. `explains` is the share (R²) of the variance of the
    baseline's log time that the param explains by itself: the most telling param is first.
    """

    param: str
    explains: float
    groups: tuple[SizeGroup, ...]
