"""The matrix hardware × implementation: each arm's speed-up and figures in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.aims import MeasureMode
from orchestrator.report.measures import Measure
from orchestrator.report.statistics import Estimate, Spread
from orchestrator.trial import Arm


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm: its speed-up over its baseline, and median and quartiles of each metric.

    `verdict` is the comparison's; `baseline`, `different mathematics` or empty where there is
    none. `matched` tells whether the figures are over the rounds that are complete on every arm.
    `run_ids` are the trials behind the figures, by the trainers whose trials count for a measure
    (`Measure.trainer`); those behind the speed-up are the comparison's pairs.
    """

    arm: Arm
    mode: MeasureMode
    matched: bool
    speedup: Estimate | None
    verdict: str
    figures: Mapping[str, Spread]
    run_ids: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are implementations, columns hardware (as arms use it), in the order of the spec.

    An implementation that does not stand on a hardware class has no cell there. Arms that are
    timed in slices have hardware of their own and no accuracy.
    """

    implementations: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    cells: tuple[Cell, ...] = ()
