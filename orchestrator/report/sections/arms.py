"""The sections on the figures of arms: measures, by hardware, by size, by epoch and by phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.arms.best_configs import ACCURACIES
from orchestrator.analysis.arms.over_time import PHASES, LearningCurve, PhaseSplit, TelemetryCurves
from orchestrator.analysis.comparisons.by_size import BySize, SizeGroup
from orchestrator.analysis.measures import FRESH_ONLY, SCOPED, Measure
from orchestrator.analysis.statistics.estimates import scaled
from orchestrator.analysis.statistics.formatting import ABSENT, number, quartiles, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames

_BY_HARDWARE = (
    *("samples_per_s", "sample_us", "epoch_s", "val_accuracy", "val_bits_per_char"),
    *("peak_rss_mib", "peak_gpu_mib", "energy_per_sample_j", "train_cost_usd"),
    *("load_s", "compile_s", "evaluate_s", "predict_s"),
)
"""The measures with a table by hardware, in this order; the section on arms has all measures."""

_PARAMS = 2
"""The most params that the text groups by; the JSON format has all that varied."""

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


def arms(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm: median and quartiles."""
    rows = summary.arms
    if not any(arm.measures for arm in rows):
        return None
    own = {measure.metric for measure in summary.measures}
    extras = (m for m in summary.expenses if m.metric == "epoch_s" and m.metric not in own)
    measures = (*summary.measures, *extras)

    def figure(arm: ArmSummary, measure: Measure) -> str:
        spread = arm.measures.get(measure.metric)
        partial_n = f" n={spread.n}" if spread and spread.n != arm.used else ""
        return _figure(measure, arm) + partial_n

    if len(rows) <= SIDE_BY_SIDE:
        trials = Measure("", "trials", "")
        by_arm: list[Column[Measure]] = [Column("measure", lambda measure: measure.title)]
        for arm in rows:
            by_arm.append(Column(name(arm.arm), partial(figure, arm), numeric=True))
        table = make_table(by_arm, measures, divisible=True)
        counts = (trials.label, *(str(arm.used) for arm in rows))
        table = Table(table.headers, (counts, *table.rows), table.numeric, divisible=True)
    else:
        by_measure: list[Column[ArmSummary]] = [
            Column("arm", lambda arm: name(arm.arm)),
            Column("trials", lambda arm: arm.used),
            *(Column(m.title, partial(figure, measure=m), numeric=True) for m in measures),
        ]
        table = make_table(by_measure, rows, divisible=True)
    notes = paragraphs(
        "sections/arms.j2",
        unmatched=[name(arm.arm) for arm in rows if arm.measures and not arm.matched],
        mathematics=[f"{name(a.arm)} ({a.mathematics})" for a in rows if a.mathematics],
        other_work=[name(arm.arm) for arm in rows if arm.arm.work],
        measure_notes=_measure_notes(summary, measures),
    )
    return Section("Arms", tables=(table,), paragraphs=notes)


def matrix(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a table for each measure, implementations by hardware; None for one hardware class."""
    arms = {(row.arm.implementation, row.arm.hardware): row for row in summary.arms}
    classes = dict.fromkeys(row.arm.hardware for row in summary.arms)
    if len(classes) < 2 or not any(row.measures for row in summary.arms):
        return None

    def value(
        hardware: HardwareUse, write: Callable[[ArmSummary], str], implementation: str
    ) -> str:
        arm = arms.get((implementation, hardware))
        return write(arm) if arm else ""

    def by_hardware(title: str, write: Callable[[ArmSummary], str]) -> Table:
        columns: list[Column[str]] = [Column(title, str)]
        for hardware in classes:
            columns.append(Column(str(hardware), partial(value, hardware, write), numeric=True))
        implementations = dict.fromkeys(row.arm.implementation for row in summary.arms)
        return make_table(columns, implementations, divisible=True)

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


def _speedup(arm: ArmSummary) -> str:
    return ratio(arm.speedup) if arm.speedup else (arm.verdict or ABSENT)


def _figure(measure: Measure, arm: ArmSummary) -> str:
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


def sizes(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List times and speed-ups of the matched blocks by size, for the params with most effect."""
    shown = [by_size for by_size in summary.sizes if len(by_size.groups) > 1][:_PARAMS]
    if not shown or summary.time_metric is None:
        return None
    rest = summary.sizes[len(shown) :]
    unit = "ms" if summary.time_metric == "step_ms" else "s"
    tables = tuple(_by_param(by_size, unit, name) for by_size in shown)
    return Section("By size", tables=tables, paragraphs=paragraphs("sections/sizes.j2", rest=rest))


def _by_param(by_size: BySize, unit: str, name: ArmNames) -> Table:
    def value(group: SizeGroup, arm: Arm) -> str | None:
        (cell,) = (cell for cell in group.cells if cell.arm == arm)
        if cell.speedup is not None:
            return ratio(cell.speedup)
        return f"{quartiles(cell.time)} {unit}" if cell.time else None

    columns: list[Column[Arm]] = [Column(by_size.param, name)]
    for group in by_size.groups:
        title = f"{group.label} (n={len(group.blocks)})"
        columns.append(Column(title, partial(value, group), numeric=True))
    return make_table(columns, [cell.arm for cell in by_size.groups[0].cells], divisible=True)


def learning(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the accuracy of each arm after the first, the middle and the last epoch, and when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((accuracy for accuracy in ACCURACIES if accuracy in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    epochs = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(epochs) - 1
    columns: list[Column[LearningCurve]] = [
        Column("arm", lambda curve: name(curve.arm)),
        Column("blocks", lambda curve: curve.points[0].value.n),
    ]
    for epoch in (epochs[place] for place in sorted({0, last // 2, last})):
        columns.append(Column(f"after epoch {epoch}", partial(_at, epoch), numeric=True))
    unmatched = [name(curve.arm) for curve in curves if not curve.matched]
    notes = paragraphs("sections/learning.j2", metric=metric, unmatched=unmatched)
    table = make_table(columns, curves, divisible=True)
    return Section("Learning", tables=(table,), paragraphs=notes)


def _at(epoch: int, curve: LearningCurve) -> str | None:
    points = [point for point in curve.points if point.epoch == epoch]
    return (
        f"{number(points[0].value.median)} at {_seconds(points[0].seconds)} s" if points else None
    )


def phases(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the mean seconds of each phase, by arm."""
    splits = summary.phases
    if not splits:
        return None
    columns: list[Column[PhaseSplit]] = [
        Column("seconds of", lambda split: name(split.arm)),
        Column("trials", lambda split: split.trials),
    ]
    for phase in PHASES:
        seconds = partial(_seconds_of, phase)
        columns.append(
            Column(phase.removesuffix("_s"), seconds, show=_seconds, numeric=True, optional=True)
        )
    has_slices = any("timed_s" in split.seconds for split in splits)
    notes = paragraphs("sections/phases.j2", has_slices=has_slices)
    table = make_table(columns, splits, divisible=True)
    return Section("Time by phase", tables=(table,), paragraphs=notes)


def _seconds_of(phase: str, split: PhaseSplit) -> float | None:
    return split.seconds.get(phase)


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def telemetry(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the median and the highest value of each curve, for one trial of each arm."""
    trials = summary.curves
    if not any(trial.curves.keys() & {key for key, *_ in _CURVES} for trial in trials):
        return None
    columns: list[Column[TelemetryCurves]] = [Column("arm", lambda trial: name(trial.arm))]
    for key, title, unit, per in _CURVES:
        columns.append(Column(title, partial(_curve, key, per), unit, numeric=True, optional=True))
    columns.append(Column("run", lambda trial: trial.run_id))
    table = make_table(columns, trials, divisible=True)
    notes = paragraphs("sections/telemetry.j2", trials=trials)
    return Section("Telemetry", tables=(table,), paragraphs=notes)


def _curve(key: str, per: float, trial: TelemetryCurves) -> str | None:
    values = [value * per for value in trial.curves.get(key, ()) if value is not None]
    return f"{median(values):.0f}, at most {max(values):.0f}" if values else None
