"""The charts of speed-ups over the baseline: by arm with intervals, and by hardware."""

from __future__ import annotations

import math
from collections.abc import Mapping

import altair as alt

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Chart, row_names, rows, scale, short, styled
from orchestrator.report.document import Column, make_table
from orchestrator.report.wording.sentences import ArmNames, verdict_sentence

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
        Column("speed-up (95 %)", lambda comparison: ratio(comparison.speedup), numeric=True),
        Column("blocks", lambda comparison: len(comparison.pairs)),
        Column("verdict", lambda comparison: comparison.verdict),
    ]
    shown = [(comparison, deciding_interval(comparison)) for comparison in compared]
    data = [_row(comparison, decisive, name) for comparison, decisive in shown]
    ends = [row[key] for row in data for key in ("low", "high", "outer_low", "outer_high")]
    margin = compared[0].margin
    is_corrected = any(comparison.speedup != decisive for comparison, decisive in shown)
    across = alt.X("value:Q").scale(
        scale([1 / (1 + margin), 1 + margin, *(row["value"] for row in data)], ends, log=True)
    )
    across = across.title(
        "speed-up (×, logarithmic); thin: corrected"
        if is_corrected
        else "speed-up over the baseline (×, logarithmic)"
    )
    layer = rows(data).encode(across, alt.Y("row:N", sort=None, axis=None))
    look = styled({name(comparison.arm): styles[comparison.arm] for comparison in compared})
    colour = look["color"].legend(None)
    filled = alt.condition("datum.hollow", alt.value(0), alt.value(1))
    mark = layer.mark_point(size=110, filled=False, clip=True).encode(
        colour,
        look["shape"].legend(None),
        fill=alt.Fill("name:N", scale=colour.scale, legend=None),
        fillOpacity=filled,
        tooltip="text:N",
    )
    drawing = alt.layer(
        rows([{}]).mark_rect(color="var(--rule)", opacity=0.7).encode(
            x=alt.datum(1 / (1 + margin)), x2=alt.datum(1 + margin)
        ),
        rows([{}]).mark_rule(color="var(--quiet)", strokeDash=[2, 3]).encode(x=alt.datum(1)),
        layer.mark_rule(strokeWidth=1.5, clip=True).encode(colour, x="outer_low:Q", x2="outer_high"),
        layer.mark_rule(strokeWidth=4, clip=True).encode(colour, x="low:Q", x2="high"),
        mark,
        row_names(layer),
    ).properties(height=alt.Step(70))
    texts = (f"{row['name']}: {row['label'][2:]}" for row in data)
    return [
        Chart(
            key="speedups",
            part="speed",
            title="Speed-up with its 95 % interval",
            description="; ".join(texts) + ".",
            table=make_table(columns, compared),
            drawing=drawing,
            notes=(f"Grey band: same within {100 * margin:g} %", "Dotted line: the baseline"),
        )
    ]


def deciding_interval(comparison: Comparison) -> Estimate | None:
    """Return the interval that decides the verdict: the corrected one, if there is one."""
    return comparison.corrected or comparison.speedup


def _row(comparison: Comparison, decisive: Estimate | None, name: ArmNames) -> dict[str, object]:
    estimate = comparison.speedup
    assert estimate is not None  # only those are drawn
    assert decisive is not None
    return {
        "name": short(name(comparison.arm)),
        "row": name(comparison.arm),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "outer_low": decisive.low,
        "outer_high": decisive.high,
        "label": f"{SIGNS[comparison.verdict]} {comparison.verdict}: {ratio(decisive)}",
        "hollow": comparison.verdict == "inconclusive",
        "text": verdict_sentence(comparison, name),
    }
