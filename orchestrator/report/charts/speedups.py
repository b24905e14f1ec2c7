"""The charts of speed-ups over the baseline: by arm with intervals, and by hardware."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.statistics.formatting import speed_ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import ROW, Chart, axis, layer, looks, row_names, short
from orchestrator.report.wording import ArmNames, deciding_interval, verdict_sentence

SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""The signs of verdicts, so that colour is not their only mark."""

_FULL_SHADE = math.log(4)  # a factor of 4 either way is as dark as it gets


def speedups(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> Chart | None:
    """Make a chart of all comparisons; None if nothing could be compared."""
    compared = [
        (comparison, comparison.speedup, comparison.corrected or comparison.speedup)
        for comparison in summary.comparisons
        if comparison.speedup is not None
    ]
    if not compared:
        return None
    names = {name(comparison.arm): styles[comparison.arm] for comparison, *_ in compared}
    look = looks(names, legend=None)
    data: list[dict[str, Any]] = [
        {
            "name": name(c.arm),
            "row": short(name(c.arm)),
            "label": f"{SIGNS[c.verdict]} {c.label}: {speed_ratio(decisive)}",
            "value": plain.value,
            "low": plain.low,
            "high": plain.high,
            "outer_low": decisive.low,
            "outer_high": decisive.high,
            "fill": "var(--paper)" if c.verdict == "inconclusive" else colour,
            "text": verdict_sentence(c, name),
        }
        for (c, plain, decisive), colour in zip(
            compared, look["color"]["scale"]["range"], strict=True
        )
    ]
    margin = compared[0][0].margin
    low, high = 1 / (1 + margin), 1 + margin
    bounded = [row for row in data if row["high"] < math.inf]
    ends = [row[end] for row in bounded for end in ("low", "high", "outer_low", "outer_high")]
    corrected = any(decisive != plain for _, plain, decisive in compared)
    title = "speed-up over the baseline (×)" + ("; thin: corrected" if corrected else "")
    across = axis("outer_low", title, [low, high, *(row["value"] for row in data)], ends, log=True)
    line = {"y": ROW, "color": look["color"]}
    fill = {"field": "fill", "type": "nominal", "scale": None}
    point = {**line, "shape": look["shape"], "fill": fill, "x": "value", "tooltip": "text"}
    thin, thick = ({"strokeWidth": width, "clip": True} for width in (1.5, 4))
    band = {"color": "var(--rule)", "opacity": 0.7}
    baseline = {"color": "var(--quiet)", "strokeDash": [2, 3]}
    return Chart(
        key="speedups",
        part="Speed-up over",
        title="Speed-up with its 95 % interval",
        description=". ".join(row["text"] for row in data) + ".",
        layers=[
            layer(None, "rect", band, x={"datum": low}, x2={"datum": high}),
            layer(None, "rule", baseline, x={"datum": 1}),
            layer("bounded", "rule", thin, **line, x=across, x2="outer_high"),
            layer("bounded", "rule", thick, **line, x="low", x2="high"),
            layer("rows", "point", {"size": 110, "opacity": 1}, **point),
            *row_names("rows"),
        ],
        data={"rows": data, "bounded": bounded},
        height=70 * len(data),
        notes=(
            f"Grey band: same within {100 * margin:g} %",
            "Dotted line: as fast as the baseline",
            "Hollow point: inconclusive",
        ),
    )


def matrix(summary: ReportSummary) -> Chart | None:
    """Make the matrix of hardware × implementation; None if no arm has a speed-up."""
    cells = summary.arms
    if not any(cell.speedup for cell in cells):
        return None
    shown = {comparison.arm: deciding_interval(comparison) for comparison in summary.comparisons}

    def figure(cell: ArmSummary) -> str | None:
        interval = shown.get(cell.arm) or cell.speedup
        return speed_ratio(interval) if interval else None

    data = [
        {
            "implementation": short(cell.arm.short_name, 34),
            "hardware": short(str(cell.arm.hardware), 30),
            "figure": figure(cell) or "",
            "verdict": _verdict(cell),
            "colour": "var(--up)" if _shade(cell) > 0 else "var(--down)",
            "shade": abs(_shade(cell)),
        }
        for cell in cells
    ]
    is_section = len({cell.arm.hardware for cell in cells}) > 1
    hardware = {"orient": "top", "labelAngle": 0, "labelLimit": 220}
    nominal = {"type": "nominal", "sort": None, "title": None}
    place = {
        "x": {"field": "hardware", **nominal, "axis": hardware},
        "y": {"field": "implementation", **nominal, "axis": {"labelLimit": 220}},
    }
    fill = {
        "fill": {"field": "colour", "type": "nominal", "scale": None},
        "fillOpacity": {"field": "shade", "type": "quantitative", "scale": None},
    }
    ink = {"color": "var(--ink)"}
    layers = [
        layer("cells", "rect", {"stroke": "var(--rule)"}, **place, **fill),
        layer("cells", "text", ink, **place, text="figure", yOffset={"value": 18}),
        layer("cells", "text", ink, **place, text="verdict", yOffset={"value": 36}),
    ]
    return Chart(
        key="matrix",
        part="Hardware × implementation" if is_section else "Speed-up over",
        title="Speed-up by implementation and hardware",
        description="; ".join(
            f"{cell.arm}: {' '.join(filter(None, (figure(cell), _verdict(cell))))}"
            for cell in cells
        ),
        layers=layers,
        data={"cells": data},
        height=54 * len({row["implementation"] for row in data}),
        notes=(
            "Green cells are faster than the baseline, and orange cells slower; darker cells"
            " differ more",
        ),
    )


def _verdict(cell: ArmSummary) -> str:
    return f"{SIGNS.get(cell.verdict.partition(' ')[0], '')} {cell.verdict}".strip()


def _shade(cell: ArmSummary) -> float:
    """Return how far a cell's speed-up is from 1, from -1 to 1; 0 if it is inconclusive."""
    if cell.speedup is None or not 0 < cell.speedup.value < math.inf:
        return 0.0
    if cell.verdict == "inconclusive":
        return 0.0
    return max(-1.0, min(1.0, math.log(cell.speedup.value) / _FULL_SHADE))
