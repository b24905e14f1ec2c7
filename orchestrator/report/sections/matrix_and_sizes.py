"""The sections with arms in a grid: hardware × implementation, and speed-ups by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from orchestrator.analysis.comparisons.by_size import BySize, SizeCell
from orchestrator.analysis.comparisons.matrix import Cell
from orchestrator.analysis.metrics.measures import FRESH_ONLY, SCOPED, Measure
from orchestrator.analysis.statistics.estimates import scaled
from orchestrator.analysis.statistics.formatting import ABSENT, quartiles, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames

_SHOWN = (
    *("samples_per_s", "sample_us", "epoch_s", "val_accuracy", "val_bits_per_char"),
    *("peak_rss_mib", "peak_gpu_mib", "energy_per_sample_j", "train_cost_usd"),
    *("load_s", "compile_s", "evaluate_s", "predict_s"),
)
"""The measures with a table by hardware, in this order; the section on arms has all measures."""

_PARAMS = 2
"""The most params that the text groups by; the JSON format has all that varied."""


def matrix(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a table for each measure, implementations by hardware; None for one hardware class."""
    grid = summary.matrix
    if len(grid.hardware) < 2 or not any(cell.figures for cell in grid.cells):
        return None
    tables = []
    if any(cell.speedup for cell in grid.cells):
        tables.append(_laid_out(summary, "speed-up (95 %)", _speedup))
    shown = [measure for measure in grid.measures if measure.metric in _SHOWN]
    shown.sort(key=lambda measure: _SHOWN.index(measure.metric))
    tables += [
        _laid_out(summary, measure.title, partial(figure_text, measure=measure))
        for measure in shown
    ]
    notes = [
        "Medians (quartiles) over the rounds that are complete on every arm. A cell is empty if "
        "the sweep does not have that arm, or could not run it."
    ]
    if any(cell.mode == "timing" for cell in grid.cells):
        notes.append(
            "Arms on hardware [timing] were timed in slices: they have times per step and per "
            "sample, and no accuracy."
        )
    notes += [*trainer_notes(shown), *scope_note(summary, shown)]
    return Section("Hardware × implementation", tables=tuple(tables), paragraphs=tuple(notes))


def _laid_out(summary: ReportSummary, title: str, write: Callable[[Cell], str]) -> Table:
    grid = summary.matrix
    cells = {(cell.arm.implementation, cell.arm.hardware): write(cell) for cell in grid.cells}
    rows = tuple(
        (implementation, *(cells.get((implementation, hardware), "") for hardware in grid.hardware))
        for implementation in grid.implementations
    )
    headers = (title, *map(str, grid.hardware))
    return Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)


def _speedup(cell: Cell) -> str:
    return ratio(cell.speedup) if cell.speedup else (cell.verdict or ABSENT)


def figure_text(cell: Cell, measure: Measure) -> str:
    """Write median and quartiles, and the scope of an energy."""
    figure = cell.figures.get(measure.metric)
    if figure is None:
        return ABSENT
    shown = quartiles(scaled(figure, measure.per))
    scoped = measure.metric in SCOPED and cell.energy_scope
    return f"{shown} {cell.energy_scope}" if scoped else shown


def trainer_notes(measures: Sequence[Measure]) -> list[str]:
    """Explain which trials count for which measure: it depends on the age of their trainer."""
    if any(measure.trainer != "any" for measure in measures):
        return [
            "Load and compile times exclude the first trial of each trainer process; peak memory "
            "counts only that first trial. – means that there is no comparable trial."
        ]
    if any(measure.metric in FRESH_ONLY for measure in measures):
        return [
            "Every trial had a fresh trainer process: peak memory is comparable, and load and "
            "compile times include the start of the process."
        ]
    return []


def scope_note(summary: ReportSummary, measures: Iterable[Measure]) -> list[str]:
    """Warn of energies of different kinds in one table."""
    scopes = {cell.energy_scope for cell in summary.matrix.cells if cell.energy_scope}
    if len(scopes) < 2 or not any(measure.metric in SCOPED for measure in measures):
        return []
    return ["Energies are of different kinds, as labelled: compare only those of one kind."]


def extras(summary: ReportSummary) -> tuple[Measure, ...]:
    """Return the measures of the matrix that the table of arms has, too; not energy and cost."""
    own = {measure.metric for measure in summary.measures}
    return tuple(
        measure
        for measure in summary.matrix.measures
        if measure.metric == "epoch_s" and measure.metric not in own
    )


def sizes(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List times and speed-ups of the matched blocks by size, for the params with most effect."""
    shown = [by_size for by_size in summary.sizes if len(by_size.groups) > 1][:_PARAMS]
    if not shown or summary.time_metric is None:
        return None
    notes = [
        "Speed-ups (95 %) over the baseline, and the baseline's own time, over the n blocks with "
        "that size, whatever their other params. With one block, every arm has its time instead. "
        "These intervals are not corrected for their number, and give no verdict."
    ]
    if len(summary.sizes) > len(shown):
        rest = ", ".join(by_size.param for by_size in summary.sizes[len(shown) :])
        notes.append(f"The JSON format has the same by {rest}.")
    tables = tuple(_by_param(by_size, summary, name) for by_size in shown)
    return Section("By size", tables=tables, paragraphs=tuple(notes))


def _by_param(by_size: BySize, summary: ReportSummary, name: ArmNames) -> Table:
    headers = (by_size.param, *(f"{g.label} (n={len(g.blocks)})" for g in by_size.groups))
    arms = [cell.arm for cell in by_size.groups[0].cells]
    rows = []
    for i, arm in enumerate(arms):
        cells = [group.cells[i] for group in by_size.groups]
        rows.append((name(arm), *(_size_cell(cell, summary) for cell in cells)))
    return Table(headers, tuple(rows), frozenset(range(1, len(headers))), divisible=True)


def _size_cell(cell: SizeCell, summary: ReportSummary) -> str:
    if cell.speedup is not None:
        return ratio(cell.speedup)
    if cell.time is None:
        return ABSENT
    unit = "ms" if summary.time_metric == "step_ms" else "s"
    return f"{quartiles(cell.time)} {unit}"
