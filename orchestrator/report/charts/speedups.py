"""The chart of speed-ups: every arm against its baseline, with its interval."""

import math
from collections.abc import Iterator
from typing import Any

from orchestrator.analysis.statistics.formatting import natural, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import chart
from orchestrator.report.charts.chart import ROW, Chart, Styles, arm_channels, axis, layer, short
from orchestrator.report.verdicts import (
    INCONCLUSIVE,
    SIGNS,
    speed_ratio,
    verdict_label,
    verdict_sentence,
)
from orchestrator.report.wording import ArmNames


def speedup_charts(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    """Make a chart of all comparisons, the fastest arm of each hardware class first."""
    compared = [
        (comparison, comparison.speedup, comparison.corrected or comparison.speedup)
        for comparison in summary.comparisons
        if comparison.speedup is not None
    ]
    if not compared:
        return
    places = dict.fromkeys(str(arm.hardware) for arm in styles)
    order = list(places)
    # by hardware, and on each the fastest first
    compared.sort(key=lambda row: (order.index(str(row[0].arm.hardware)), -row[1].value))
    names = {name(comparison.arm): styles[comparison.arm] for comparison, *_ in compared}
    look = arm_channels(names, legend=None)
    rows: list[dict[str, Any]] = [
        {
            "name": name(c.arm),
            "row": short(name(c.arm)),
            "label": f"{SIGNS[c.verdict]} {verdict_label(c)}: "
            + (ratio(natural(decisive)) if c.verdict == "slower" else speed_ratio(decisive)),
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
    yield Chart(
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
            f"Hollow point: {INCONCLUSIVE}",
        ),
    )
