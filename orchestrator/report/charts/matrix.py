"""The plot of hardware × implementation: the speed-up of every arm, shaded by its size."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orchestrator.analysis.comparisons.matrix import Cell
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Heat
from orchestrator.report.charts.speedups import SIGNS, deciding_interval

_FULL_SHADE = math.log(4)  # a factor of 4 either way is as dark as it gets


def matrix(summary: ReportSummary) -> list[Heat]:
    """Make the matrix; an empty list if no arm has a speed-up."""
    layout = summary.matrix
    if not layout.cells or not any(cell.speedup for cell in layout.cells):
        return []
    shown = {comparison.arm: deciding_interval(comparison) for comparison in summary.comparisons}
    cells = {(c.arm.implementation, c.arm.hardware): c for c in layout.cells}
    grid = [
        [cells.get((implementation, hardware)) for hardware in layout.hardware]
        for implementation in layout.implementations
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
            rows=layout.implementations,
            columns=tuple(map(str, layout.hardware)),
            cells=tuple(tuple(_number(c, shown) for c in row) for row in grid),
            verdicts=tuple(tuple(_verdict(c) for c in row) for row in grid),
            shades=tuple(tuple(_shade(c) for c in row) for row in grid),
        )
    ]


def _number(cell: Cell | None, shown: Mapping[Arm, Estimate | None]) -> str:
    return ratio(shown.get(cell.arm, cell.speedup)) if cell and cell.speedup else ""


def _verdict(cell: Cell | None) -> str:
    return f"{SIGNS.get(cell.verdict, '')} {cell.verdict}".strip() if cell else ""


def _shade(cell: Cell | None) -> float | None:
    """Return the shade of a cell with a speed-up; 0 if its verdict is inconclusive."""
    if cell is None or cell.speedup is None or not 0 < cell.speedup.value < math.inf:
        return None
    if cell.verdict == "inconclusive":
        return 0.0
    return max(-1.0, min(1.0, math.log(cell.speedup.value) / _FULL_SHADE))
