"""The charts of curves: speed-ups by size, and learning."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orchestrator.analysis.arms.arm_summary import LearningCurve, LearningPoint
from orchestrator.analysis.contrasts.sizes import SpeedCurve
from orchestrator.analysis.statistics.formatting import number, quartiles
from orchestrator.analysis.statistics.regression import CurvePoint
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import joined
from orchestrator.core.trial import is_number
from orchestrator.report.charts.chart import (
    Chart,
    Layer,
    Rows,
    Styles,
    arm_channels,
    axis,
    layer,
    slug,
)
from orchestrator.report.document import cell_text
from orchestrator.report.names import ArmNames, grouped
from orchestrator.report.parts.contrast_tables import metric_title
from orchestrator.report.parts.sizes import crossing_text

_MOST_MARKS = 24  # on one line: a few symbols identify it, more would hide it
_HEIGHT = 360
_DOUBLED = 2  # from the smallest to the largest size: an axis of its logarithm has ticks
_AS_FAST = {"color": "var(--quiet)", "strokeDash": [2, 3]}
_OVERLAP = 0.01  # of the range of a chart: lines that are so close cannot be told apart
_Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""The points of a line: `at`, `value`, the ends `low` and `high` of a band, and `text`."""


def size_charts(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    """Make a chart of speed-ups for each size along which they were fitted."""
    by_size = grouped((curve.size, curve) for curve in summary.curves if curve.curve)
    for size, curves in by_size.items():
        yield _by_size(size, curves, name, styles, summary.drawn_blocks)


def learning_charts(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    """Make two charts for each metric by epoch: against epochs, and against seconds."""
    by_metric = grouped((curve.metric, curve) for curve in summary.learning if curve.points)
    for metric, curves in by_metric.items():
        for against in ("epochs", "seconds"):
            yield _learning_chart(metric, against, curves, name, styles)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The layers of a chart of lines, and their data."""

    layers: Sequence[Layer]
    data: Mapping[str, Rows]


def _drawing(
    named: Sequence[tuple[Arm, _Rows]],
    points: _Rows,
    name: ArmNames,
    styles: Styles,
    titles: tuple[str, str],
    *,
    logs: str = "",
) -> _Drawing:
    """Draw one line per arm. Mark the points, or if there are none, every n-th point of the line.

    `logs` names the logarithmic axes: `x`, `y`, `xy` or none.
    """
    names = {name(arm): styles[arm] for arm, _ in named}
    lines = [
        [{**row, "name": name(arm), "line": i} for row in rows]
        for i, (arm, rows) in enumerate(named)
    ]
    points = points or [row for line in lines for row in line[:: -(-len(line) // _MOST_MARKS) or 1]]
    drawn = [row | {"text": None} for line in lines for row in line]
    ends = [row[end] for row in drawn for end in ("low", "high") if row.get(end) is not None]
    at = [row["at"] for row in [*drawn, *points]]
    across: dict[str, Any] = {"field": "at", "type": "nominal", "sort": None, "title": titles[0]}
    across["axis"] = {"labelAngle": 0}
    if all(map(is_number, at)):
        across = axis("at", titles[0], at, log="x" in logs)
    up = axis("value", titles[1], [r["value"] for r in [*drawn, *points]], ends, log="y" in logs)
    look = arm_channels(names)
    line = {"x": across, "color": look["color"], "detail": "line"}
    mark = {"x": across, "color": look["color"], "shape": look["shape"], "tooltip": "text"}
    shade, stroke = {"opacity": 0.16, "clip": True}, {"strokeWidth": 2, "clip": True}
    dots = {"size": 45, "filled": True, "opacity": 1, "clip": True}
    layers = [
        *([layer("lines", "area", shade, y="low", y2="high", **line)] if ends else []),
        layer("lines", "line", stroke, y=up, strokeDash=look["strokeDash"], **line),
        layer("points", "point", dots, y="value", **mark),
    ]
    return _Drawing(layers, {"lines": drawn, "points": points})


def _by_size(
    size: str,
    curves: Sequence[SpeedCurve],
    name: ArmNames,
    styles: Styles,
    drawn: Collection[int],
) -> Chart:
    """Make a chart of the speed-ups of several arms along one size."""
    lines = [(c.arm, [{"at": p.at, **_ends(p)} for p in c.curve]) for c in curves]
    points = [
        {
            "name": name(c.arm),
            "at": p.at,
            "value": p.adjusted,
            "text": f"{name(c.arm)}, block {p.block}: {number(p.value)} at {cell_text(p.at)}",
        }
        for c in curves
        for p in c.points
        if p.block in drawn
    ]
    sizes = [float(p.at) for c in curves for p in c.points]
    is_wide = max(sizes) >= _DOUBLED * min(sizes)
    titles = size, "speed-up over the baseline (×)"
    drawing = _drawing(lines, points, name, styles, titles, logs="xy" if is_wide else "y")
    held = ("All other params are held constant",) if any(c.held for c in curves) else ()
    return Chart(
        key=f"speedup-by-{slug(size)}",
        section="sizes",
        title=f"Speed-up by {size}",
        description=". ".join(_description(curve, name) for curve in curves) + ".",
        layers=[layer(None, "rule", _AS_FAST, y={"datum": 1}), *drawing.layers],
        data=drawing.data,
        height=_HEIGHT,
        notes=("Dotted line: as fast as the baseline", *held, *_overlap_note(lines, name)),
    )


def _description(curve: SpeedCurve, name: ArmNames) -> str:
    first, last = curve.curve[0], curve.curve[-1]
    ends = " to ".join(f"{number(p.value)} × at {cell_text(p.at)}" for p in (first, last))
    crossing = crossing_text(curve)
    return f"{name(curve.arm)}: {ends}" + (f", faster {crossing}" if crossing else "")


def _overlap_note(lines: Sequence[tuple[Arm, _Rows]], name: ArmNames) -> Iterator[str]:
    """Write which lines lie on each other, because a reader sees only one of them."""
    values = [row["value"] for _, rows in lines for row in rows]
    room = _OVERLAP * (max(values) - min(values)) if values else 0.0
    groups: list[list[tuple[Arm, _Rows]]] = []
    for arm, rows in lines:
        same = next((g for g in groups if rows and _is_on(g[0][1], rows, room)), None)
        if same:
            same.append((arm, rows))
        else:
            groups.append([(arm, rows)])
    for group in groups:
        if len(group) > 1:
            yield f"These lines overlap: {joined([name(arm) for arm, _ in group])}"


def _is_on(line: _Rows, other: _Rows, room: float) -> bool:
    """Return whether two lines with the same places are nowhere further apart than this."""
    if [row["at"] for row in line] != [row["at"] for row in other]:
        return False
    return all(abs(a["value"] - b["value"]) <= room for a, b in zip(line, other, strict=True))


def _ends(point: CurvePoint) -> dict[str, Any]:
    """Return a fitted number with the ends of its interval, if it has one."""
    low, high = (point.low, point.high) if math.isfinite(point.high) else (None, None)
    return {"value": point.value, "low": low, "high": high}


def _learning_chart(
    metric: str, against: str, shown: list[LearningCurve], name: ArmNames, styles: Styles
) -> Chart:
    """Draw a metric against the epochs, or against the seconds of training."""
    title = metric_title(metric)

    def row(arm: Arm, point: LearningPoint) -> dict[str, Any]:
        at, value = float(point.epoch) if against == "epochs" else point.seconds, point.value
        text = f"{name(arm)}, epoch {point.epoch}, {number(point.seconds)} s: {quartiles(value)}"
        ends = {"low": value.lower_quartile, "high": value.upper_quartile}
        return {"at": at, "value": value.median, **ends, "text": text}

    lines = [(curve.arm, [row(curve.arm, point) for point in curve.points]) for curve in shown]
    across = "epochs" if against == "epochs" else "seconds of training (median)"
    texts = (
        f"{name(curve.arm)}: {metric} from {number(first.value.median)} after epoch {first.epoch} "
        f"to {number(last.value.median)} after epoch {last.epoch} ({number(last.seconds)} s)."
        for curve in shown
        for first, last in [(curve.points[0], curve.points[-1])]
    )
    titles = across, f"{title}: median and quartiles"
    drawing = _drawing(lines, (), name, styles, titles)
    return Chart(
        key=f"learning-{slug(metric)}-{against}",
        section="quality",
        title=f"{title} against {against}",
        description=" ".join(texts),
        layers=drawing.layers,
        data=drawing.data,
        height=_HEIGHT,
        notes=tuple(_overlap_note(lines, name)),
    )
