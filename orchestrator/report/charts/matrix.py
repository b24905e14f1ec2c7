"""Hardware × implementation: the speed-up of each arm, shaded by how far it is from 1."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orchestrator.analysis.comparisons.matrix import Cell
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Heat
from orchestrator.report.charts.speedups import SIGNS, read_from

_FULL_SHADE = math.log(4)  # a factor of 4 either way is as dark as it gets


def matrix(summary: ReportSummary) -> list[Heat]:
    """One matrix; none where no arm has a cell."""
    found = summary.matrix
    if not found.cells or not any(cell.speedup for cell in found.cells):
        return []
    read = {each.arm: read_from(each) for each in summary.comparisons}
    cells = {(c.arm.implementation, c.arm.hardware): c for c in found.cells}
    grid = [
        [cells.get((implementation, hardware)) for hardware in found.hardware]
        for implementation in found.implementations
    ]
    return [
        Heat(
            key="matrix",
            part="matrix",
            title="Speed-up by implementation and hardware",
            told="; ".join(
                f"{c.arm}: {' '.join(filter(None, (_number(c, read), _verdict(c))))}"
                for row in grid
                for c in row
                if c is not None
            ),
            rows=found.implementations,
            columns=tuple(map(str, found.hardware)),
            cells=tuple(tuple(_number(c, read) for c in row) for row in grid),
            verdicts=tuple(tuple(_verdict(c) for c in row) for row in grid),
            shades=tuple(tuple(_shade(c) for c in row) for row in grid),
        )
    ]


def _number(cell: Cell | None, read: Mapping[Arm, Estimate | None]) -> str:
    return ratio(read.get(cell.arm, cell.speedup)) if cell and cell.speedup else ""


def _verdict(cell: Cell | None) -> str:
    return f"{SIGNS.get(cell.verdict, '')} {cell.verdict}".strip() if cell else ""


def _shade(cell: Cell | None) -> float | None:
    """Of a cell that says something: 0 where it cannot be told which is faster."""
    if cell is None or cell.speedup is None or not 0 < cell.speedup.value < math.inf:
        return None
    if cell.verdict == "inconclusive":
        return 0.0
    return max(-1.0, min(1.0, math.log(cell.speedup.value) / _FULL_SHADE))
