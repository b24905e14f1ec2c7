"""The sections on single configs: Pareto fronts and published results."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff
from orchestrator.analysis.measures import EXPENSES, MEASURES, SCOPED
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames, config_text, energy_kinds

FRONT_ROWS = 20
"""The most points of the front that are printed; the JSON format has all."""

_UNITS = {measure.metric: measure.unit for measure in (*MEASURES, *EXPENSES) if measure.per == 1}


def front(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the Pareto-best configs, or the best one if there is one objective."""
    best = summary.front
    if not best.points:
        return None
    shown, kinds = best.points[:FRONT_ROWS], energy_kinds(summary)
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("block", lambda point: point.block),
        *(Column(metric, partial(_value, metric)) for metric in best.objectives),
    ]
    if len(kinds) > 1:
        columns.append(Column("energy of", lambda point: point.scope, numeric=True))
    columns.append(Column("trials", lambda point: point.repeats))
    columns.append(Column("config", lambda point: config_text(point.config)))
    notes = paragraphs(
        "sections/front.j2",
        front=best,
        kinds=kinds if len(kinds) > 1 else [],
        scoped=[metric for metric in best.objectives if metric in SCOPED],
        apart=[name(arm) for arm in best.apart],
        more=len(best.points) - FRONT_ROWS,
    )
    title = "Best config" if len(best.objectives) == 1 else "Pareto-best configs"
    return Section(title, tables=(make_table(columns, shown),), paragraphs=notes)


def _value(metric: str, point: ParetoPoint) -> float:
    return point.values[metric]


def fronts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the two ends of each front: the least expensive config, and the most accurate one.

    Of several hardware classes only the fronts over all and those by time are listed.
    """
    if not summary.fronts:
        return None
    is_one_class = all(front.hardware is not None for front in summary.fronts)
    time = summary.fronts[0].expense
    shown = [f for f in summary.fronts if is_one_class or f.hardware is None or f.expense == time]
    accuracy = shown[0].accuracy
    columns: list[Column[tuple[TradeOff, ParetoPoint, str]]] = [
        Column("arm", lambda row: name(row[1].arm)),
        Column("end of the front", lambda row: row[2]),
        Column(accuracy, lambda row: row[1].values[row[0].accuracy]),
        Column("expense", _expense, numeric=True),
        Column("block", lambda row: row[1].block),
    ]
    table = make_table(columns, [row for trade_off in shown for row in _ends(trade_off, name)])
    notes = paragraphs(
        "sections/fronts.j2", accuracy=accuracy, has_more=len(shown) < len(summary.fronts)
    )
    return Section(f"Pareto fronts of {accuracy}", tables=(table,), paragraphs=notes)


def _ends(trade_off: TradeOff, name: ArmNames) -> list[tuple[TradeOff, ParetoPoint, str]]:
    points = trade_off.front.points
    best, least = points[0], min(points, key=lambda point: point.values[trade_off.expense])
    is_only_class = trade_off.hardware is None or name.hardware == str(trade_off.hardware)
    where = "" if is_only_class else f", {trade_off.hardware}"
    scope = f" ({trade_off.scope})" if trade_off.scope else ""
    title = f"least {trade_off.expense}{scope}{where}"
    size = f"({len(points)} of {trade_off.front.tried})"
    if least == best:
        return [(trade_off, least, f"{title}, and the most accurate {size}")]
    return [
        (trade_off, least, f"{title} {size}"),
        (trade_off, best, "the most accurate of this front"),
    ]


def _expense(row: tuple[TradeOff, ParetoPoint, str]) -> str:
    metric = row[0].expense
    return f"{number(row[1].values[metric])} {_UNITS.get(metric, '')}".strip()


def published(summary: ReportSummary, _: ArmNames) -> Section | None:
    """List every published row, and under it the nearest measured config of each arm."""
    matches = summary.published
    if not matches:
        return None
    metrics = list(dict.fromkeys(metric for match in matches for metric in match.row.metrics))
    rows: list[tuple[Any, ...]] = []
    for match in matches:
        row, config = match.row, config_text(match.row.config)
        values = map(row.metrics.get, metrics)
        rows.append(("published", row.implementation, row.hardware, *values, config))
        for own in match.measured:
            arm, differs = own.arm, "; ".join(own.differs) or "the same"
            values = map(own.values.get, metrics)
            rows.append(("here", arm.short_name, str(arm.hardware), *values, differs))
        if not match.measured:
            rows.append(("here", "not measured", ABSENT, *(None for _ in metrics), ABSENT))
    titles = ("", "implementation", "hardware", *metrics, "config")
    table = make_table([Column(title, itemgetter(i)) for i, title in enumerate(titles)], rows)
    sources = dict.fromkeys(
        f"{match.row.source}{f' ({match.row.note})' if match.row.note else ''}" for match in matches
    )
    notes = paragraphs("sections/published.j2", sources=sources)
    return Section("Published results", tables=(table,), paragraphs=notes)
