"""Where one arm overtakes another along a size: a plot for each size, a curve for each arm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import number, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Band, Chart, Series
from orchestrator.report.charts.naming import slug
from orchestrator.report.document import Table
from orchestrator.report.wording.crossovers import not_adjusted_for, sides
from orchestrator.report.wording.sentences import ArmNames


def crossovers(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """A plot for each param along which speed-ups were fitted."""
    by_param: dict[str, list[Crossover]] = {}
    for each in summary.crossovers:
        if each.curve:
            by_param.setdefault(each.param, []).append(each)
    return [_chart(param, found, name, styles) for param, found in by_param.items()]


def _chart(param: str, found: list[Crossover], name: ArmNames, styles: Mapping[Arm, int]) -> Chart:
    headers = ("arm", "over", param, "speed-up fitted (95 %)")
    rows = tuple(
        (
            name(each.arm),
            name(each.baseline),
            number(point.at),
            ratio(Estimate(len(each.points), point.speedup, point.low, point.high)),
        )
        for each in found
        for point in each.curve
    )
    lowest = min(each.low for each in found)
    return Chart(
        key=f"crossover-{slug(param)}",
        part="crossovers",
        title=f"Speed-up along {param}",
        told=" ".join(_told(each, name) for each in found),
        at=Axis(f"{param}{' (logarithmic)' if lowest > 0 else ''}", log=lowest > 0),
        values=Axis("speed-up over the baseline (×, logarithmic)", log=True),
        series=tuple(series for each in found for series in _series(each, name, styles)),
        table=Table(headers, rows, frozenset({2, 3})),
        bands=(Band(1, 1, "as fast as the baseline"),),
    )


def _told(each: Crossover, name: ArmNames) -> str:
    pair = f"{name(each.arm)} over {name(each.baseline)}"
    ends = (number(each.curve[i].speedup) for i in (0, -1))
    told = (
        f"{pair}: from {' × to '.join(ends)} × between {number(each.low)} and {number(each.high)}"
    )
    aside = f"; {missing}" if (missing := not_adjusted_for(each)) else ""
    if each.crossing is None:
        reason = f" ({each.reason})" if each.reason else ""
        return f"{told}; {each.verdict}{reason}{aside}."
    where, beyond = sides(each, each.crossing)
    return f"{told}; faster {where}, slower {beyond}{aside}."


def _series(each: Crossover, name: ArmNames, styles: Mapping[Arm, int]) -> Iterable[Series]:
    title, style = name(each.arm), styles[each.arm]
    yield Series(
        name=title,
        style=style,
        drawn="line",
        at=tuple(point.at for point in each.curve),
        values=tuple(point.speedup for point in each.curve),
        low=tuple(point.low for point in each.curve),
        high=tuple(point.high for point in each.curve),
    )
    yield Series(
        name=title,
        style=style,
        drawn="points",
        at=tuple(point.at for point in each.points),
        values=tuple(point.adjusted for point in each.points),
        hover=tuple(
            f"{title}, block {p.block}: {number(p.speedup)} × at {number(p.at)}"
            for p in each.points
        ),
    )
