"""The sections of a report in their order: a summary becomes a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.matrix import Cell
from orchestrator.analysis.metrics.measures import Measure
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.document import Document, Row, Section, Table
from orchestrator.report.sections.best_configs import best_of_arm, config_text, fronts
from orchestrator.report.sections.crossovers import compiling, crossovers
from orchestrator.report.sections.energy_and_cost import spending, unlike_energies
from orchestrator.report.sections.learning_phases import learning, phases, telemetry
from orchestrator.report.sections.matrix_and_sizes import (
    extras,
    figure_text,
    matrix,
    scope_note,
    sizes,
    trainer_notes,
)
from orchestrator.report.sections.published import published
from orchestrator.report.sections.speedups import contrasts, speed
from orchestrator.report.sections.targets import attainment
from orchestrator.report.sections.validity import left_out, validity
from orchestrator.report.sections.verdict import verdicts
from orchestrator.report.wording.sentences import (
    ArmNames,
    arm_names,
    energy_kinds,
    mathematics_text,
    ranges_text,
)

FRONT_ROWS = 20
"""The most points of the front that are printed; the JSON format has all."""

CONFIG_WIDTH = 40
"""The longest config that fits into the table of the front; longer ones get their own table."""

SIDE_BY_SIDE = 4
"""Up to this many arms are the columns of the table of measures; more are its rows."""


def document(summary: ReportSummary) -> Document:
    """Make the report: verdicts first, then the figures behind them."""
    name = arm_names(summary)
    sections = (
        verdicts(summary, name),
        sweep(summary, name),
        speed(summary, name),
        contrasts(summary, name),
        matrix(summary, name),
        sizes(summary, name),
        crossovers(summary, name),
        compiling(summary, name),
        attainment(summary, name),
        arms(summary, name),
        best_of_arm(summary, name),
        front(summary, name),
        fronts(summary, name),
        learning(summary, name),
        phases(summary, name),
        spending(summary, name),
        telemetry(summary, name),
        published(summary),
        left_out(summary, name),
        validity(summary, name),
    )
    title = f"Sweep {summary.sweep.label}: {summary.sweep.workload}"
    return Document(title, tuple(section for section in sections if section is not None))


def sweep(summary: ReportSummary, name: ArmNames) -> Section:
    """Describe the sweep and its progress."""
    head, trials = summary.sweep, summary.sweep.trials
    rows = [
        ("state", head.state),
        ("trials", f"{trials.complete} complete of {trials.expected} expected; {trials.failed} "
         f"failed, {trials.wrong_kernel} wrong kernel, {_disturbed(summary)} disturbed, "
         f"{trials.missing} missing"),
        ("blocks", f"{head.blocks} × {head.repeats} repeat(s); {len(summary.complete_blocks)} "
         "complete on every arm"),
        ("hardware", name.hardware or "several classes, named with each arm"),
        ("settings", _settings_text(head.settings)),
        ("data", "; ".join(map(_data_text, head.datasets)) or ABSENT),
        ("search", f"{head.sampler or ABSENT}, seed {head.seed}"),
        ("objectives", ", ".join(f"{m} ({d})" for m, d in head.objectives.items()) or ABSENT),
        ("configs tried", ranges_text(summary.configs) or ABSENT),
        ("MLflow run", head.run_id),
    ]  # fmt: skip
    return Section("Sweep", tables=(Table(("sweep", head.label), tuple(rows)),))


def _disturbed(summary: ReportSummary) -> int:
    """Return the number of complete trials that were disturbed."""
    return sum(proof.disturbed for proof in summary.validity.arms)


def _settings_text(settings: Mapping[str, Any]) -> str:
    """List the settings that all trials share, without those that are not set."""
    given = {name: value for name, value in settings.items() if value is not None}
    return ", ".join(f"{name} {value}" for name, value in given.items()) or ABSENT


def _data_text(data: DatasetRecord) -> str:
    digest = f", SHA-256 {data.digest[:12]}…" if data.digest else ""
    return (
        f"{data.name} from {data.source}: {data.samples} to train on, {data.validation_samples} "
        f"to validate on{digest}"
    )


def arms(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm: median and quartiles."""
    if not any(arm.measures for arm in summary.arms):
        return None
    measures = (*summary.measures, *extras(summary))
    headers: Row = ("arm", "trials", *(measure.title for measure in measures))
    cells = {cell.arm: cell for cell in summary.matrix.cells}
    rows: list[Row] = [
        (name(arm.arm), str(arm.used), *_measure_cells(arm, cells[arm.arm], measures))
        for arm in summary.arms
    ]
    if len(rows) <= SIDE_BY_SIDE:
        headers, *rows = zip(("measure", *headers[1:]), *rows, strict=True)
    table = Table(headers, tuple(rows), frozenset(range(1, len(headers))), divisible=True)
    notes = [
        "Median (quartiles) over the complete trials of the rounds that are complete on every arm. "
        "n is given if it differs from the number of trials. The spread comes from the configs as "
        "well as from noise."
    ]
    if unmatched := [name(arm.arm) for arm in summary.arms if arm.measures and not arm.matched]:
        notes.append(f"Not matched, over all complete trials of the arm: {', '.join(unmatched)}.")
    if other := {name(arm.arm): arm.mathematics for arm in summary.arms if arm.mathematics}:
        notes.append(f"Different mathematics, so not comparable: {mathematics_text(other)}.")
    if with_other_work := [name(arm.arm) for arm in summary.arms if arm.arm.work]:
        notes.append(
            "Measured with another amount of work, as in their names: compare only their times per "
            f"step and per sample with other arms: {', '.join(with_other_work)}."
        )
    notes += [*trainer_notes(measures), *scope_note(summary, measures)]
    return Section("Arms", tables=(table,), paragraphs=tuple(notes))


def front(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the Pareto-best configs, or the best one if there is one objective."""
    best = summary.front
    if not best.points:
        return None
    shown = best.points[:FRONT_ROWS]
    scoped = len(energy_kinds(summary)) > 1
    headers = ("arm", "block", *best.objectives, *(["energy of"] if scoped else []), "trials")
    rows = tuple(
        (
            name(p.arm),
            str(p.block),
            *(number(p.values[m]) for m in best.objectives),
            *([p.scope or ABSENT] if scoped else []),
            str(p.repeats),
        )
        for p in shown
    )
    numeric = frozenset(range(1, len(headers)))
    configs = {str(p.block): config_text(p.config) for p in shown}
    if max(map(len, configs.values())) <= CONFIG_WIDTH:
        with_configs = tuple((*row, configs[row[1]]) for row in rows)
        tables = [Table((*headers, "config"), with_configs, numeric)]
    else:
        by_block = tuple(sorted(configs.items(), key=lambda item: int(item[0])))
        tables = [Table(headers, rows, numeric), Table(("block", "config"), by_block)]
    notes = [
        f"Of {best.tried} configs × arms, picked after the fact: not a comparison of arms. The "
        "best of several noisy values is likely a little optimistic."
    ]
    notes += filter(None, [unlike_energies(summary)])
    if best.left_out:
        notes.append(f"{best.left_out} excluded: a repeat failed, or an objective is missing.")
    if best.apart:
        unlike = any(arm.work for arm in (*best.apart, *(p.arm for p in best.points)))
        reason = "different mathematics or amount of work" if unlike else "different mathematics"
        notes.append(f"Not ranked, because of their {reason}: {', '.join(map(name, best.apart))}.")
    if len(best.points) > FRONT_ROWS:
        notes.append(f"{len(best.points) - FRONT_ROWS} more are in the JSON format.")
    title = "Best config" if len(best.objectives) == 1 else "Pareto-best configs"
    return Section(title, tables=tuple(tables), paragraphs=tuple(notes))


def _measure_cells(arm: ArmSummary, cell: Cell, measures: Sequence[Measure]) -> list[str]:
    cells = []
    for measure in measures:
        figure = cell.figures.get(measure.metric)
        partial = figure is not None and figure.n != arm.used
        text = figure_text(cell, measure)
        cells.append(text + (f" n={figure.n}" if figure and partial else ""))
    return cells
