"""Utilisation, memory and temperature over the seconds of one trial of each arm."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.analysis.arms.over_time import TelemetryCurves
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import slug
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames

MOST_POINTS = 400
"""The most points of a curve: more look the same, and make the page slower."""

_SHOWN = re.compile(
    r"system/(cpu_utilization_percentage|cpu_others_percentage|cpu_package_power_watts"
    r"|trainer_memory_usage_megabytes|cpu_temperature_celsius"
    r"|gpu_\d+_(utilization_percentage|memory_usage_megabytes|temperature_celsius"
    r"|power_usage_watts|sm_clock_megahertz))"
)
"""The recorded curves that get a plot; each MLflow run has all of them."""

_UNITS = {
    "percentage": "%", "megabytes": "MB", "watts": "W", "celsius": "°C", "megahertz": "MHz",
}  # fmt: skip


def telemetry(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a plot for each recorded curve."""
    recorded = dict.fromkeys(curve for trial in summary.curves for curve in trial.curves)
    charts = [
        _chart(curve, summary.curves, name, styles) for curve in recorded if _SHOWN.fullmatch(curve)
    ]
    return [chart for chart in charts if chart.series]


def title_of(curve: str) -> str:
    """Return `GPU 0 temperature (°C)` for `system/gpu_0_temperature_celsius`."""
    *words, unit = curve.removeprefix("system/").split("_")
    title = " ".join(word.upper() if word in ("cpu", "gpu", "sm") else word for word in words)
    return f"{title} ({_UNITS[unit]})" if unit in _UNITS else f"{title} {unit}"


def _chart(
    curve: str, runs: tuple[TelemetryCurves, ...], name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    shown = [(trial, values) for trial in runs if (values := _recorded(trial, curve))]
    title = title_of(curve)
    headers = ("arm", "block", "minimum", "mean", "maximum", "run")
    rows = tuple(
        (
            name(trial.arm),
            str(trial.block),
            *(number(value) for value in (min(values), sum(values) / len(values), max(values))),
            trial.run_id,
        )
        for trial, values in shown
    )
    return Chart(
        key=f"telemetry-{slug(curve.removeprefix('system/'))}",
        part="telemetry",
        title=f"{title[:1].upper()}{title[1:]} over time",
        description=" ".join(
            f"{row[0]}: from {row[2]} to {row[4]}, mean {row[3]}." for row in rows
        ),
        positions=Axis("seconds since the trial began"),
        values=Axis(title),
        series=tuple(
            _series(trial, curve, name(trial.arm), styles[trial.arm]) for trial, _ in shown
        ),
        table=Table(headers, rows, frozenset({1, 2, 3, 4})),
    )


def _recorded(trial: TelemetryCurves, curve: str) -> list[float]:
    return [value for value in trial.curves.get(curve, ()) if value is not None]


def _series(trial: TelemetryCurves, curve: str, title: str, style: int) -> Series:
    step = -(-len(trial.at_s) // MOST_POINTS)  # rounded up
    return Series(
        name=title,
        style=style,
        mark="marked line",
        positions=trial.at_s[:: max(step, 1)],
        values=trial.curves[curve][:: max(step, 1)],
    )
