"""The charts of speed-ups by arm and by hardware, of trade-offs with accuracy, and of phases."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.arms.arm_summary import PHASES
from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff, config_points
from orchestrator.analysis.statistics.formatting import natural, number, ratio, speed_ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report.charts import chart
from orchestrator.report.charts.chart import ROW, Chart, axis, layer, looks, metric_title, short
from orchestrator.report.document import Column, make_table
from orchestrator.report.verdicts import SIGNS, verdict_sentence
from orchestrator.report.wording import ArmNames, config_text


def speedups(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> Chart | None:
    """Make a chart of all comparisons, the fastest arm of each hardware class first; else None.

    `pairs` are drawn blocks and their log-ratios: the page calculates speed-ups over some of them.
    """
    compared = [
        (comparison, comparison.speedup, comparison.corrected or comparison.speedup)
        for comparison in summary.comparisons
        if comparison.speedup is not None
    ]
    if not compared:
        return None
    places = dict.fromkeys(str(arm.hardware) for arm in styles)
    drawn = summary.drawn_blocks
    compared.sort(key=lambda one: ([*places].index(str(one[0].arm.hardware)), -one[1].value))
    names = {name(comparison.arm): styles[comparison.arm] for comparison, *_ in compared}
    look = looks(names, legend=None)
    rows: list[dict[str, Any]] = [
        {
            "name": name(c.arm),
            "row": short(name(c.arm)),
            "label": f"{SIGNS[c.verdict]} {c.label}: "
            + (ratio(natural(decisive)) if c.verdict == "slower" else speed_ratio(decisive)),
            "value": plain.value,
            "low": plain.low,
            "high": plain.high,
            "outer_low": decisive.low,
            "outer_high": decisive.high,
            "fill": "var(--paper)" if c.verdict == "inconclusive" else colour,
            "text": verdict_sentence(c, name),
            "pairs": [
                (p.block, round(math.log(p.baseline / p.arm), 6))
                for p in c.pairs
                if p.block in drawn
            ],
        }
        for (c, plain, decisive), colour in zip(
            compared, look["color"]["scale"]["range"], strict=True
        )
    ]
    margin = compared[0][0].margin
    low, high = 1 / (1 + margin), 1 + margin
    bounded = [row for row in rows if row["high"] < math.inf]
    ends = [row[end] for row in bounded for end in ("low", "high", "outer_low", "outer_high")]
    corrected = any(decisive != plain for _, plain, decisive in compared)
    title = "speed-up (×)" + ("; thin: corrected" if corrected else "")
    bases = [name(c.baseline) if c.baseline else "the baseline" for c, *_ in compared]
    over = bases[0] if len({*bases}) == 1 else "the baseline"
    across = axis("outer_low", title, [low, high, *(row["value"] for row in rows)], ends, log=True)
    line = {"y": ROW, "color": look["color"]}
    fill = {"field": "fill", "type": "nominal", "scale": None}
    point = {**line, "shape": look["shape"], "fill": fill, "x": "value", "tooltip": "text"}
    lower = {"yOffset": 8, "clip": True}  # below the names
    thin, thick = ({"strokeWidth": width, **lower} for width in (1.5, 4))
    band = {"color": "var(--rule)", "size": 18, **lower}
    baseline = {"color": "var(--quiet)", "size": 18, "thickness": 1, **lower}
    is_bounded = {"transform": [{"filter": "isValid(datum.high)"}]}
    return Chart(
        key="speedups",
        section="speed",
        title=f"Speed-up over {over}, with its 95 % interval",
        description=". ".join(row["text"] for row in rows) + ".",
        layers=[
            layer("rows", "bar", band, y=ROW, x={"datum": low}, x2={"datum": high}),
            layer("rows", "tick", baseline, y=ROW, x={"datum": 1}),
            layer("rows", "rule", thin, **line, x=across, x2="outer_high") | is_bounded,
            layer("rows", "rule", thick, **line, x="low", x2="high") | is_bounded,
            layer("rows", "point", {"size": 110, "opacity": 1, "yOffset": 8}, **point),
            *chart.row_names("rows"),
        ],
        data={"rows": rows},
        height=chart.ROW_HEIGHT * len(rows),
        notes=(
            f"Grey band: same within {100 * margin:g} %",
            "Line in it: as fast as the baseline",
            "Hollow point: inconclusive",
        ),
    )


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
        Column("config no.", lambda point: point.block),
        Column(trade_off.accuracy, lambda point: point.values[trade_off.accuracy]),
        Column(trade_off.expense, lambda point: point.values[trade_off.expense]),
        Column("config", lambda point: config_text(point.config)),
        Column("runs", lambda point: ", ".join(point.run_ids)),
    ]

    def row(point: ParetoPoint, about: str) -> dict[str, Any]:
        x, y = point.values[trade_off.expense], point.values[trade_off.accuracy]
        text = f"{name(point.arm)}, {about}block {point.block}: {accuracy} {number(y)}, {measure}"
        text += f" {number(x)}"
        return {"name": name(point.arm), "block": point.block, "x": x, "y": y, "text": text}

    drawn = summary.drawn_blocks
    trials = [trial for trial in summary.trials if trial.block in drawn]
    tried = [
        row(point, "")
        for point in config_points(trials, (trade_off.expense, trade_off.accuracy))
        if point.scope == trade_off.scope
        and trade_off.hardware in (None, point.arm.hardware_class)
        and point.arm not in summary.front.apart
    ]
    front = [row(p, f"on the Pareto front ({config_text(p.config)}), ") for p in best]
    number_of = trade_off.front.tried
    sample = f" {len(tried)} of {number_of} are drawn." if len(tried) < number_of else ""
    both = [*tried, *front]
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
            filter(None, ("pareto", *map(chart.slug, (trade_off.expense, trade_off.scope, where))))
        ),
        section="trade_offs",
        title=f"{accuracy} against {expense}: {where}",
        description=(
            f"{len(best)} of {counted(trade_off.front.tried, 'config')} on the Pareto front, with "
            f"{', '.join(dict.fromkeys(name(p.arm) for p in best))}: from {' to '.join(ends)}."
            f"{sample}"
        ),
        table=make_table(columns, best),
        layers=layers,
        data={"line": line, "tried": tried, "front": front},
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
        section="phases",
        title="Seconds per trial by phase",
        description=" ".join(_longest(name(split.arm), split.seconds) for split in splits),
        layers=[bars, *chart.row_names("arms")],
        data={"bars": data, "arms": arms},
        height=chart.ROW_HEIGHT * len(splits),
        names=tuple(names),
        notes=("From left to right in the order of the legend",),
    )


def _longest(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
