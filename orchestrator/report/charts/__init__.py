"""The charts of a report, for the HTML page and for image files."""

from collections import Counter
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts.chart import Chart
from orchestrator.report.charts.curves import curves
from orchestrator.report.charts.speedups import phases, speedups, trade_off_chart
from orchestrator.report.wording import arm_names


def charts_of(summary: ReportSummary) -> list[Chart]:
    """Return every chart that the summary has numbers for, in the report's order.

    Keys are numbered if names differ only in characters that file names lack.
    """
    name = arm_names(summary)
    styles = {entry.arm: place for place, entry in enumerate(summary.arms)}
    charts = (
        speedups(summary, name, styles),
        *(trade_off_chart(summary, front, name, styles) for front in summary.fronts),
        *curves(summary, name, styles),
        phases(summary, name),
    )
    uses = Counter[str]()
    unique = []
    for chart in filter(None, charts):
        uses[chart.key] += 1
        number = uses[chart.key]
        unique.append(chart if number == 1 else replace(chart, key=f"{chart.key}-{number}"))
    return unique
