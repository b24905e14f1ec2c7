"""The section on excluded trials, with the reason and the first message of each arm."""

from orchestrator.analysis.arms.arm_summary import ExcludedTrials
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, run_text


def excluded_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List trials that enter no comparison."""
    if not summary.left_out:
        return None
    columns: list[Column[ExcludedTrials]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("reason", lambda row: row.reason.replace("_", " ")),
        Column("trials", lambda row: row.trials),
        Column("first message", lambda row: row.message),
        Column("first run", lambda row: run_text(row.run_id)),
    ]
    return Section("Excluded", tables=(make_table(columns, summary.left_out),))
