"""The section on telemetry: use of the devices, clocks, temperatures and disturbed trials."""

from functools import partial

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.measures import CONDITIONS
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames


def telemetry_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the use of the devices, clocks, energy and disturbed trials of each arm: medians."""
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("disturbed", lambda row: f"{row.disturbed} of {row.trials.complete}", numeric=True),
        *(Column(m.title, partial(_median, m.metric), optional=True) for m in CONDITIONS),
    ]
    table = make_table(columns, summary.arms)
    if not table.headers[2:]:
        return None
    explanation = "Medians over the complete trials of an arm, during their timed epochs."
    return Section("Telemetry", tables=(table,), explanations=(explanation,))


def _median(metric: str, row: ArmSummary) -> float | None:
    figure = row.noise.get(metric) or row.measures.get(metric)
    return figure.median if figure else None
