"""A part and a chart of another package: the example of `docs/adding.md`.

The part lists the arms with trials that took more than one attempt, and the chart draws them.
"""

from collections.abc import Iterator

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.records import SweepRecord
from orchestrator.report.charts import CHARTS
from orchestrator.report.charts.chart import (
    ROW,
    ROW_HEIGHT,
    Chart,
    Styles,
    layer,
    row_names,
    short,
)
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.names import ArmNames
from orchestrator.report.parts import PARTS_OF_A_REPORT
from orchestrator.report.render import render, summarise


def retries_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    rows = [row for row in summary.arms if row.retried]
    if not rows:
        return None
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("retried trials", lambda row: row.retried),
    ]
    return Section(
        "Retries",
        tables=(make_table(columns, rows),),
        notes=("A retried trial took more than one attempt; the last one counts.",),
    )


def retry_bars(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    del styles  # all bars look alike
    rows = [
        {"row": short(name(row.arm)), "label": str(row.retried), "retried": row.retried}
        for row in summary.arms
        if row.retried
    ]
    if rows:
        yield Chart(
            key="retries",
            section="retries",
            title="Retried trials by arm",
            description=". ".join(f"{row['row']}: {row['retried']} retried" for row in rows),
            layers=[layer("rows", "bar", {"size": 22}, x="retried", y=ROW), *row_names("rows")],
            data={"rows": rows},
            height=ROW_HEIGHT * len(rows),
        )


def page(record: SweepRecord) -> str:
    """Return the report of a sweep (`rnnsweep.read_sweep`) as a page, with the part and chart."""
    return render(
        summarise(record),
        "html",
        builders={**PARTS_OF_A_REPORT, "retries": retries_part},
        charts=(*CHARTS, retry_bars),
    )
