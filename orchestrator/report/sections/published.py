"""The section on published results, each with the nearest config that was measured here."""

from operator import itemgetter
from typing import Any

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, config_phrase

_CONTEXT = (
    "Published results come from other hardware and software: they are context, not a comparison. "
    "Rows marked here have the measured config nearest to the published one."
)


def published_section(summary: ReportSummary, _: ArmNames) -> Section | None:
    """List every published row, and under it the nearest measured config of each arm."""
    matches = summary.published
    if not matches:
        return None
    metrics = list(dict.fromkeys(metric for match in matches for metric in match.row.metrics))
    rows: list[tuple[Any, ...]] = []
    for match in matches:
        row, config = match.row, config_phrase(match.row.config)
        values = map(row.metrics.get, metrics)
        rows.append(("published", row.implementation, row.hardware, *values, config))
        for measured in match.measured:
            arm, differs = measured.arm, "; ".join(measured.differs) or "the same"
            values = map(measured.values.get, metrics)
            rows.append(("here", arm.short_name, str(arm.hardware), *values, differs))
        if not match.measured:
            rows.append(("here", "not measured", ABSENT, *(None for _ in metrics), ABSENT))
    titles = ("", "implementation", "hardware", *metrics, "config")
    table = make_table([Column(title, itemgetter(i)) for i, title in enumerate(titles)], rows)
    sources = dict.fromkeys(
        f"{match.row.source}{f' ({match.row.note})' if match.row.note else ''}" for match in matches
    )
    notes = [f"{number}. {source}." for number, source in enumerate(sources, 1)]
    return Section("Published results", tables=(table,), paragraphs=(_CONTEXT, *notes))
