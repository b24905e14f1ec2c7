"""The charts of speed-ups over the baseline: by arm with intervals, and by hardware."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import ROW, Chart, axis, layer, looks, row_names, short
from orchestrator.report.document import Column, make_table
from orchestrator.report.wording import ArmNames, deciding_interval, verdict_sentence

SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""The signs of verdicts, so that colour is not their only mark."""

_FULL_SHADE = math.log(4)  # a factor of 4 either way is as dark as it gets


def speedups(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a chart of all comparisons; an empty list if nothing could be compared."""
    compared = [comparison for comparison in summary.comparisons if comparison.speedup is not None]
    if not compared:
        return []
    columns: list[Column[Comparison]] = [
        Column("arm", lambda comparison: name(comparison.arm)),
        Column("baseline", lambda comparison: comparison.baseline and name(comparison.baseline)),
        Column("speed-up (95 %)", lambda comparison: comparison.speedup, show=ratio),
        Column("blocks", lambda comparison: len(comparison.pairs)),
        Column("verdict", lambda comparison: comparison.verdict),
    ]
    data = [_row(comparison, name) for comparison in compared]
    ends = [row[end] for row in data for end in ("low", "high", "outer_low", "outer_high")]
    low, high = 1 / (1 + compared[0].margin), 1 + compared[0].margin
    corrected = any(deciding_interval(c) != c.speedup for c in compared)
    title = "speed-up over the baseline (×)" + ("; thin: corrected" if corrected else "")
    across = axis("outer_low", title, [low, high, *(row["value"] for row in data)], ends, log=True)
    names = {name(comparison.arm): styles[comparison.arm] for comparison in compared}
    look = looks(names, legend=None)
    line = {"y": ROW, "color": look["color"]}
    point = {**line, "shape": look["shape"], "x": "value", "tooltip": "text"}
    band, baseline = {"color": "var(--rule)", "opacity": 0.7}, {"color": "var(--quiet)"}
    thin, thick = ({"strokeWidth": width, "clip": True} for width in (1.5, 4))
    hollow, filled = {"fill": "var(--paper)"}, {"filled": True}
    layers = [
        layer(None, "rect", band, x={"datum": low}, x2={"datum": high}),
        layer(None, "rule", {**baseline, "strokeDash": [2, 3]}, x={"datum": 1}),
        layer("rows", "rule", thin, **line, x=across, x2="outer_high"),
        layer("rows", "rule", thick, **line, x="low", x2="high"),
        layer("rows", "point", {"size": 110, "opacity": 1, **hollow}, **point),
        {
            **layer("rows", "point", {"size": 110, "opacity": 1, **filled}, **point),
            "transform": [{"filter": "!datum.hollow"}],
        },
        *row_names("rows"),
    ]
    return [
        Chart(
            key="speedups",
            part="Speed-up over",
            title="Speed-up with its 95 % interval",
            description="; ".join(_description(comparison, name) for comparison in compared) + ".",
            table=make_table(columns, compared),
            layers=layers,
            data={"rows": data},
            height=70 * len(data),
            notes=(
                f"Grey band: same within {100 * compared[0].margin:g} %",
                "Dotted line: as fast as the baseline",
                "Hollow point: inconclusive",
            ),
        )
    ]


def _description(comparison: Comparison, name: ArmNames) -> str:
    return f"{name(comparison.arm)}: {comparison.verdict}, {ratio(deciding_interval(comparison))}"


def _row(comparison: Comparison, name: ArmNames) -> dict[str, Any]:
    plain, decisive = comparison.speedup, deciding_interval(comparison)
    assert plain is not None  # only those are drawn
    assert decisive is not None
    return {
        "name": name(comparison.arm),
        "row": short(name(comparison.arm)),
        "label": f"{SIGNS[comparison.verdict]} {comparison.verdict}: {ratio(decisive)}",
        "value": plain.value,
        "low": plain.low,
        "high": plain.high,
        "outer_low": decisive.low,
        "outer_high": decisive.high,
        "hollow": comparison.verdict == "inconclusive",
        "text": verdict_sentence(comparison, name),
    }


def matrix(summary: ReportSummary) -> list[Chart]:
    """Make the matrix of hardware × implementation; an empty list if no arm has a speed-up."""
    cells = summary.arms
    if not any(cell.speedup for cell in cells):
        return []
    shown = {comparison.arm: deciding_interval(comparison) for comparison in summary.comparisons}

    def figure(cell: ArmSummary) -> str | None:
        return ratio(shown.get(cell.arm, cell.speedup)) if cell.speedup else None

    columns: list[Column[ArmSummary]] = [
        Column("implementation", lambda cell: cell.arm.implementation),
        Column("hardware", lambda cell: str(cell.arm.hardware)),
        Column("speed-up (95 %)", figure, numeric=True),
        Column("verdict", _verdict),
    ]
    data = [
        {
            "implementation": short(cell.arm.implementation, 34),
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
    return [
        Chart(
            key="matrix",
            part="Hardware × implementation" if is_section else "Speed-up over",
            title="Speed-up by implementation and hardware",
            description="; ".join(
                f"{cell.arm}: {' '.join(filter(None, (figure(cell), _verdict(cell))))}"
                for cell in cells
            ),
            table=make_table(columns, cells),
            layers=layers,
            data={"cells": data},
            height=54 * len({row["implementation"] for row in data}),
            notes=(
                "Green cells are faster than the baseline, and orange cells slower; darker cells"
                " differ more",
            ),
        )
    ]


def _verdict(cell: ArmSummary) -> str:
    return f"{SIGNS.get(cell.verdict, '')} {cell.verdict}".strip()


def _shade(cell: ArmSummary) -> float:
    """Return how far a cell's speed-up is from 1, from -1 to 1; 0 if it is inconclusive."""
    if cell.speedup is None or not 0 < cell.speedup.value < math.inf:
        return 0.0
    if cell.verdict == "inconclusive":
        return 0.0
    return max(-1.0, min(1.0, math.log(cell.speedup.value) / _FULL_SHADE))
