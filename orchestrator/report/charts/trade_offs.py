"""Accuracy against time, energy or cost: what was tried, and the front that nothing beats."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import Point
from orchestrator.analysis.arms.trade_offs import TradeOff
from orchestrator.analysis.metrics.measures import FRESH_ONLY
from orchestrator.analysis.statistics.formatting import count, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import config_text, metric_title, slug
from orchestrator.report.document import Table
from orchestrator.report.wording.sentences import ArmNames

_FRONT_STYLE = 6  # of no arm's colour: its points are several arms'


MOST_POINTS = 1500
"""Of what was tried: more are one cloud to the eye and a burden to the page. Fronts are whole."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """One config on one arm, over its complete repeats."""

    arm: Arm
    block: int
    expense: float
    accuracy: float


def trade_offs(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """A plot of each front that has points."""
    return [_chart(summary, found, name, styles) for found in summary.fronts if found.front.points]


def _chart(
    summary: ReportSummary, found: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Chart:
    where = str(found.hardware or "all hardware")
    expense = metric_title(found.expense) + (f" of {found.scope}" if found.scope else "")
    points = sorted(found.front.points, key=lambda p: p.values[found.expense])
    best = [p.values for p in points]
    arms = ", ".join(dict.fromkeys(name(p.arm) for p in points))
    tried = list(_tried(summary, found, {p.arm for p in points}))
    shown = tried[:: -(-len(tried) // MOST_POINTS) or 1]
    few = f" Of the others {len(shown)} of {len(tried)} are drawn." if shown != tried else ""
    return Chart(
        key="-".join(filter(None, ("pareto", slug(found.expense), slug(found.scope), slug(where)))),
        part="fronts",
        title=f"{metric_title(found.accuracy)} against {expense}: {where}",
        told=(
            f"{count(len(points), 'config')} of {found.front.tried} that no other beats in both, "
            f"on {arms}: from {_both(found, best[0])} to {_both(found, best[-1])}.{few}"
        ),
        at=Axis(f"{expense} (logarithmic)", log=True),
        values=Axis(metric_title(found.accuracy)),
        series=(*_clouds(shown, found, name, styles), *_front(points, found, name, styles)),
        table=_table(points, found, name),
    )


def _tried(summary: ReportSummary, found: TradeOff, best: set[Arm]) -> Iterable[_Tried]:
    """What was tried where the front is; on the arms that stand apart from it nothing is shown."""
    apart = {arm for arm in found.front.apart if arm not in best}
    groups: dict[tuple[int, Arm], list[tuple[float, float]]] = defaultdict(list)
    for trial in summary.trials:
        here = found.hardware in (None, trial.arm.hardware_class) and trial.arm not in apart
        scope = found.scope in ("", trial.telemetry.energy_scope)
        fresh = found.expense not in FRESH_ONLY or trial.trainer_trials == 0
        both = tuple(trial.metrics.get(m, math.nan) for m in (found.expense, found.accuracy))
        if (
            here
            and scope
            and fresh
            and trial.status == "complete"
            and all(map(math.isfinite, both))
        ):
            groups[trial.block, trial.arm].append((both[0], both[1]))
    for (block, arm), values in groups.items():
        expense, accuracy = (math.fsum(each) / len(values) for each in zip(*values, strict=True))
        yield _Tried(arm, block, expense, accuracy)


def _clouds(
    tried: Iterable[_Tried], found: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Iterable[Series]:
    own: dict[Arm, list[_Tried]] = defaultdict(list)
    for each in tried:
        own[each.arm].append(each)
    for arm, points in own.items():
        values = [{found.expense: p.expense, found.accuracy: p.accuracy} for p in points]
        yield Series(
            name=name(arm),
            style=styles[arm],
            drawn="points",
            at=tuple(p.expense for p in points),
            values=tuple(p.accuracy for p in points),
            hover=tuple(
                f"{name(arm)}, block {p.block}: {_both(found, both)}"
                for p, both in zip(points, values, strict=True)
            ),
            faint=True,
        )


def _front(
    points: list[Point], found: TradeOff, name: ArmNames, styles: Mapping[Arm, int]
) -> Iterable[Series]:
    at = tuple(p.values[found.expense] for p in points)
    values = tuple(p.values[found.accuracy] for p in points)
    yield Series("best front", _FRONT_STYLE, "line", at, values, stepped=True)
    for p in points:
        yield Series(
            name=name(p.arm),
            style=styles[p.arm],
            drawn="points",
            at=(p.values[found.expense],),
            values=(p.values[found.accuracy],),
            hover=(
                f"best front: {name(p.arm)}, block {p.block} ({config_text(p.config)}): "
                f"{_both(found, p.values)}",
            ),
        )


def _both(found: TradeOff, values: Mapping[str, float]) -> str:
    return ", ".join(
        f"{metric_title(metric)} {number(values[metric])}"
        for metric in (found.accuracy, found.expense)
    )


def _table(points: list[Point], found: TradeOff, name: ArmNames) -> Table:
    headers = ("arm", "block", found.accuracy, found.expense, "config", "runs")
    rows = tuple(
        (
            name(p.arm),
            str(p.block),
            number(p.values[found.accuracy]),
            number(p.values[found.expense]),
            config_text(p.config),
            ", ".join(p.run_ids),
        )
        for p in points
    )
    return Table(headers, rows, frozenset({1, 2, 3}))
