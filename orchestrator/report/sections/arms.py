"""The sections on figures of arms (by epoch and phase; energy, cost) and of configs."""

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from orchestrator.analysis.arms import arm_summary
from orchestrator.analysis.arms.best_configs import ACCURACIES, ParetoPoint, TradeOff
from orchestrator.analysis.measures import (
    CONDITIONS,
    EXPENSES,
    MEASURES,
    Measure,
)
from orchestrator.analysis.statistics.estimates import scaled
from orchestrator.analysis.statistics.formatting import ABSENT, number, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording import ArmNames, config_text, energy_kinds, paragraphs
from workloads.metrics import FRESH_ONLY, WITH_ENERGY_SCOPE

SIDE_BY_SIDE = 4
"""Up to this many arms are the columns of the table of measures; more are its rows."""


def arms(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm: median and quartiles."""
    rows = summary.arms
    if not any(arm.measures for arm in rows):
        return None
    measures = (*summary.measures, *summary.expenses)
    scoped = [measure for measure in measures if measure.metric in WITH_ENERGY_SCOPE]
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    columns: list[Column[arm_summary.ArmSummary]] = [
        Column("arm", lambda arm: name(arm.arm)),
        Column("trials", lambda arm: arm.used),
        *(Column(m.title, partial(_figure, m), numeric=True) for m in measures),
    ]
    table = make_table(columns, rows, divisible=True)
    if len(rows) <= SIDE_BY_SIDE:
        (_, *arm_names), *cells = zip(table.headers, *table.rows, strict=True)
        figures = frozenset(range(1, len(rows) + 1))
        table = Table(("measure", *arm_names), tuple(cells), figures, divisible=True)
    notes = paragraphs(
        "sections/arms.j2",
        unmatched=[name(arm.arm) for arm in rows if arm.measures and not arm.matched],
        other_work=[name(arm.arm) for arm in rows if arm.arm.work],
        depends_on_trainer=any(measure.trainer != "any" for measure in measures),
        has_memory=any(measure.metric in FRESH_ONLY for measure in measures),
        scopes={arm.energy_scope for arm in rows if arm.energy_scope and scoped},
        prices=dict.fromkeys(trial.cost_basis for trial in complete if trial.cost_basis),
        absent=[reason for trial in complete if (reason := trial.telemetry.energy_absent)],
    )
    return Section("Arms", tables=(table,), paragraphs=notes)


def _figure(measure: Measure, arm: arm_summary.ArmSummary) -> str:
    """Write median and quartiles, the scope of an energy, and how many trials if that differs."""
    figure = arm.measures.get(measure.metric)
    if figure is None:
        return ABSENT
    scope = (
        f" {arm.energy_scope}" if measure.metric in WITH_ENERGY_SCOPE and arm.energy_scope else ""
    )
    trials = f" n={figure.n}" if figure.n != arm.used else ""
    return quartiles(scaled(figure, measure.per)) + scope + trials


def learning(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the accuracy of each arm after the first, the middle and the last epoch, and when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((accuracy for accuracy in ACCURACIES if accuracy in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    epochs = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(epochs) - 1
    columns: list[Column[arm_summary.LearningCurve]] = [
        Column("arm", lambda curve: name(curve.arm)),
        Column("configs", lambda curve: curve.points[0].value.n),
    ]
    for epoch in (epochs[place] for place in sorted({0, last // 2, last})):
        columns.append(Column(f"after epoch {epoch}", partial(_at, epoch), numeric=True))
    unmatched = [name(curve.arm) for curve in curves if not curve.matched]
    notes = paragraphs("sections/learning.j2", metric=metric, unmatched=unmatched)
    table = make_table(columns, curves, divisible=True)
    return Section("Learning", tables=(table,), paragraphs=notes)


def _at(epoch: int, curve: arm_summary.LearningCurve) -> str | None:
    points = [point for point in curve.points if point.epoch == epoch]
    return f"{number(points[0].value.median)} at {number(points[0].seconds)} s" if points else None


def phases(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the mean seconds of each phase, by arm."""
    splits = summary.phases
    if not splits:
        return None
    columns: list[Column[arm_summary.PhaseSplit]] = [
        Column("seconds of", lambda split: name(split.arm)),
        Column("trials", lambda split: split.trials),
        *(
            Column(p.removesuffix("_s"), partial(_seconds, p), optional=True)
            for p in arm_summary.PHASES
        ),
    ]
    has_slices = any("timed_s" in split.seconds for split in splits)
    notes = paragraphs("sections/phases.j2", has_slices=has_slices)
    table = make_table(columns, splits, divisible=True)
    return Section("Time by phase", tables=(table,), paragraphs=notes)


def _seconds(phase: str, split: arm_summary.PhaseSplit) -> float | None:
    return split.seconds.get(phase)


def telemetry(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the use of the devices, clocks, energy and disturbed trials of each arm: medians."""
    columns: list[Column[arm_summary.ArmSummary]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("disturbed", lambda row: f"{row.disturbed} of {row.trials.complete}", numeric=True),
        *(Column(m.title, partial(_median, m.metric), optional=True) for m in CONDITIONS),
    ]
    table = make_table(columns, summary.arms, divisible=True)
    note = "reading | Medians over the complete trials of an arm, during their timed epochs."
    return Section("Telemetry", tables=(table,), paragraphs=(note,)) if table.headers[2:] else None


def _median(metric: str, row: arm_summary.ArmSummary) -> float | None:
    figure = row.noise.get(metric) or row.measures.get(metric)
    return figure.median if figure else None


FRONT_ROWS = 20
"""The most points of the front that are printed."""

_UNITS = {measure.metric: measure.unit for measure in (*MEASURES, *EXPENSES) if measure.per == 1}


def front(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the Pareto-best configs, or the best one if there is one objective."""
    best = summary.front
    if not best.points:
        return None
    shown, kinds = best.points[:FRONT_ROWS], energy_kinds(summary)
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("config no.", lambda point: point.block),
        *(Column(metric, _by(metric)) for metric in best.objectives),
    ]
    if len(kinds) > 1:
        columns.append(Column("energy of", lambda point: point.scope, numeric=True))
    columns.append(Column("trials", lambda point: point.repeats))
    columns.append(Column("config", lambda point: config_text(point.config)))
    notes = paragraphs(
        "sections/front.j2",
        front=best,
        kinds=kinds if len(kinds) > 1 else [],
        scoped=[metric for metric in best.objectives if metric in WITH_ENERGY_SCOPE],
        apart=[name(arm) for arm in best.apart],
        more=len(best.points) - FRONT_ROWS,
        label=summary.sweep.label,
    )
    title = "Best config" if len(best.objectives) == 1 else "Pareto-best configs"
    return Section(title, tables=(make_table(columns, shown),), paragraphs=notes)


def fronts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the two ends of each front: the most accurate config, and the least expensive one.

    Of several hardware classes only the fronts over all are listed.
    """
    shown = [front for front in summary.fronts if name.hardware or front.hardware is None]
    if not shown:
        return None

    def end(point: ParetoPoint, front: TradeOff) -> str:
        value = f"{number(point.values[front.expense])} {_UNITS.get(front.expense, '')}".strip()
        where = f"{config_text(point.config)} on {name(point.arm)}"
        return f"{number(point.values[front.accuracy])}, {value}: {where}"

    accuracy = shown[0].accuracy
    columns: list[Column[TradeOff]] = [
        Column("against", lambda f: ", ".join(filter(None, (f.expense, f.scope)))),
        Column("points", lambda front: len(front.front.points)),
        Column("the most accurate", lambda f: end(f.front.points[0], f)),
        Column("the least", lambda f: end(min(f.front.points, key=_by(f.expense)), f)),
    ]
    notes = paragraphs("sections/fronts.j2", accuracy=accuracy)
    table = make_table(columns, shown)
    return Section(f"Pareto fronts of {accuracy}", tables=(table,), paragraphs=notes)


def _by(metric: str) -> Callable[[ParetoPoint], float]:
    return lambda point: point.values[metric]


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
