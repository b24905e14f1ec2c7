"""The charts of accuracy against time, energy or cost, and of the time of trials by phase."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff
from orchestrator.analysis.arms.over_time import PHASES
from orchestrator.analysis.measures import FRESH_ONLY
from orchestrator.analysis.statistics.formatting import count, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
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


def trade_offs(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a chart of each front that has points."""
    drawn = [trade_off for trade_off in summary.fronts if trade_off.front.points]
    return [_trade_off(summary, trade_off, name, styles) for trade_off in drawn]


def _trade_off(
    summary: ReportSummary, trade_off: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    where = str(trade_off.hardware or "all hardware")
    scope = f" of {trade_off.scope}" if trade_off.scope else ""
    expense, accuracy = metric_title(trade_off.expense) + scope, metric_title(trade_off.accuracy)
    best = sorted(trade_off.front.points, key=lambda point: point.values[trade_off.expense])
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("block", lambda point: point.block),
        Column(trade_off.accuracy, lambda point: point.values[trade_off.accuracy]),
        Column(trade_off.expense, lambda point: point.values[trade_off.expense]),
        Column("config", lambda point: config_text(point.config)),
        Column("runs", lambda point: ", ".join(point.run_ids)),
    ]

    def row(arm: Arm, x: float, y: float, about: str) -> dict[str, Any]:
        text = f"{name(arm)}, {about}: {accuracy} {number(y)}, {metric_title(trade_off.expense)}"
        return {"name": name(arm), "x": x, "y": y, "text": f"{text} {number(x)}"}

    tried = [
        row(arm, x, y, f"block {block}")
        for arm, block, x, y in _tried(summary, trade_off, {point.arm for point in best})
    ]
    shown = tried[:: -(-len(tried) // MOST_POINTS) or 1]
    front = [
        row(
            point.arm,
            point.values[trade_off.expense],
            point.values[trade_off.accuracy],
            f"on the Pareto front, block {point.block} ({config_text(point.config)})",
        )
        for point in best
    ]
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
        f"{accuracy} {number(r['y'])}, {metric_title(trade_off.expense)} {number(r['x'])}"
        for r in (front[0], front[-1])
    ]
    return Chart(
        key="-".join(
            filter(None, ("pareto", *map(slug, (trade_off.expense, trade_off.scope, where))))
        ),
        part="Pareto fronts",
        title=f"{accuracy} against {expense}: {where}",
        description=(
            f"{len(best)} of {count(trade_off.front.tried, 'config')} on the Pareto front, with "
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


def _tried(
    summary: ReportSummary, trade_off: TradeOff, best: set[Arm]
) -> Iterator[tuple[Arm, int, float, float]]:
    """Yield arm, block, expense and accuracy of the configs tried where the front is.

    They are averages over complete repeats, without arms that cannot be on the front.
    """
    excluded = {arm for arm in trade_off.front.apart if arm not in best}
    groups: dict[tuple[Arm, int], list[tuple[float, float]]] = defaultdict(list)
    for trial in summary.trials:
        fits = (
            trade_off.hardware in (None, trial.arm.hardware_class)
            and trial.arm not in excluded
            and trade_off.scope in ("", trial.telemetry.energy_scope)
            and (trade_off.expense not in FRESH_ONLY or trial.trainer_trials == 0)
            and trial.status == "complete"
        )
        x, y = (trial.metrics.get(m, math.nan) for m in (trade_off.expense, trade_off.accuracy))
        if fits and math.isfinite(x) and math.isfinite(y):
            groups[trial.arm, trial.block].append((x, y))
    for (arm, block), values in groups.items():
        x, y = (math.fsum(column) / len(values) for column in zip(*values, strict=True))
        yield arm, block, x, y


def phases(summary: ReportSummary, name: ArmNames) -> list[Chart]:
    """Make a chart of stacked bars; an empty list if no phase was measured."""
    splits = [split for split in summary.phases if split.seconds]
    measured = [phase for phase in PHASES if any(phase in split.seconds for split in splits)]
    if not measured:
        return []
    columns: list[Column[Any]] = [
        Column("arm", lambda split: name(split.arm)),
        *(_phase_column(phase) for phase in measured),
    ]
    data = [
        {
            "name": phase.removesuffix("_s"),
            "arm": short(name(split.arm)),
            "row": short(name(split.arm)),
            "order": PHASES.index(phase),
            "seconds": split.seconds.get(phase, 0.0),
            "text": f"{name(split.arm)}: {phase.removesuffix('_s')} "
            f"{number(split.seconds.get(phase, 0))} s",
        }
        for split in splits
        for phase in measured
    ]
    names = {phase.removesuffix("_s"): PHASES.index(phase) for phase in measured}
    legend = looks(names, legend={"columns": 5})
    seconds = {"type": "quantitative", "title": "mean seconds per trial", "stack": "zero"}
    bars = layer(
        "bars",
        "bar",
        {"size": 22, "stroke": "var(--paper)", "yOffset": 6},
        x={"field": "seconds", **seconds},
        y=ROW,
        color=legend["color"],
        order="order",
        tooltip="text",
    )
    arms = [{"arm": row["arm"], "row": row["row"], "label": ""} for row in data[:: len(measured)]]
    return [
        Chart(
            key="phases",
            part="Time by phase",
            title="Seconds per trial by phase",
            description=" ".join(_longest(name(split.arm), split.seconds) for split in splits),
            table=make_table(columns, splits),
            layers=[bars, *row_names("arms")],
            data={"bars": data, "arms": arms},
            height=56 * len(splits),
            names=tuple(names),
            notes=("From left to right in the order of the legend",),
        )
    ]


def _phase_column(phase: str) -> Column[Any]:
    return Column(phase, lambda split: split.seconds.get(phase), numeric=True)


def _longest(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
