"""The plots of a report as plain data, for the HTML page and for image files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts.chart import Chart, Heat, Plot
from orchestrator.report.charts.crossovers import crossovers
from orchestrator.report.charts.learning import learning
from orchestrator.report.charts.matrix import matrix
from orchestrator.report.charts.phases import phases
from orchestrator.report.charts.speedups import speedups
from orchestrator.report.charts.telemetry import telemetry
from orchestrator.report.charts.trade_offs import trade_offs
from orchestrator.report.wording import arm_names

__all__ = ["Chart", "Heat", "Plot", "plots_of"]


def plots_of(summary: ReportSummary) -> tuple[Plot, ...]:
    """Return every plot that the summary has numbers for, in the report's order, by unique keys."""
    name = arm_names(summary)
    styles = {entry.arm: place for place, entry in enumerate(summary.arms)}
    plots: list[Plot] = [
        *speedups(summary, name, styles),
        *matrix(summary),
        *trade_offs(summary, name, styles),
        *crossovers(summary, name, styles),
        *learning(summary, name, styles),
        *phases(summary, name),
        *telemetry(summary, name, styles),
    ]
    return tuple(_unique(plots))


def _unique(plots: Sequence[Plot]) -> Iterator[Plot]:
    """Number the keys of plots whose names differ only in characters that file names lack."""
    seen: Counter[str] = Counter()
    for plot in plots:
        seen[plot.key] += 1
        uses = seen[plot.key]
        yield plot if uses == 1 else replace(plot, key=f"{plot.key}-{uses}")
