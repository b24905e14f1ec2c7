"""Plots of accuracy against time, energy or cost: the configs tried, and their Pareto front."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff
from orchestrator.analysis.measures import FRESH_ONLY
from orchestrator.analysis.statistics.formatting import count, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import config_text, metric_title, slug
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames

_FRONT_STYLE = 6  # grey, as its points belong to several arms


MOST_POINTS = 1500
"""The most configs drawn: more look the same, and make the page slower. Fronts are complete."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """One config on one arm, over its complete repeats."""

    arm: Arm
    block: int
    expense: float
    accuracy: float


def trade_offs(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make a plot of each front that has points."""
    drawn = [trade_off for trade_off in summary.fronts if trade_off.front.points]
    return [_chart(summary, trade_off, name, styles) for trade_off in drawn]


def _chart(
    summary: ReportSummary, trade_off: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    where = str(trade_off.hardware or "all hardware")
    scope = f" of {trade_off.scope}" if trade_off.scope else ""
    expense = metric_title(trade_off.expense) + scope
    points = sorted(trade_off.front.points, key=lambda p: p.values[trade_off.expense])
    best = [p.values for p in points]
    arms = ", ".join(dict.fromkeys(name(p.arm) for p in points))
    tried = list(_tried(summary, trade_off, {p.arm for p in points}))
    shown = tried[:: -(-len(tried) // MOST_POINTS) or 1]
    drawn = f" {len(shown)} of {len(tried)} other configs are drawn." if shown != tried else ""
    return Chart(
        key="-".join(
            filter(None, ("pareto", *map(slug, (trade_off.expense, trade_off.scope, where))))
        ),
        part="fronts",
        title=f"{metric_title(trade_off.accuracy)} against {expense}: {where}",
        description=(
            f"{len(points)} of {count(trade_off.front.tried, 'config')} on the Pareto front, "
            f"with {arms}: from {_both(trade_off, best[0])} to {_both(trade_off, best[-1])}.{drawn}"
        ),
        positions=Axis(f"{expense} (logarithmic)", log=True),
        values=Axis(metric_title(trade_off.accuracy)),
        series=(*_clouds(shown, trade_off, name, styles), *_front(points, trade_off, name, styles)),
        table=_table(points, trade_off, name),
    )


def _tried(summary: ReportSummary, trade_off: TradeOff, best: set[Arm]) -> Iterable[_Tried]:
    """Return the configs tried on the hardware of the front, without arms that cannot be on it."""
    excluded = {arm for arm in trade_off.front.apart if arm not in best}
    groups: dict[tuple[int, Arm], list[tuple[float, float]]] = defaultdict(list)
    for trial in summary.trials:
        here = trade_off.hardware in (None, trial.arm.hardware_class) and trial.arm not in excluded
        scope = trade_off.scope in ("", trial.telemetry.energy_scope)
        fresh = trade_off.expense not in FRESH_ONLY or trial.trainer_trials == 0
        metrics = (trade_off.expense, trade_off.accuracy)
        both = tuple(trial.metrics.get(metric, math.nan) for metric in metrics)
        if (
            here
            and scope
            and fresh
            and trial.status == "complete"
            and all(map(math.isfinite, both))
        ):
            groups[trial.block, trial.arm].append((both[0], both[1]))
    for (block, arm), values in groups.items():
        expense, accuracy = (
            math.fsum(column) / len(values) for column in zip(*values, strict=True)
        )
        yield _Tried(arm, block, expense, accuracy)


def _clouds(
    tried: Iterable[_Tried], trade_off: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Iterable[Series]:
    own: dict[Arm, list[_Tried]] = defaultdict(list)
    for tried_config in tried:
        own[tried_config.arm].append(tried_config)
    for arm, points in own.items():
        values = [{trade_off.expense: p.expense, trade_off.accuracy: p.accuracy} for p in points]
        yield Series(
            name=name(arm),
            style=styles[arm],
            mark="points",
            positions=tuple(p.expense for p in points),
            values=tuple(p.accuracy for p in points),
            hover=tuple(
                f"{name(arm)}, block {p.block}: {_both(trade_off, both)}"
                for p, both in zip(points, values, strict=True)
            ),
            faint=True,
        )


def _front(
    points: list[ParetoPoint], trade_off: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Iterable[Series]:
    positions = tuple(p.values[trade_off.expense] for p in points)
    values = tuple(p.values[trade_off.accuracy] for p in points)
    yield Series("Pareto front", _FRONT_STYLE, "line", positions, values, stepped=True)
    for p in points:
        yield Series(
            name=name(p.arm),
            style=styles[p.arm],
            mark="points",
            positions=(p.values[trade_off.expense],),
            values=(p.values[trade_off.accuracy],),
            hover=(
                f"Pareto front: {name(p.arm)}, block {p.block} ({config_text(p.config)}): "
                f"{_both(trade_off, p.values)}",
            ),
        )


def _both(trade_off: TradeOff, values: Mapping[str, float]) -> str:
    return ", ".join(
        f"{metric_title(metric)} {number(values[metric])}"
        for metric in (trade_off.accuracy, trade_off.expense)
    )


def _table(points: list[ParetoPoint], trade_off: TradeOff, name: ArmNames) -> Table:
    headers = ("arm", "block", trade_off.accuracy, trade_off.expense, "config", "runs")
    rows = tuple(
        (
            name(p.arm),
            str(p.block),
            number(p.values[trade_off.accuracy]),
            number(p.values[trade_off.expense]),
            config_text(p.config),
            ", ".join(p.run_ids),
        )
        for p in points
    )
    return Table(headers, rows, frozenset({1, 2, 3}))
