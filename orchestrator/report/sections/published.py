"""The section with published results, and the nearest measured configs."""

from __future__ import annotations

from orchestrator.analysis.arms.published import PublishedComparison
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.sections.best_configs import config_text


def published(summary: ReportSummary) -> Section | None:
    """List every published row, and under it the nearest measured config of each arm."""
    if not summary.published:
        return None
    metrics = list(dict.fromkeys(m for match in summary.published for m in match.row.metrics))
    headers = ("", "implementation", "hardware", *metrics, "config")
    rows = tuple(row for match in summary.published for row in _rows(match, metrics))
    notes = [
        "Published results come from other hardware and software: they are context, not a "
        "comparison. Rows marked here have the measured config nearest to the published one."
    ]
    sources = dict.fromkeys(
        f"{match.row.source}{f' ({match.row.note})' if match.row.note else ''}"
        for match in summary.published
    )
    notes += [f"{number}. {source}." for number, source in enumerate(sources, 1)]
    table = Table(headers, rows, frozenset(range(3, 3 + len(metrics))))
    return Section("Published results", tables=(table,), paragraphs=tuple(notes))


def _rows(match: PublishedComparison, metrics: list[str]) -> list[Row]:
    row = match.row
    values = (_value(row.metrics.get(metric)) for metric in metrics)
    config = config_text(row.config)
    rows: list[Row] = [("published", row.implementation, row.hardware, *values, config)]
    for measured in match.measured:
        own = (_value(measured.values.get(metric)) for metric in metrics)
        differs = "; ".join(measured.differs) or "the same"
        rows.append(
            ("here", measured.arm.implementation, str(measured.arm.hardware), *own, differs)
        )
    if not match.measured:
        rows.append(("here", "not measured", ABSENT, *(ABSENT for _ in metrics), ABSENT))
    return rows


def _value(value: float | None) -> str:
    return ABSENT if value is None else number(value)
