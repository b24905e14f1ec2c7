"""The metrics that the trials of a sweep can have, whether or not any has them."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.analysis.metrics.measures import MEASURES
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial_columns import OUTSIDE_METRICS
from orchestrator.report.query.table import Sheet, SheetColumn


def with_known(sheet: Sheet, record: SweepRecord, asked: list[str]) -> Sheet:
    """Return the sheet with the requested columns that are metrics which no trial has.

    No trial has an energy on a machine without an energy counter: `energy_j is missing` is then
    true for every trial, and no error.
    """
    lacking = [name for name in dict.fromkeys(asked) if name not in sheet.names]
    if not lacking:
        return sheet
    possible = known_metrics(record)
    added = tuple(SheetColumn(name, "number", "metric") for name in lacking if name in possible)
    blank = (None,) * len(added)
    return replace(
        sheet, columns=(*sheet.columns, *added), rows=tuple((*row, *blank) for row in sheet.rows)
    )


def known_metrics(record: SweepRecord) -> frozenset[str]:
    """Return the metrics of reports, of telemetry and prices, and of the workload."""
    from workloads.registry import TIMING_METRICS, built_in_workloads  # noqa: PLC0415  (for few questions)

    own = [
        metric for w in built_in_workloads() if w.name == record.workload for metric in w.metrics
    ]
    reported = (measure.metric for measure in MEASURES)
    return frozenset({*reported, *OUTSIDE_METRICS, *TIMING_METRICS, *own, *record.objectives})
