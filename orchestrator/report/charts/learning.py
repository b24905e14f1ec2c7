"""What each arm had learned after each epoch, and after how many seconds of training."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.arms.learning import LearningCurve
from orchestrator.analysis.statistics.formatting import number, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.charts.naming import metric_title, slug
from orchestrator.report.document import Table
from orchestrator.report.wording.sentences import ArmNames


def learning(summary: ReportSummary, name: ArmNames, styles: Mapping[Arm, int]) -> list[Chart]:
    """Two plots for each metric that was told by epoch: against epochs and against seconds."""
    by_metric: dict[str, list[LearningCurve]] = {}
    for each in summary.learning:
        if each.points:
            by_metric.setdefault(each.metric, []).append(each)
    return [
        _chart(metric, against, found, name, styles)
        for metric, found in by_metric.items()
        for against in ("epochs", "seconds")
    ]


def _chart(
    metric: str,
    against: str,
    found: list[LearningCurve],
    name: ArmNames,
    styles: Mapping[Arm, int],
) -> Chart:
    headers = ("arm", "epoch", "training (s)", f"{metric}: median (quartiles)")
    rows = tuple(
        (name(each.arm), str(point.epoch), number(point.seconds), quartiles(point.value))
        for each in found
        for point in each.points
    )
    title = metric_title(metric)
    unit = "epochs" if against == "epochs" else "seconds of training (median)"
    return Chart(
        key=f"learning-{slug(metric)}-{against}",
        part="learning",
        title=f"{title} against {against}",
        told=" ".join(_told(each, name) for each in found),
        at=Axis(unit),
        values=Axis(f"{title}: median and quartiles"),
        series=tuple(_series(each, against, name, styles[each.arm]) for each in found),
        table=Table(headers, rows, frozenset({1, 2, 3})),
    )


def _told(each: LearningCurve, name: ArmNames) -> str:
    first, last = each.points[0], each.points[-1]
    return (
        f"{name(each.arm)}: {each.metric} from {number(first.value.median)} after epoch "
        f"{first.epoch} to {number(last.value.median)} after epoch {last.epoch} "
        f"({number(last.seconds)} s)."
    )


def _series(each: LearningCurve, against: str, name: ArmNames, style: int) -> Series:
    spreads = [point.value for point in each.points]
    at = tuple(float(p.epoch) if against == "epochs" else p.seconds for p in each.points)
    banded = all(s.lower_quartile is not None and s.upper_quartile is not None for s in spreads)
    return Series(
        name=name(each.arm),
        style=style,
        drawn="marked line",
        at=at,
        values=tuple(s.median for s in spreads),
        low=tuple(s.lower_quartile or 0.0 for s in spreads) if banded else (),
        high=tuple(s.upper_quartile or 0.0 for s in spreads) if banded else (),
        hover=tuple(
            f"{name(each.arm)}, epoch {p.epoch}, {number(p.seconds)} s: {quartiles(p.value)}"
            for p in each.points
        ),
    )
