"""The chart of speed-ups: every arm against its baseline, with its interval."""

import math
from collections.abc import Iterator
from typing import Any

from orchestrator.analysis.contrasts.contrast import Question, Verdict
from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.analysis.statistics.formatting import ratio, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import chart
from orchestrator.report.charts.chart import ROW, Chart, Styles, arm_channels, axis, layer, short
from orchestrator.report.names import ArmNames
from orchestrator.report.parts.contrast_tables import baseline_name, chosen
from orchestrator.report.words import TIME_WORDS, verdict_label


def speedup_charts(summary: ReportSummary, name: ArmNames, styles: Styles) -> Iterator[Chart]:
    """Make a chart of all arms over their baselines, the fastest of each hardware first."""
    arms = {str(arm): arm for arm in styles}
    compared = [
        (arms[contrast.subject], contrast)
        for contrast in chosen(summary, summary.time_metric, Question.BASELINE)
    ]
    if not compared:
        return
    hardware_order = [*dict.fromkeys(str(arm.hardware) for arm in styles)]
    compared.sort(
        key=lambda row: (hardware_order.index(str(row[0].hardware)), -row[1].estimate.value)
    )
    look = arm_channels({name(arm): styles[arm] for arm, _ in compared}, legend=None)
    colours = look["color"]["scale"]["range"]
    rows: list[dict[str, Any]] = [
        {
            "name": name(arm),
            "row": short(name(arm)),
            "label": (label := f"{verdict_label(contrast)}: {ratio(contrast.estimate)}"),
            "value": contrast.estimate.value,
            "low": contrast.estimate.low,
            "high": contrast.estimate.high,
            "fill": "var(--paper)" if contrast.verdict == Verdict.OPEN else colour,
            "text": f"{name(arm)}, {label}",
        }
        for (arm, contrast), colour in zip(compared, colours, strict=True)
    ]
    margin = compared[0][1].margin
    low, high = 1 / (1 + margin), 1 + margin
    bounded = [row for row in rows if row["high"] < math.inf]
    ends = [row[end] for row in bounded for end in ("low", "high")]
    values = [low, high, *(row["value"] for row in rows)]
    across = axis("low", "speed-up (×)", values, ends, log=True)
    line = {"y": ROW, "color": look["color"]}
    fill = {"field": "fill", "type": "nominal", "scale": None}
    point = {**line, "shape": look["shape"], "fill": fill, "x": "value", "tooltip": "text"}
    lower = {"yOffset": 8, "clip": True}  # below the names
    band = {"color": "var(--rule)", "size": 18, **lower}
    baseline = {"color": "var(--quiet)", "size": 18, "thickness": 1, **lower}
    is_bounded = {"transform": [{"filter": "isValid(datum.high)"}]}
    yield Chart(
        key="speedups",
        section="comparisons",
        title=f"Speed-up over {baseline_name(summary, name)}, {share(CONFIDENCE)} intervals",
        description=". ".join(row["text"] for row in rows) + ".",
        layers=[
            layer("rows", "bar", band, y=ROW, x={"datum": low}, x2={"datum": high}),
            layer("rows", "tick", baseline, y=ROW, x={"datum": 1}),
            layer("rows", "rule", {"strokeWidth": 3, **lower}, **line, x=across, x2="high")
            | is_bounded,
            layer("rows", "point", {"size": 110, "opacity": 1, "yOffset": 8}, **point),
            *chart.row_names("rows"),
        ],
        data={"rows": rows},
        height=chart.ROW_HEIGHT * len(rows),
        notes=(
            f"Grey band: {TIME_WORDS[Verdict.SAME]} within {share(margin)}",
            "Line inside the band: as fast as the baseline",
            f"Hollow point: {TIME_WORDS[Verdict.OPEN]}",
        ),
    )
