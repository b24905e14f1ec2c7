"""Plots of learning curves, against epochs and against seconds of training."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.arms.over_time import LearningCurve
from orchestrator.analysis.statistics.formatting import number, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import metric_title, slug
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames


def learning(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Make two plots for each metric recorded by epoch: against epochs, and against seconds."""
    by_metric: dict[str, list[LearningCurve]] = {}
    for curve in summary.learning:
        if curve.points:
            by_metric.setdefault(curve.metric, []).append(curve)
    return [
        _chart(metric, against, curves, name, styles)
        for metric, curves in by_metric.items()
        for against in ("epochs", "seconds")
    ]


def _chart(
    metric: str,
    against: str,
    curves: list[LearningCurve],
    name: ArmNames,
    styles: Mapping[Arm, int],
) -> Chart:
    headers = ("arm", "epoch", "training (s)", f"{metric}: median (quartiles)")
    rows = tuple(
        (name(curve.arm), str(point.epoch), number(point.seconds), quartiles(point.value))
        for curve in curves
        for point in curve.points
    )
    title = metric_title(metric)
    unit = "epochs" if against == "epochs" else "seconds of training (median)"
    return Chart(
        key=f"learning-{slug(metric)}-{against}",
        part="learning",
        title=f"{title} against {against}",
        description=" ".join(_description(curve, name) for curve in curves),
        positions=Axis(unit),
        values=Axis(f"{title}: median and quartiles"),
        series=tuple(_series(curve, against, name, styles[curve.arm]) for curve in curves),
        table=Table(headers, rows, frozenset({1, 2, 3})),
    )


def _description(curve: LearningCurve, name: ArmNames) -> str:
    first, last = curve.points[0], curve.points[-1]
    return (
        f"{name(curve.arm)}: {curve.metric} from {number(first.value.median)} after epoch "
        f"{first.epoch} to {number(last.value.median)} after epoch {last.epoch} "
        f"({number(last.seconds)} s)."
    )


def _series(curve: LearningCurve, against: str, name: ArmNames, style: int) -> Series:
    spreads = [point.value for point in curve.points]
    positions = tuple(float(p.epoch) if against == "epochs" else p.seconds for p in curve.points)
    banded = all(s.lower_quartile is not None and s.upper_quartile is not None for s in spreads)
    return Series(
        name=name(curve.arm),
        style=style,
        mark="marked line",
        positions=positions,
        values=tuple(s.median for s in spreads),
        low=tuple(s.lower_quartile or 0.0 for s in spreads) if banded else (),
        high=tuple(s.upper_quartile or 0.0 for s in spreads) if banded else (),
        hover=tuple(
            f"{name(curve.arm)}, epoch {p.epoch}, {number(p.seconds)} s: {quartiles(p.value)}"
            for p in curve.points
        ),
    )
