"""Utilisation, memory and temperature over the seconds of one trial of each arm."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.analysis.arms.representatives import TelemetryCurves
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import slug
from orchestrator.report.document import Table
from orchestrator.report.wording.sentences import ArmNames

MOST_POINTS = 400
"""Of one curve: more are one line to the eye, and a burden to the page."""

_SHOWN = re.compile(
    r"system/(cpu_utilization_percentage|cpu_others_percentage|cpu_package_power_watts"
    r"|trainer_memory_usage_megabytes|cpu_temperature_celsius"
    r"|gpu_\d+_(utilization_percentage|memory_usage_megabytes|temperature_celsius"
    r"|power_usage_watts|sm_clock_megahertz))"
)
"""What is worth a plot, of what was recorded; MLflow has the rest with each run."""

_UNITS = {
    "percentage": "%", "megabytes": "MB", "watts": "W", "celsius": "°C", "megahertz": "MHz",
}  # fmt: skip


def telemetry(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """A plot for each curve that was recorded."""
    recorded = dict.fromkeys(curve for each in summary.curves for curve in each.curves)
    charts = [
        _chart(curve, summary.curves, name, styles) for curve in recorded if _SHOWN.fullmatch(curve)
    ]
    return [chart for chart in charts if chart.series]


def title_of(curve: str) -> str:
    """`GPU 0 temperature (°C)`, of `system/gpu_0_temperature_celsius`."""
    *words, unit = curve.removeprefix("system/").split("_")
    title = " ".join(word.upper() if word in ("cpu", "gpu", "sm") else word for word in words)
    return f"{title} ({_UNITS[unit]})" if unit in _UNITS else f"{title} {unit}"


def _chart(
    curve: str, runs: tuple[TelemetryCurves, ...], name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    found = [(each, known) for each in runs if (known := _known(each, curve))]
    title = title_of(curve)
    headers = ("arm", "block", "least", "mean", "most", "run")
    rows = tuple(
        (
            name(each.arm),
            str(each.block),
            *(number(value) for value in (min(known), sum(known) / len(known), max(known))),
            each.run_id,
        )
        for each, known in found
    )
    return Chart(
        key=f"telemetry-{slug(curve.removeprefix('system/'))}",
        part="telemetry",
        title=f"{title[:1].upper()}{title[1:]} over time",
        told=" ".join(
            f"{row[0]}: from {row[2]} to {row[4]}, {row[3]} in the mean." for row in rows
        ),
        at=Axis("seconds since the trial began"),
        values=Axis(title),
        series=tuple(_series(each, curve, name(each.arm), styles[each.arm]) for each, _ in found),
        table=Table(headers, rows, frozenset({1, 2, 3, 4})),
    )


def _known(each: TelemetryCurves, curve: str) -> list[float]:
    return [value for value in each.curves.get(curve, ()) if value is not None]


def _series(each: TelemetryCurves, curve: str, title: str, style: int) -> Series:
    step = -(-len(each.at_s) // MOST_POINTS)  # rounded up
    return Series(
        name=title,
        style=style,
        drawn="marked line",
        at=each.at_s[:: max(step, 1)],
        values=each.curves[curve][:: max(step, 1)],
    )
