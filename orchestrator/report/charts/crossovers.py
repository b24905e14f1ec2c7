"""Plots of the speed-up by size, with a curve for each arm: they show crossovers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import number, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Band, Chart, Series
from orchestrator.report.charts.naming import slug
from orchestrator.report.crossover_wording import sides
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames


def crossovers(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a plot for each param by which speed-ups were fitted."""
    by_param: dict[str, list[Crossover]] = {}
    for crossover in summary.crossovers:
        if crossover.curve:
            by_param.setdefault(crossover.param, []).append(crossover)
    return [_chart(param, fitted, name, styles) for param, fitted in by_param.items()]


def _chart(param: str, fitted: list[Crossover], name: ArmNames, styles: Mapping[Arm, int]) -> Chart:
    headers = ("arm", "baseline", param, "fitted speed-up (95 %)")
    rows = tuple(
        (
            name(crossover.arm),
            name(crossover.baseline),
            number(point.at),
            ratio(Estimate(len(crossover.points), point.speedup, point.low, point.high)),
        )
        for crossover in fitted
        for point in crossover.curve
    )
    lowest = min(crossover.low for crossover in fitted)
    return Chart(
        key=f"crossover-{slug(param)}",
        part="crossovers",
        title=f"Speed-up by {param}",
        description=" ".join(_description(crossover, name) for crossover in fitted),
        positions=Axis(f"{param}{' (logarithmic)' if lowest > 0 else ''}", log=lowest > 0),
        values=Axis("speed-up over the baseline (×, logarithmic)", log=True),
        series=tuple(series for crossover in fitted for series in _series(crossover, name, styles)),
        table=Table(headers, rows, frozenset({2, 3})),
        bands=(Band(1, 1, "as fast as the baseline"),),
    )


def _description(crossover: Crossover, name: ArmNames) -> str:
    pair = f"{name(crossover.arm)} over {name(crossover.baseline)}"
    ends = (number(crossover.curve[i].speedup) for i in (0, -1))
    sizes = f"between {number(crossover.low)} and {number(crossover.high)}"
    text = f"{pair}: from {' × to '.join(ends)} × {sizes}"
    if crossover.crossing is None:
        reason = f" ({crossover.reason})" if crossover.reason else ""
        return f"{text}; {crossover.verdict}{reason}."
    where, beyond = sides(crossover, crossover.crossing)
    return f"{text}; faster {where}, slower {beyond}."


def _series(crossover: Crossover, name: ArmNames, styles: Mapping[Arm, int]) -> Iterable[Series]:
    title, style = name(crossover.arm), styles[crossover.arm]
    yield Series(
        name=title,
        style=style,
        mark="line",
        positions=tuple(point.at for point in crossover.curve),
        values=tuple(point.speedup for point in crossover.curve),
        low=tuple(point.low for point in crossover.curve),
        high=tuple(point.high for point in crossover.curve),
    )
    yield Series(
        name=title,
        style=style,
        mark="points",
        positions=tuple(point.at for point in crossover.points),
        values=tuple(point.adjusted for point in crossover.points),
        hover=tuple(
            f"{title}, block {p.block}: {number(p.speedup)} × at {number(p.at)}"
            for p in crossover.points
        ),
    )
