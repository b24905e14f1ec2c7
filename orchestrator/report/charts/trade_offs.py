"""The charts of trade-offs: accuracy against time, energy, cost and memory."""

from collections.abc import Iterator
from typing import Any

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff, config_points
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted
from orchestrator.report.charts import chart
from orchestrator.report.charts.chart import Chart, Styles, arm_channels, axis, layer
from orchestrator.report.document import Column, make_table
from orchestrator.report.names import ArmNames, config_phrase
from orchestrator.report.parts.contrast_tables import metric_title


def trade_off_charts(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    """Make a chart of each front."""
    return (_trade_off(summary, trade_off, name, styles) for trade_off in summary.fronts)


def trade_off_key(trade_off: TradeOff) -> str:
    """Return the key of the chart of a front."""
    where = str(trade_off.hardware or "all hardware")
    parts = map(chart.slug, (trade_off.expense, trade_off.scope, where))
    return "-".join(filter(None, ("pareto", *parts)))


def _trade_off(
    summary: ReportSummary, trade_off: TradeOff, name: ArmNames, styles: Styles
) -> Chart:
    """Make the chart of a front, and of the configs behind it."""
    where = str(trade_off.hardware or "all hardware")
    scope = f" of {trade_off.scope}" if trade_off.scope else ""
    measure, accuracy = metric_title(trade_off.expense), metric_title(trade_off.result)
    expense = measure + scope
    best = sorted(trade_off.front.points, key=lambda point: point.values[trade_off.expense])
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("config no.", lambda point: point.block),
        Column(trade_off.result, lambda point: point.values[trade_off.result]),
        Column(trade_off.expense, lambda point: point.values[trade_off.expense]),
        Column("config", lambda point: config_phrase(point.config)),
        Column("runs", lambda point: ", ".join(point.run_ids)),
    ]

    def row(point: ParetoPoint, about: str) -> dict[str, Any]:
        x, y = point.values[trade_off.expense], point.values[trade_off.result]
        text = f"{name(point.arm)}, {about}block {point.block}: {accuracy} {number(y)}, {measure}"
        text += f" {number(x)}"
        return {"name": name(point.arm), "x": x, "y": y, "text": text}

    drawn = summary.drawn_blocks
    left_out = {*summary.front.unlike_work, *summary.front.different_mathematics}
    trials = [trial for trial in summary.trials if trial.block in drawn]
    tried = [
        row(point, "")
        for point in config_points(trials, (trade_off.expense, trade_off.result))
        if point.scope == trade_off.scope
        and trade_off.hardware in (None, point.arm.hardware_class)
        and point.arm not in left_out
    ]
    front = [row(p, f"on the Pareto front ({config_phrase(p.config)}), ") for p in best]
    number_of = trade_off.front.tried
    sample = f" {len(tried)} of {number_of} are drawn." if len(tried) < number_of else ""
    both = [*tried, *front]
    drawn_names = {r["name"] for r in both}
    names = {name(arm): style for arm, style in styles.items() if name(arm) in drawn_names}
    look = arm_channels(names)
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
    ends = dict.fromkeys(
        f"{accuracy} {number(r['y'])}, {measure} {number(r['x'])}" for r in (front[0], front[-1])
    )
    span = f"from {' to '.join(ends)}" if len(ends) > 1 else "".join(ends)
    return Chart(
        key=trade_off_key(trade_off),
        section="quality",
        title=f"{accuracy} against {expense}: {where}",
        description=(
            f"{len(best)} of {counted(trade_off.front.tried, 'config')} on the Pareto front, with "
            f"{', '.join(dict.fromkeys(name(p.arm) for p in best))}: {span}."
            f"{sample}"
        ),
        table=make_table(columns, best),
        layers=layers,
        data={"line": line, "tried": tried, "front": front},
        height=360,
        notes=("Line and large points: the Pareto front",),
    )
