"""The sections that lay arms out: hardware × implementation, and the same by size."""

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
"""What is laid out by hardware, in this order; all measures stand with each arm."""

_PARAMS = 2
"""How many params the text tells sizes by; the JSON format has all that varied."""


def matrix(summary: ReportSummary, name: ArmNames) -> Section | None:
    """One table a measure, implementations by hardware; None for one hardware class alone."""
    found = summary.matrix
    if len(found.hardware) < 2 or not any(cell.figures for cell in found.cells):
        return None
    tables = []
    if any(cell.speedup for cell in found.cells):
        tables.append(_laid_out(summary, "speed-up (95 %)", _speedup))
    shown = [each for each in found.measures if each.metric in _SHOWN]
    shown.sort(key=lambda each: _SHOWN.index(each.metric))
    tables += [_laid_out(summary, each.title, partial(figure_text, measure=each)) for each in shown]
    notes = [
        "Medians (quartiles) over the rounds that are complete on every arm. An empty place is an "
        "arm that the sweep does not have, or could not run."
    ]
    if any(cell.mode == "timing" for cell in found.cells):
        notes.append(
            "What stands under hardware [timing] was timed in slices: it has times per step and "
            "sample, and learned nothing."
        )
    notes += [*trainer_notes(shown), *scope_note(summary, shown)]
    return Section("Hardware × implementation", tables=tuple(tables), paragraphs=tuple(notes))


def _laid_out(summary: ReportSummary, title: str, tell: Callable[[Cell], str]) -> Table:
    found = summary.matrix
    cells = {(cell.arm.implementation, cell.arm.hardware): tell(cell) for cell in found.cells}
    rows = tuple(
        (kind, *(cells.get((kind, where), "") for where in found.hardware))
        for kind in found.implementations
    )
    headers = (title, *map(str, found.hardware))
    return Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)


def _speedup(cell: Cell) -> str:
    return ratio(cell.speedup) if cell.speedup else (cell.verdict or ABSENT)


def figure_text(cell: Cell, measure: Measure) -> str:
    """Median and quartiles, and of an energy what it is that of."""
    figure = cell.figures.get(measure.metric)
    if figure is None:
        return ABSENT
    shown = quartiles(scaled(figure, measure.per))
    scoped = measure.metric in SCOPED and cell.energy_scope
    return f"{shown} {cell.energy_scope}" if scoped else shown


def trainer_notes(measures: Sequence[Measure]) -> list[str]:
    """Which trials count for what depends on how much their trainer had done before."""
    if any(measure.trainer != "any" for measure in measures):
        return [
            "Load and compile times leave out each trainer process's first trial; peak memory "
            "counts only that first one. – is: no comparable trial."
        ]
    if any(measure.metric in FRESH_ONLY for measure in measures):
        return [
            "Every trial had a fresh trainer process: peak memory can be compared, and load and "
            "compile times hold what its start costs."
        ]
    return []


def scope_note(summary: ReportSummary, measures: Iterable[Measure]) -> list[str]:
    """That energies of unlike kinds stand beside each other, where they do."""
    scopes = {cell.energy_scope for cell in summary.matrix.cells if cell.energy_scope}
    if len(scopes) < 2 or not any(measure.metric in SCOPED for measure in measures):
        return []
    return ["Energies are of unlike kinds, as they say: compare those of one kind only."]


def extras(summary: ReportSummary) -> tuple[Measure, ...]:
    """The measures of the matrix that are told with each arm too: energy and cost stand apart."""
    own = {measure.metric for measure in summary.measures}
    return tuple(
        measure
        for measure in summary.matrix.measures
        if measure.metric == "epoch_s" and measure.metric not in own
    )


def sizes(summary: ReportSummary, name: ArmNames) -> Section | None:
    """The times and speed-ups of the matched blocks by the params that tell most."""
    found = [each for each in summary.sizes if len(each.groups) > 1][:_PARAMS]
    if not found or summary.time_metric is None:
        return None
    notes = [
        "Speed-ups (95 %) over the baseline, and its own time, or each one's time where there is "
        "one block: over the n blocks with that size, whatever their other params. These "
        "intervals are not corrected for being many, and give no verdict."
    ]
    if len(summary.sizes) > len(found):
        rest = ", ".join(each.param for each in summary.sizes[len(found) :])
        notes.append(f"By {rest}: in the JSON format.")
    tables = tuple(_by_param(each, summary, name) for each in found)
    return Section("By size", tables=tables, paragraphs=tuple(notes))


def _by_param(found: BySize, summary: ReportSummary, name: ArmNames) -> Table:
    headers = (found.param, *(f"{g.label} (n={len(g.blocks)})" for g in found.groups))
    arms = [cell.arm for cell in found.groups[0].cells]
    rows = []
    for i, arm in enumerate(arms):
        cells = [group.cells[i] for group in found.groups]
        rows.append((name(arm), *(_size_cell(cell, summary) for cell in cells)))
    return Table(headers, tuple(rows), frozenset(range(1, len(headers))), divisible=True)


def _size_cell(cell: SizeCell, summary: ReportSummary) -> str:
    if cell.speedup is not None:
        return ratio(cell.speedup)
    if cell.time is None:
        return ABSENT
    unit = "ms" if summary.time_metric == "step_ms" else "s"
    return f"{quartiles(cell.time)} {unit}"
