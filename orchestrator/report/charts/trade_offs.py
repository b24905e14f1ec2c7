"""The charts of accuracy against time, energy or cost, and of the time of trials by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff, config_points
from orchestrator.analysis.arms.over_time import PHASES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report.charts.chart import (
    ROW,
    Chart,
    axis,
    layer,
    looks,
    metric_title,
    row_names,
    short,
    slug,
)
from orchestrator.report.document import Column, make_table
from orchestrator.report.wording import ArmNames, config_text

MOST_POINTS = 1500
"""The most configs drawn: more look the same, and make the page slower. Fronts are complete."""


def trade_off_chart(
    summary: ReportSummary, trade_off: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    """Make the chart of a front, and of the configs behind it."""
    where = str(trade_off.hardware or "all hardware")
    scope = f" of {trade_off.scope}" if trade_off.scope else ""
    measure, accuracy = metric_title(trade_off.expense), metric_title(trade_off.accuracy)
    expense = measure + scope
    best = sorted(trade_off.front.points, key=lambda point: point.values[trade_off.expense])
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("block", lambda point: point.block),
        Column(trade_off.accuracy, lambda point: point.values[trade_off.accuracy]),
        Column(trade_off.expense, lambda point: point.values[trade_off.expense]),
        Column("config", lambda point: config_text(point.config)),
        Column("runs", lambda point: ", ".join(point.run_ids)),
    ]

    def row(point: ParetoPoint, about: str) -> dict[str, Any]:
        x, y = point.values[trade_off.expense], point.values[trade_off.accuracy]
        text = f"{name(point.arm)}, {about}block {point.block}: {accuracy} {number(y)}, {measure}"
        return {"name": name(point.arm), "x": x, "y": y, "text": f"{text} {number(x)}"}

    tried = [
        row(point, "")
        for point in config_points(summary.trials, (trade_off.expense, trade_off.accuracy))
        if point.scope == trade_off.scope
        and trade_off.hardware in (None, point.arm.hardware_class)
        and point.arm not in summary.front.apart
    ]
    shown = tried[:: -(-len(tried) // MOST_POINTS) or 1]
    front = [row(p, f"on the Pareto front ({config_text(p.config)}), ") for p in best]
    drawn = f" {len(shown)} of {len(tried)} other configs are drawn." if shown != tried else ""
    both = [*shown, *front]
    drawn_names = {r["name"] for r in both}
    names = {name(arm): style for arm, style in styles.items() if name(arm) in drawn_names}
    look = looks(names)
    point = {"color": look["color"], "shape": look["shape"], "tooltip": "text", "x": "x", "y": "y"}
    layers = [
        layer(
            "line",
            "line",
            {"interpolate": "step-after", "color": "var(--quiet)", "strokeWidth": 2},
            x=axis("x", expense, [r["x"] for r in both], log=True),
            y=axis("y", accuracy, [r["y"] for r in both]),
        ),
        layer("tried", "point", {"size": 40, "filled": True, "opacity": 0.45}, **point),
        layer("front", "point", {"size": 110, "filled": True, "opacity": 1}, **point),
    ]
    line = [{"x": r["x"], "y": r["y"]} for r in front]
    ends = [
        f"{accuracy} {number(r['y'])}, {measure} {number(r['x'])}" for r in (front[0], front[-1])
    ]
    return Chart(
        key="-".join(
            filter(None, ("pareto", *map(slug, (trade_off.expense, trade_off.scope, where))))
        ),
        part="Pareto fronts",
        title=f"{accuracy} against {expense}: {where}",
        description=(
            f"{len(best)} of {counted(trade_off.front.tried, 'config')} on the Pareto front, with "
            f"{', '.join(dict.fromkeys(name(p.arm) for p in best))}: from {' to '.join(ends)}."
            f"{drawn}"
        ),
        table=make_table(columns, best),
        layers=layers,
        data={"line": line, "tried": shown, "front": front},
        height=360,
        names=tuple(names),
        notes=("Line and large points: the Pareto front",),
    )


def phases(summary: ReportSummary, name: ArmNames) -> Chart | None:
    """Make a chart of stacked bars; None if no phase was measured."""
    splits = [split for split in summary.phases if split.seconds]
    measured = [phase for phase in PHASES if any(phase in split.seconds for split in splits)]
    if not measured:
        return None
    data = [
        {
            "name": (words := phase.removesuffix("_s")),
            "arm": short(name(split.arm)),
            "row": short(name(split.arm)),
            "order": PHASES.index(phase),
            "seconds": (seconds := split.seconds.get(phase, 0.0)),
            "text": f"{name(split.arm)}: {words} {number(seconds)} s",
        }
        for split in splits
        for phase in measured
    ]
    names = {phase.removesuffix("_s"): PHASES.index(phase) for phase in measured}
    legend = looks(names, legend={"columns": 5})
    stacked = {"type": "quantitative", "title": "mean seconds per trial", "stack": "zero"}
    bars = layer(
        "bars",
        "bar",
        {"size": 22, "stroke": "var(--paper)", "yOffset": 6},
        x={"field": "seconds", **stacked},
        y=ROW,
        color=legend["color"],
        order="order",
        tooltip="text",
    )
    arms = [{"arm": row["arm"], "row": row["row"], "label": ""} for row in data[:: len(measured)]]
    return Chart(
        key="phases",
        part="Time by phase",
        title="Seconds per trial by phase",
        description=" ".join(_longest(name(split.arm), split.seconds) for split in splits),
        layers=[bars, *row_names("arms")],
        data={"bars": data, "arms": arms},
        height=56 * len(splits),
        names=tuple(names),
        notes=("From left to right in the order of the legend",),
    )


def _longest(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
