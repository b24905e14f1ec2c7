"""The charts of a report, for the HTML page and for image files.

`docs/adding.md` shows how to add one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import curves, speedups, trade_offs
from orchestrator.report.charts.chart import Chart, ChartBuilder
from orchestrator.report.names import arm_names

CHARTS: tuple[ChartBuilder, ...] = (
    speedups.speedup_charts,
    trade_offs.trade_off_charts,
    curves.size_charts,
    curves.learning_charts,
)
"""The charts of every report, in their order."""


def charts_of(summary: ReportSummary, builders: Sequence[ChartBuilder] = CHARTS) -> list[Chart]:
    """Return every chart that the summary has numbers for, in the order of the builders.

    Keys are numbered if names differ only in characters that file names lack.
    """
    name = arm_names(summary)
    styles = {entry.arm: index for index, entry in enumerate(summary.arms)}
    uses = Counter[str]()
    unique = []
    for chart in (chart for build in builders for chart in build(summary, name, styles)):
        uses[chart.key] += 1
        number = uses[chart.key]
        unique.append(chart if number == 1 else replace(chart, key=f"{chart.key}-{number}"))
    return unique
