"""The section with published results, and the nearest measured configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeAlias

from orchestrator.analysis.arms.best_configs import PublishedComparison
from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames, config_text

_Result: TypeAlias = tuple[str, str, str, Mapping[str, float], str]
"""Origin, implementation, hardware, metrics, and config of a published or a measured result."""


def published(summary: ReportSummary, _: ArmNames) -> Section | None:
    """List every published row, and under it the nearest measured config of each arm."""
    matches = summary.published
    if not matches:
        return None
    metrics = dict.fromkeys(metric for match in matches for metric in match.row.metrics)
    columns: list[Column[_Result]] = [
        Column("", lambda row: row[0]),
        Column("implementation", lambda row: row[1]),
        Column("hardware", lambda row: row[2]),
        *(Column(metric, partial(_value, metric)) for metric in metrics),
        Column("config", lambda row: row[4]),
    ]
    sources = dict.fromkeys(
        f"{match.row.source}{f' ({match.row.note})' if match.row.note else ''}" for match in matches
    )
    table = make_table(columns, [row for match in matches for row in _results(match)])
    notes = paragraphs("sections/published.j2", sources=sources)
    return Section("Published results", tables=(table,), paragraphs=notes)


def _value(metric: str, result: _Result) -> float | None:
    return result[3].get(metric)


def _results(match: PublishedComparison) -> Iterator[_Result]:
    row = match.row
    yield "published", row.implementation, row.hardware, row.metrics, config_text(row.config)
    for own in match.measured:
        arm, differs = own.arm, "; ".join(own.differs) or "the same"
        yield "here", arm.implementation, str(arm.hardware), own.values, differs
    if not match.measured:
        yield "here", "not measured", ABSENT, {}, ABSENT
