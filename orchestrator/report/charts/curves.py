"""The charts of curves: speed-ups by size, learning, and telemetry over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from orchestrator.analysis.arms.over_time import LearningCurve, TelemetryCurves
from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import number, quartiles, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Names, metric_title, rows, slug
from orchestrator.report.crossover_wording import sides
from orchestrator.report.document import Column, make_table
from orchestrator.report.wording import ArmNames

MOST_POINTS = 400
"""The most points of a curve: more look the same, and make the page slower."""

_MOST_MARKS = 24  # on one line: a few symbols identify it, more would hide it
_SHOWN = re.compile(
    r"system/(cpu_utilization_percentage|cpu_others_percentage|cpu_package_power_watts"
    r"|trainer_memory_usage_megabytes|cpu_temperature_celsius"
    r"|gpu_\d+_(utilization_percentage|memory_usage_megabytes|temperature_celsius"
    r"|power_usage_watts|sm_clock_megahertz))"
)
"""The recorded curves that get a chart; each MLflow run has all of them."""

_UNITS = {
    "percentage": "%", "megabytes": "MB", "watts": "W", "celsius": "°C", "megahertz": "MHz",
}  # fmt: skip


def curves(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a chart for each param of crossovers, each metric by epoch, and each telemetry curve."""
    by_param: dict[str, list[Crossover]] = {}
    for crossover in summary.crossovers:
        if crossover.curve:
            by_param.setdefault(crossover.param, []).append(crossover)
    by_metric: dict[str, list[LearningCurve]] = {}
    for curve in summary.learning:
        if curve.points:
            by_metric.setdefault(curve.metric, []).append(curve)
    recorded = dict.fromkeys(curve for trial in summary.curves for curve in trial.curves)
    telemetry = (
        _telemetry(curve, summary.curves, name, styles)
        for curve in recorded
        if _SHOWN.fullmatch(curve)
    )
    return [
        *(_crossover(param, fitted, name, styles) for param, fitted in by_param.items()),
        *(
            _learning(metric, against, shown, name, styles)
            for metric, shown in by_metric.items()
            for against in ("epochs", "seconds")
        ),
        *(chart for chart in telemetry if chart.table.rows),
    ]


def _drawing(
    lines: Sequence[Sequence[dict[str, Any]]],
    points: Iterable[dict[str, Any]],
    looks: Names,
    axes: tuple[Axis, Axis],
    *,
    extra: Sequence[alt.Chart] = (),
) -> Any:
    """Draw lines with bands around them, and points; rows have name, at, value, low and high."""
    across, up = axes
    drawn = ((i, row) for i, own in enumerate(lines) for row in own)
    line = rows({**row, "line": i, "text": None} for i, row in drawn).encode(
        looks.colour(), detail="line:N", x="at:Q"
    )
    marks = rows(points).encode(looks.colour(), looks.shape(), x="at:Q", y="value:Q")
    is_banded = any(row.get("low") is not None for own in lines for row in own)
    bands = [line.mark_area(opacity=0.16, clip=True).encode(y="low:Q", y2="high:Q")]
    return alt.layer(
        *extra,
        *(bands if is_banded else []),
        line.mark_line(strokeWidth=2, clip=True).encode(
            looks.dash(), across.on(alt.X("at:Q")), up.on(alt.Y("value:Q"))
        ),
        marks.mark_point(size=45, filled=True, opacity=1, clip=True).encode(tooltip="text:N"),
    ).properties(height=360)


def _crossover(
    param: str, fitted: list[Crossover], name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    columns: list[Column[Any]] = [
        Column("arm", lambda row: name(row[0].arm)),
        Column("baseline", lambda row: name(row[0].baseline)),
        Column(param, lambda row: row[1].at),
        Column(
            "fitted speed-up (95 %)",
            lambda row: Estimate(len(row[0].points), row[1].speedup, row[1].low, row[1].high),
            show=ratio,
        ),
    ]
    names = {name(crossover.arm): styles[crossover.arm] for crossover in fitted}
    lines: list[list[dict[str, Any]]] = [
        [
            {
                "name": name(crossover.arm),
                "at": point.at,
                "value": point.speedup,
                "low": point.low,
                "high": point.high,
            }
            for point in crossover.curve
        ]
        for crossover in fitted
    ]
    points: list[dict[str, Any]] = [
        {
            "name": name(crossover.arm),
            "at": point.at,
            "value": point.adjusted,
            "text": f"{name(crossover.arm)}, block {point.block}: {number(point.speedup)} × at "
            f"{number(point.at)}",
        }
        for crossover in fitted
        for point in crossover.points
    ]
    drawn = [row for line in lines for row in line]
    ends = [row[end] for row in drawn for end in ("low", "high")]
    axes = (
        Axis(param, [row["at"] for row in drawn], log=min(row["at"] for row in drawn) > 0),
        Axis(
            "speed-up over the baseline (×)",
            [row["value"] for row in [*drawn, *points]],
            ends,
            log=True,
        ),
    )
    baseline = rows([{}]).mark_rule(color="var(--quiet)", strokeDash=[2, 3])
    return Chart(
        key=f"crossover-{slug(param)}",
        part="crossovers",
        title=f"Speed-up by {param}",
        description=" ".join(_crossover_text(crossover, name) for crossover in fitted),
        table=make_table(columns, [(c, point) for c in fitted for point in c.curve]),
        drawing=_drawing(
            lines, points, Names(names), axes, extra=[baseline.encode(y=alt.datum(1))]
        ),
        names=tuple(names),
        notes=("Dotted line: as fast as the baseline",),
    )


def _crossover_text(crossover: Crossover, name: ArmNames) -> str:
    pair = f"{name(crossover.arm)} over {name(crossover.baseline)}"
    ends = (number(crossover.curve[i].speedup) for i in (0, -1))
    sizes = f"between {number(crossover.low)} and {number(crossover.high)}"
    text = f"{pair}: from {' × to '.join(ends)} × {sizes}"
    if crossover.crossing is None:
        reason = f" ({crossover.reason})" if crossover.reason else ""
        return f"{text}; {crossover.verdict}{reason}."
    where, beyond = sides(crossover, crossover.crossing)
    return f"{text}; faster {where}, slower {beyond}."


def _learning(
    metric: str,
    against: str,
    shown: list[LearningCurve],
    name: ArmNames,
    styles: Mapping[Arm, int],
) -> Chart:
    title = metric_title(metric)
    columns: list[Column[Any]] = [
        Column("arm", lambda row: name(row[0].arm)),
        Column("epoch", lambda row: row[1].epoch),
        Column("training", lambda row: row[1].seconds, "s"),
        Column(f"{metric}: median (quartiles)", lambda row: row[1].value, show=quartiles),
    ]
    names = {name(curve.arm): styles[curve.arm] for curve in shown}
    lines: list[list[dict[str, Any]]] = [
        [
            {
                "name": name(curve.arm),
                "at": float(point.epoch) if against == "epochs" else point.seconds,
                "value": point.value.median,
                "low": point.value.lower_quartile,
                "high": point.value.upper_quartile,
                "text": f"{name(curve.arm)}, epoch {point.epoch}, {number(point.seconds)} s: "
                f"{quartiles(point.value)}",
            }
            for point in curve.points
        ]
        for curve in shown
    ]
    drawn = [row for line in lines for row in line]
    ends = [row[end] for row in drawn for end in ("low", "high") if row[end] is not None]
    axes = (
        Axis(
            "epochs" if against == "epochs" else "seconds of training (median)",
            [row["at"] for row in drawn],
        ),
        Axis(f"{title}: median and quartiles", [row["value"] for row in drawn], ends),
    )
    texts = (
        f"{name(curve.arm)}: {metric} from {number(first.value.median)} after epoch {first.epoch} "
        f"to {number(last.value.median)} after epoch {last.epoch} ({number(last.seconds)} s)."
        for curve in shown
        for first, last in [(curve.points[0], curve.points[-1])]
    )
    return Chart(
        key=f"learning-{slug(metric)}-{against}",
        part="learning",
        title=f"{title} against {against}",
        description=" ".join(texts),
        table=make_table(columns, [(curve, point) for curve in shown for point in curve.points]),
        drawing=_drawing(lines, _marked(lines), Names(names), axes),
        names=tuple(names),
    )


def title_of(curve: str) -> str:
    """Return `GPU 0 temperature (°C)` for `system/gpu_0_temperature_celsius`."""
    *words, unit = curve.removeprefix("system/").split("_")
    title = " ".join(word.upper() if word in ("cpu", "gpu", "sm") else word for word in words)
    return f"{title} ({_UNITS[unit]})" if unit in _UNITS else f"{title} {unit}"


def _telemetry(
    curve: str, runs: tuple[TelemetryCurves, ...], name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    recorded = [
        (trial, values)
        for trial in runs
        if (values := [value for value in trial.curves.get(curve, ()) if value is not None])
    ]
    columns: list[Column[Any]] = [
        Column("arm", lambda row: name(row[0].arm)),
        Column("block", lambda row: row[0].block),
        Column("minimum", lambda row: min(row[1])),
        Column("mean", lambda row: sum(row[1]) / len(row[1])),
        Column("maximum", lambda row: max(row[1])),
        Column("run", lambda row: row[0].run_id),
    ]
    table = make_table(columns, recorded)
    title = title_of(curve)
    names = {name(trial.arm): styles[trial.arm] for trial, _ in recorded}
    lines: list[list[dict[str, Any]]] = [
        [
            {
                "name": name(trial.arm),
                "at": at,
                "value": value,
                "text": f"{name(trial.arm)}: {number(value)} at {number(at)} s"
                if value is not None
                else "",
            }
            for at, value in zip(trial.at_s, trial.curves[curve], strict=True)
        ][:: -(-len(trial.at_s) // MOST_POINTS) or 1]  # rounded up
        for trial, _ in recorded
    ]
    drawn = [row for line in lines for row in line]
    axes = (
        Axis("seconds since the trial began", [row["at"] for row in drawn]),
        Axis(title, [row["value"] for row in drawn]),
    )
    return Chart(
        key=f"telemetry-{slug(curve.removeprefix('system/'))}",
        part="telemetry",
        title=f"{title[:1].upper()}{title[1:]} over time",
        description=" ".join(f"{r[0]}: from {r[2]} to {r[4]}, mean {r[3]}." for r in table.rows),
        table=table,
        drawing=_drawing(lines, _marked(lines), Names(names), axes),
        names=tuple(names),
    )


def _marked(lines: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the points of lines that get a symbol."""
    steps = [-(-len(line) // _MOST_MARKS) or 1 for line in lines]
    return [row for line, step in zip(lines, steps, strict=True) for row in line[::step]]
