"""The plot of hardware × implementation: the speed-up of every arm, shaded by its size."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Heat
from orchestrator.report.charts.speedups import SIGNS, deciding_interval

_FULL_SHADE = math.log(4)  # a factor of 4 either way is as dark as it gets


def matrix(summary: ReportSummary) -> list[Heat]:
    """Make the matrix; an empty list if no arm has a speed-up."""
    if not any(arm.speedup for arm in summary.arms):
        return []
    classes = tuple(dict.fromkeys(row.arm.hardware for row in summary.arms))
    implementations = tuple(dict.fromkeys(row.arm.implementation for row in summary.arms))
    shown = {comparison.arm: deciding_interval(comparison) for comparison in summary.comparisons}
    cells = {(c.arm.implementation, c.arm.hardware): c for c in summary.arms}
    grid = [
        [cells.get((implementation, hardware)) for hardware in classes]
        for implementation in implementations
    ]
    return [
        Heat(
            key="matrix",
            part="matrix",
            title="Speed-up by implementation and hardware",
            description="; ".join(
                f"{c.arm}: {' '.join(filter(None, (_number(c, shown), _verdict(c))))}"
                for row in grid
                for c in row
                if c is not None
            ),
            rows=implementations,
            columns=tuple(map(str, classes)),
            cells=tuple(tuple(_number(c, shown) for c in row) for row in grid),
            verdicts=tuple(tuple(_verdict(c) for c in row) for row in grid),
            shades=tuple(tuple(_shade(c) for c in row) for row in grid),
        )
    ]


def _number(cell: ArmSummary | None, shown: Mapping[Arm, Estimate | None]) -> str:
    return ratio(shown.get(cell.arm, cell.speedup)) if cell and cell.speedup else ""


def _verdict(cell: ArmSummary | None) -> str:
    return f"{SIGNS.get(cell.verdict, '')} {cell.verdict}".strip() if cell else ""


def _shade(cell: ArmSummary | None) -> float | None:
    """Return the shade of a cell with a speed-up; 0 if its verdict is inconclusive."""
    if cell is None or cell.speedup is None or not 0 < cell.speedup.value < math.inf:
        return None
    if cell.verdict == "inconclusive":
        return 0.0
    return max(-1.0, min(1.0, math.log(cell.speedup.value) / _FULL_SHADE))
