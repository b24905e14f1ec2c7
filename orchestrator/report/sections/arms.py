"""The sections on figures of arms (by hardware, epoch and phase; energy, cost) and of configs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any, TypeAlias

from orchestrator.analysis.arms import arm_summary
from orchestrator.analysis.arms.best_configs import ACCURACIES, ParetoPoint, TradeOff
from orchestrator.analysis.measures import EXPENSES, FRESH_ONLY, MEASURES, SCOPED, Measure
from orchestrator.analysis.statistics.estimates import Spread, scaled, spread
from orchestrator.analysis.statistics.formatting import ABSENT, number, quartiles, speed_ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Column, Row, Section, Table, make_table
from orchestrator.report.wording import ArmNames, config_text, energy_kinds, grouped, paragraphs

_BY_HARDWARE = (
    *("samples_per_s", "sample_us", "epoch_s", "val_accuracy", "val_bits_per_char"),
    *("peak_rss_mib", "peak_gpu_mib", "energy_per_sample_j", "train_cost_usd"),
    *("load_s", "compile_s", "evaluate_s", "predict_s"),
)
"""The measures with a table by hardware, in this order; the section on arms has all measures."""

SIDE_BY_SIDE = 4
"""Up to this many arms are the columns of the table of measures; more are its rows."""

_MB_IN_MIB = 1e6 / 2**20
"""MLflow records curves in decimal megabytes."""

_CURVES = (
    ("system/cpu_trainer_percentage", "trainer on CPU", "%", 1.0),
    ("system/cpu_others_percentage", "others on CPU", "%", 1.0),
    ("system/gpu_0_utilization_percentage", "GPU busy", "%", 1.0),
    ("system/trainer_memory_usage_megabytes", "memory", "MiB", _MB_IN_MIB),
    ("system/gpu_0_memory_usage_megabytes", "GPU memory", "MiB", _MB_IN_MIB),
    ("system/gpu_0_temperature_celsius", "GPU", "°C", 1.0),
    ("system/cpu_temperature_celsius", "CPU", "°C", 1.0),
)


_ENERGY = (
    Measure("energy_j", "energy", "J"),
    Measure("energy_gpu_j", "GPUs only", "J"),
    Measure("energy_per_sample_j", "per sample", "mJ", per=1e-3),
    Measure("mean_power_w", "power", "W"),
)
_COST = (Measure("cost_usd", "per trial", "USD"), Measure("train_cost_usd", "timed epochs", "USD"))

_Group: TypeAlias = tuple[tuple[Arm, str], list[FinishedTrial]]
"""The trials of one arm with one qualifier, such as the scope of an energy."""


def arms(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm: median and quartiles."""
    rows = summary.arms
    if not any(arm.measures for arm in rows):
        return None
    own = {measure.metric for measure in summary.measures}
    extras = (m for m in summary.expenses if m.metric == "epoch_s" and m.metric not in own)
    measures = (*summary.measures, *extras)

    def figure(measure: Measure, arm: arm_summary.ArmSummary) -> str:
        shown = arm.measures.get(measure.metric)
        partial_n = f" n={shown.n}" if shown and shown.n != arm.used else ""
        return _figure(measure, arm) + partial_n

    columns: list[Column[arm_summary.ArmSummary]] = [
        Column("arm", lambda arm: name(arm.arm)),
        Column("trials", lambda arm: arm.used),
        *(Column(m.title, partial(figure, m), numeric=True) for m in measures),
    ]
    table = make_table(columns, rows, divisible=True)
    if len(rows) <= SIDE_BY_SIDE:
        (_, *arm_names), *cells = zip(table.headers, *table.rows, strict=True)
        table = _numbers(("measure", *arm_names), cells)
    notes = paragraphs(
        "sections/arms.j2",
        unmatched=[name(arm.arm) for arm in rows if arm.measures and not arm.matched],
        other_work=[name(arm.arm) for arm in rows if arm.arm.work],
        measure_notes=_measure_notes(summary, measures),
    )
    return Section("Arms", tables=(table,), paragraphs=notes)


def matrix(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a table for each measure, implementations by hardware; None for one hardware class."""
    arms = {(row.arm.short_name, row.arm.hardware): row for row in summary.arms}
    classes = dict.fromkeys(row.arm.hardware for row in summary.arms)
    if len(classes) < 2 or not any(row.measures for row in summary.arms):
        return None

    def by_hardware(title: str, write: Callable[[arm_summary.ArmSummary], str]) -> Table:
        rows = [
            (own, *(write(arm) if (arm := arms.get((own, used))) else "" for used in classes))
            for own in dict.fromkeys(row.arm.short_name for row in summary.arms)
        ]
        return _numbers((title, *map(str, classes)), rows)

    every = (*summary.measures, *summary.expenses)
    measures = [measure for measure in every if measure.metric in _BY_HARDWARE]
    measures.sort(key=lambda measure: _BY_HARDWARE.index(measure.metric))
    tables = [by_hardware(measure.title, partial(_figure, measure)) for measure in measures]
    if any(row.speedup for row in summary.arms):
        tables.insert(0, by_hardware("speed-up (95 %)", _speedup))
    notes = paragraphs(
        "sections/matrix.j2",
        has_slices=any(row.arm.measure == "timing" for row in summary.arms),
        measure_notes=_measure_notes(summary, measures),
    )
    return Section("Hardware × implementation", tables=tuple(tables), paragraphs=notes)


def _numbers(headers: Row, rows: Iterable[Row]) -> Table:
    """Make a table whose columns all have numbers, except the names of the rows."""
    return Table(headers, tuple(rows), frozenset(range(1, len(headers))), divisible=True)


def _speedup(arm: arm_summary.ArmSummary) -> str:
    return speed_ratio(arm.speedup) if arm.speedup else (arm.verdict or ABSENT)


def _figure(measure: Measure, arm: arm_summary.ArmSummary) -> str:
    """Write median and quartiles, and the scope of an energy."""
    figure = arm.measures.get(measure.metric)
    if figure is None:
        return ABSENT
    shown = quartiles(scaled(figure, measure.per))
    scoped = measure.metric in SCOPED and arm.energy_scope
    return f"{shown} {arm.energy_scope}" if scoped else shown


def _measure_notes(summary: ReportSummary, measures: Sequence[Measure]) -> tuple[str, ...]:
    """Explain which trials count for which measure, and warn of energies of different kinds."""
    scopes = {arm.energy_scope for arm in summary.arms if arm.energy_scope}
    return paragraphs(
        "sections/measures.j2",
        depends_on_trainer=any(measure.trainer != "any" for measure in measures),
        has_memory=any(measure.metric in FRESH_ONLY for measure in measures),
        has_scopes=len(scopes) > 1 and any(measure.metric in SCOPED for measure in measures),
    )


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
        Column("blocks", lambda curve: curve.points[0].value.n),
    ]
    for epoch in (epochs[place] for place in sorted({0, last // 2, last})):
        columns.append(Column(f"after epoch {epoch}", partial(_at, epoch), numeric=True))
    unmatched = [name(curve.arm) for curve in curves if not curve.matched]
    notes = paragraphs("sections/learning.j2", metric=metric, unmatched=unmatched)
    table = make_table(columns, curves, divisible=True)
    return Section("Learning", tables=(table,), paragraphs=notes)


def _at(epoch: int, curve: arm_summary.LearningCurve) -> str | None:
    points = [point for point in curve.points if point.epoch == epoch]
    return (
        f"{number(points[0].value.median)} at {_seconds(points[0].seconds)} s" if points else None
    )


def phases(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the mean seconds of each phase, by arm."""
    splits = summary.phases
    if not splits:
        return None
    columns: list[Column[arm_summary.PhaseSplit]] = [
        Column("seconds of", lambda split: name(split.arm)),
        Column("trials", lambda split: split.trials),
        *(
            Column(p.removesuffix("_s"), partial(_phase, p), numeric=True, optional=True)
            for p in arm_summary.PHASES
        ),
    ]
    has_slices = any("timed_s" in split.seconds for split in splits)
    notes = paragraphs("sections/phases.j2", has_slices=has_slices)
    table = make_table(columns, splits, divisible=True)
    return Section("Time by phase", tables=(table,), paragraphs=notes)


def _phase(phase: str, split: arm_summary.PhaseSplit) -> str | None:
    return _seconds(split.seconds[phase]) if phase in split.seconds else None


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def telemetry(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the median and the highest value of each curve, for one trial of each arm."""
    trials = summary.curves
    if not any(trial.curves.keys() & {key for key, *_ in _CURVES} for trial in trials):
        return None
    columns: list[Column[arm_summary.TelemetryCurves]] = [
        Column("arm", lambda trial: name(trial.arm))
    ]
    for key, title, unit, per in _CURVES:
        columns.append(Column(title, partial(_curve, key, per), unit, numeric=True, optional=True))
    columns.append(Column("run", lambda trial: trial.run_id))
    table = make_table(columns, trials, divisible=True)
    notes = paragraphs("sections/telemetry.j2", trials=trials)
    return Section("Telemetry", tables=(table,), paragraphs=notes)


def _curve(key: str, per: float, trial: arm_summary.TelemetryCurves) -> str | None:
    values = [value * per for value in trial.curves.get(key, ()) if value is not None]
    return f"{median(values):.0f}, at most {max(values):.0f}" if values else None


def spending(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List energy by scope, as unlike scopes are not comparable, and cost with its basis.

    Return None if no energy was measured and nothing has a price.
    """
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    energies = _groups(summary, _ENERGY, lambda trial: trial.telemetry.energy_scope)
    costs = _groups(summary, _COST, lambda trial: trial.cost_basis)
    if not energies and not costs:
        return None
    arm: Column[_Group] = Column("arm", lambda group: name(group[0][0]))
    trials: Column[_Group] = Column("trials", lambda group: len(group[1]))
    scope: Column[_Group] = Column("energy of", lambda group: group[0][1])
    basis: Column[_Group] = Column("price", lambda group: group[0][1])
    tables = []
    if energies:
        tables.append(make_table([arm, scope, trials, *map(_column, _ENERGY)], energies))
    if costs:
        tables.append(make_table([arm, trials, *map(_column, _COST), basis], costs))
    notes = paragraphs(
        "sections/energy_and_cost.j2",
        has_energy=bool(energies),
        has_cost=bool(costs),
        is_shared=any("cost_usd" in t.metrics and t.arm.measure == "timing" for t in complete),
        absent=[reason for trial in complete if (reason := trial.telemetry.energy_absent)],
    )
    return Section("Energy and cost", tables=tuple(tables), paragraphs=notes)


def _column(measure: Measure) -> Column[_Group]:
    def value(group: _Group) -> Spread | None:
        metric = measure.metric
        return spread([t.metrics[metric] / measure.per for t in group[1] if metric in t.metrics])

    return Column(measure.label, value, measure.unit, quartiles, optional=True)


def _groups(
    summary: ReportSummary,
    measures: Sequence[Measure],
    qualifier: Callable[[FinishedTrial], str | None],
) -> list[_Group]:
    """Group the complete trials that have one of the measures, by arm and qualifier."""
    groups = grouped(
        ((trial.arm, qualifier(trial) or ABSENT), trial)
        for trial in summary.trials
        if trial.status == "complete" and any(m.metric in trial.metrics for m in measures)
    )
    place = {arm.arm: i for i, arm in enumerate(summary.arms)}
    return sorted(groups.items(), key=lambda group: (place[group[0][0]], group[0][1]))


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
