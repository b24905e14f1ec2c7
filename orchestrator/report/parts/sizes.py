"""The part on sizes: speed-ups by config, what each param does, and where arms cross."""

import math
from collections.abc import Iterator, Mapping
from functools import partial

from orchestrator.analysis.contrasts.contrast import Contrast, Question, Scale, Unit, Verdict
from orchestrator.analysis.contrasts.sizes import SpeedCurve
from orchestrator.analysis.measures import measure_of
from orchestrator.analysis.statistics.formatting import difference, inverse, number, ratio, share
from orchestrator.analysis.statistics.regression import CurvePoint
from orchestrator.analysis.summary import ComparedValues, ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, joined
from orchestrator.report.document import PARTS, Column, Fact, Section, Table, cell_text, make_table
from orchestrator.report.names import ArmNames, config_phrase, grouped
from orchestrator.report.parts.contrast_tables import (
    MOST_ROWS,
    chosen,
    contrast_table,
    metric_title,
)
from orchestrator.sampling.importance import param_importances
from workloads.metrics import find_metric

MOST_LISTED = 12
"""The most configs of the table of speed-ups; of more, it has some from fast to slow ones."""

_ROUNDING = 1e-9
"""Relative tolerance within which a size counts as whole."""


def sizes_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the speed-ups by config, the effects of params, and the sizes at which arms cross."""
    values = _values(summary)
    importances = _importances(summary)
    tables = (
        *_configs(summary, name, values),
        *_effects(summary, name),
        *_curves(summary, name),
        *_importance_table(importances),
    )
    if not tables:
        return None
    refused = grouped((curve.reason, curve.size) for curve in summary.curves if curve.reason)
    return Section(
        PARTS["sizes"],
        tables=tables,
        doubts=tuple(
            Fact("no estimate", f"{joined(dict.fromkeys(sizes))}: {reason}")
            for reason, sizes in refused.items()
        ),
        notes=tuple(_notes(summary, values, has_importances=bool(importances))),
        part="sizes",
    )


def _values(summary: ReportSummary) -> ComparedValues | None:
    """Return the values by config: times, or else the first result; None for a single config."""
    metrics = (summary.time_metric, *summary.results)
    found = (summary.values_of(metric) for metric in metrics if metric)
    values = next(filter(None, found), None)
    return values if values and values.unit == Unit.CONFIG else None


def _configs(
    summary: ReportSummary, name: ArmNames, values: ComparedValues | None
) -> Iterator[Table]:
    """Yield the values of the baselines by config, the others' speed-ups, and the first result."""
    if values is None:
        return
    configs = {trial.block: config_phrase(trial.config) for trial in summary.trials}
    rows = {block: dict(zip(values.arms, row, strict=True)) for block, row in _rows(values)}
    base_of = summary.baseline.of if summary.baseline else {}
    is_time = values.metric == summary.time_metric
    compared = {
        arm: base_of[arm]
        for arm in values.arms
        if is_time and base_of.get(arm, arm) != arm and base_of[arm] in values.arms
    }
    bases = [arm for arm in values.arms if arm not in compared]
    per = measure_of(find_metric(values.metric)).per

    def value(arm: Arm, block: int) -> float:
        return rows[block][arm] / per

    def speedup(arm: Arm, block: int) -> float:
        return rows[block][compared[arm]] / rows[block][arm]

    columns: list[Column[int]] = [Column("config", configs.__getitem__)]
    columns += [
        Column(f"{metric_title(values.metric)}, {name(arm)}", partial(value, arm)) for arm in bases
    ]
    columns += [
        Column(name(arm), partial(speedup, arm), show=lambda ratio: f"{ratio:.2f} ×", numeric=True)
        for arm in compared
    ]
    for metric in summary.results[:1] if is_time else ():
        if results := summary.values_of(metric):
            of_block = dict(_rows(results))
            indices = [results.arms.index(arm) for arm in bases[:1] if arm in results.arms]
            columns += [Column(metric, partial(_cell, of_block, index)) for index in indices]
    ordered = sorted(rows, key=lambda block: rows[block][bases[0]] if bases else block)
    yield make_table(columns, _evenly(ordered))


def _rows(values: ComparedValues) -> Iterator[tuple[int, tuple[float, ...]]]:
    return zip(values.blocks, values.values, strict=True)


def _cell(rows: dict[int, tuple[float, ...]], column: int, block: int) -> float | None:
    return rows[block][column] if block in rows else None


def _evenly(blocks: list[int]) -> list[int]:
    """Return at most `MOST_LISTED` of them, the first and the last included."""
    if len(blocks) <= MOST_LISTED:
        return blocks
    last = len(blocks) - 1
    return [blocks[round(i * last / (MOST_LISTED - 1))] for i in range(MOST_LISTED)]


def _effects(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield the effects of params on each metric of the baselines, and on the speed-ups."""
    bases = set(map(str, summary.baseline.of.values())) if summary.baseline else set[str]()
    for metric in (summary.time_metric, *summary.results):
        effects = chosen(summary, metric, Question.SIZE)
        own = [contrast for contrast in effects if contrast.reference in bases]
        on_speed = [contrast for contrast in effects if contrast.reference not in bases]
        different = [c for c in on_speed if c.verdict in (Verdict.BETTER, Verdict.WORSE)]
        if own:
            titles = "param changed", None, f"{metric} changes by"
            yield contrast_table(summary, name, own, titles, show=_growth)
        if different:
            titles = "speed-up that depends on size", None, "changes by"
            yield contrast_table(summary, name, different, titles)


def _growth(contrast: Contrast) -> str:
    """Write how many times as much time a changed param takes, or the difference of a result."""
    if contrast.scale == Scale.RATIO:
        return ratio(inverse(contrast.estimate))
    return difference(contrast.estimate)


def _curves(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield the fitted speed-ups at the ends of each size, and where they cross 1."""
    columns: list[Column[SpeedCurve]] = [
        Column("along", lambda curve: curve.size),
        Column("arm", lambda curve: name(curve.arm), key=True),
        Column("smallest", lambda curve: _at(curve.curve[0]), numeric=True),
        Column("largest", lambda curve: _at(curve.curve[-1]), numeric=True),
        Column("faster", crossing_text, optional=True),
    ]
    fitted = sorted((c for c in summary.curves if c.curve), key=lambda curve: curve.size)
    if fitted:
        yield make_table(columns, fitted[:MOST_ROWS])


def _at(point: CurvePoint) -> str:
    return f"{number(point.value)} × at {cell_text(point.at)}"


def crossing_text(curve: SpeedCurve) -> str | None:
    """Return from which size on, or up to which, the arm is faster: `from 96 (70–130)`.

    None if the curve does not cross 1. If only whole sizes were tried, these are whole: there are
    no 1.41 layers.
    """
    crossing = curve.crossing
    if crossing is None:
        return None
    ends = [crossing.value, crossing.low, crossing.high]
    is_above = curve.faster == "above"
    if not any(float(point.at) % 1 for point in curve.points):
        ends = [
            math.ceil(end * (1 - _ROUNDING)) if is_above else math.floor(end * (1 + _ROUNDING))
            for end in ends
        ]
    value, low, high = map(number, ends)
    interval = f" ({low}–{high})" if low != high else ""
    return f"{'from' if is_above else 'up to'} {value}{interval}"


def _importances(summary: ReportSummary) -> dict[str, dict[str, float]]:
    """Return how much each param explains of the time and of the first result, by metric."""
    configs = {trial.block: trial.config for trial in summary.trials}
    by_metric = dict[str, dict[str, float]]()
    for metric in filter(None, (summary.time_metric, *summary.results[:1])):
        values = summary.values_of(metric)
        if values is None or values.unit != Unit.CONFIG:
            continue
        tried = [configs[block] for block in values.blocks]
        means = [math.fsum(row) / len(row) for row in values.values]
        if found := param_importances(tried, means):
            by_metric[metric] = found
    return by_metric


def _importance_table(by_metric: Mapping[str, Mapping[str, float]]) -> Iterator[Table]:
    params = dict.fromkeys(param for found in by_metric.values() for param in found)
    columns: list[Column[str]] = [Column("importance", str)]
    columns += [
        Column(metric, found.get, show=lambda part: share(round(part, 2)), numeric=True)
        for metric, found in by_metric.items()
    ]
    if by_metric:
        yield make_table(columns, params)


def _notes(
    summary: ReportSummary, values: ComparedValues | None, *, has_importances: bool
) -> Iterator[str]:
    if values and values.metric == summary.time_metric:
        shown = min(MOST_LISTED, len(values.blocks))
        yield (
            f"Speed-ups by config: the baseline's value divided by the arm's; {shown} of "
            f"{counted(len(values.blocks), 'config')}, from the fastest to the slowest."
        )
    effects = [contrast for contrast in summary.contrasts if contrast.question == Question.SIZE]
    if effects:
        yield (
            "Effects: least squares on all varied params, each with the others held constant; "
            "intervals are corrected for all rows (Bonferroni). Nothing is extrapolated."
        )
    if any(curve.crossing for curve in summary.curves):
        yield "Within the interval of a crossing, either arm may be faster."
    if has_importances:
        yield "Importance: the share of the variance between configs, by Optuna's fANOVA."
