"""The section of rows published elsewhere, beside what was measured here."""

from __future__ import annotations

from orchestrator.analysis.arms.published import PublishedBeside
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.sections.best_configs import config_text


def published(summary: ReportSummary) -> Section | None:
    """Every published row, and under it the nearest measured config of each arm."""
    if not summary.published:
        return None
    metrics = list(dict.fromkeys(m for each in summary.published for m in each.row.metrics))
    headers = ("", "implementation", "hardware", *metrics, "config")
    rows = tuple(row for each in summary.published for row in _rows(each, metrics))
    notes = [
        "Published elsewhere, on other hardware and software: to be looked at beside the measured "
        "rows, never a comparison. Here stands the config that is nearest to the published one."
    ]
    told = dict.fromkeys(
        f"{each.row.source}{f' ({each.row.note})' if each.row.note else ''}"
        for each in summary.published
    )
    notes += [f"{number}. {source}." for number, source in enumerate(told, 1)]
    table = Table(headers, rows, frozenset(range(3, 3 + len(metrics))))
    return Section("Published elsewhere", tables=(table,), paragraphs=tuple(notes))


def _rows(found: PublishedBeside, metrics: list[str]) -> list[Row]:
    row = found.row
    values = (_value(row.metrics.get(metric)) for metric in metrics)
    config = config_text(row.config)
    rows: list[Row] = [("published", row.implementation, row.hardware, *values, config)]
    for each in found.measured:
        own = (_value(each.values.get(metric)) for metric in metrics)
        differs = "; ".join(each.differs) or "the same"
        rows.append(("here", each.arm.implementation, str(each.arm.hardware), *own, differs))
    if not found.measured:
        rows.append(("here", "not measured", ABSENT, *(ABSENT for _ in metrics), ABSENT))
    return rows


def _value(value: float | None) -> str:
    return ABSENT if value is None else number(value)
