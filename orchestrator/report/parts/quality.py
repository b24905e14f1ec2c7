"""The part on quality: what the models of each arm learned, and which configs are best."""

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from orchestrator.analysis.arms.arm_summary import LearningCurve
from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff
from orchestrator.analysis.arms.choice import ArmOnConfig
from orchestrator.analysis.arms.targets import ExpenseToTarget, Target, TargetArm
from orchestrator.analysis.contrasts.contrast import Question
from orchestrator.analysis.pairing.margins import JudgedMargin
from orchestrator.analysis.results import USUAL_RESULTS
from orchestrator.analysis.statistics.estimates import Spread
from orchestrator.analysis.statistics.formatting import ABSENT, number, plain, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import joined
from orchestrator.report.document import PARTS, Column, Fact, Section, Table, make_table
from orchestrator.report.names import ArmNames, config_phrase, margin_with_origin
from orchestrator.report.parts.contrast_tables import chosen, contrast_table, metric_title

_MOST_POINTS = 20
"""The most points of a front that have a row."""

_NEVER = "never"
"""The text of a quartile among the trials that did not reach the target."""


def quality_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the results of the arms; list best configs, learning, targets and publications."""
    tables = (
        *_compared(summary, name),
        *_best(summary, name),
        *_trade_offs(summary, name),
        *_learning(summary, name),
        *(_target(target, name) for target in summary.targets if target.arms),
        *_published(summary),
    )
    notes, doubts = tuple(_notes(summary)), tuple(_doubts(summary, name))
    if not (tables or doubts):
        return None
    return Section(PARTS["quality"], (), tables, doubts, notes, "quality")


def _compared(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    for metric in summary.results:
        contrasts = chosen(summary, metric, Question.BASELINE, Question.BEST)
        if contrasts:
            titles = "arm", "compared with", f"Δ {metric}"
            yield contrast_table(summary, name, contrasts, titles)


def _best(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield all arms on the best config by the only objective, or else the Pareto-best configs."""
    front, best = summary.front, summary.best_by_objective
    if best is not None:
        time = best.time_metric
        columns: list[Column[ArmOnConfig]] = [
            Column("on the best config", lambda row: name(row.arm)),
            Column(best.metric, lambda row: row.value, numeric=True),
            Column(time or "time", lambda row: row.time, numeric=True, optional=True),
            Column("choice", lambda row: row.candidacy),
            Column("reason", lambda row: row.reason, optional=True),
        ]
        yield make_table(columns, best.arms)
    elif front.points:
        has_scopes = len({point.scope for point in front.points}) > 1
        points: list[Column[ParetoPoint]] = [
            Column("Pareto-best", lambda point: name(point.arm)),
            *(Column(metric, partial(_value, metric)) for metric in front.objectives),
            Column("energy of", lambda p: p.scope or ABSENT if has_scopes else None, optional=True),
            Column("trials", lambda point: point.repeats),
            Column("config", lambda point: config_phrase(point.config)),
        ]
        yield make_table(points, front.points[:_MOST_POINTS])


def _value(metric: str, point: ParetoPoint) -> float:
    return point.values[metric]


def _trade_offs(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield the ends of the fronts: the best result, and the least time, energy, cost or memory.

    Of several hardware classes only the fronts over all are listed; the page draws all points.
    """
    is_over_all = any(front.hardware is None for front in summary.fronts)
    fronts = [front for front in summary.fronts if not is_over_all or front.hardware is None]
    ends = [(front, end) for front in fronts for end in _ends(front)]
    columns: list[Column[tuple[TradeOff, ParetoPoint]]] = [
        Column("trade-off against", lambda row: _expense(row[0])),
        Column("result", lambda row: row[1].values[row[0].result]),
        Column("takes", lambda row: row[1].values[row[0].expense]),
        Column("arm", lambda row: name(row[1].arm)),
        Column("config", lambda row: config_phrase(row[1].config)),
    ]
    if ends:
        yield make_table(columns, ends)


def _ends(trade_off: TradeOff) -> list[ParetoPoint]:
    """Return the point with the best result, and the least expensive one if that is another."""
    points = trade_off.front.points
    least = min(points, key=lambda point: point.values[trade_off.expense])
    return [points[0]] if least is points[0] else [points[0], least]


def _expense(trade_off: TradeOff) -> str:
    title = metric_title(trade_off.expense)
    return f"{title}, {trade_off.scope}" if trade_off.scope else title


def _learning(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield the result of each arm after the first, the middle and the last epoch, and when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((result for result in USUAL_RESULTS if result in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if not any(len(curve.points) > 1 for curve in curves):
        return
    epochs = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(epochs) - 1
    columns: list[Column[LearningCurve]] = [
        Column(f"{metric} by epoch", lambda curve: name(curve.arm)),
        Column("configs", lambda curve: curve.points[0].value.n),
    ]
    for epoch in (epochs[index] for index in sorted({0, last // 2, last})):
        columns.append(Column(f"after epoch {epoch}", partial(_after, epoch), numeric=True))
    yield make_table(columns, curves)


def _after(epoch: int, curve: LearningCurve) -> str | None:
    points = [point for point in curve.points if point.epoch == epoch]
    return f"{number(points[0].value.median)} at {number(points[0].seconds)} s" if points else None


def _target(target: Target, name: ArmNames) -> Table:
    scopes = {arm.energy_scope for arm in target.arms if arm.energy_j}
    columns: list[Column[TargetArm]] = [
        Column(f"to val_accuracy {number(target.accuracy)}", lambda row: name(row.arm)),
        Column("reached", lambda row: f"{row.time_s.reached} of {row.time_s.trials}", numeric=True),
        Column("diverged", lambda row: row.diverged or None, optional=True),
        Column("time (s)", lambda row: row.time_s, show=_until),
        Column("energy (J)", lambda row: row.energy_j, show=_until, optional=True),
        Column("cost (USD)", lambda row: row.cost_usd, show=_until, optional=True),
        Column(
            "energy of", lambda row: row.energy_scope if len(scopes) > 1 else None, optional=True
        ),
    ]
    return make_table(columns, target.arms)


def _until(reached: ExpenseToTarget) -> str:
    """Write median and quartiles, `never` for a quartile among trials that missed the target."""
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is None:
        return _NEVER
    if median is not None and high is not None:
        return quartiles(Spread(reached.trials, median, low, high))
    median_text, high_text = (_NEVER if end is None else plain(end) for end in (median, high))
    return f"{median_text} ({plain(low)}–{high_text})"


def _published(summary: ReportSummary) -> Iterator[Table]:
    """Yield every published row, and under it the nearest measured config of each arm."""
    matches = summary.published
    metrics = list(dict.fromkeys(metric for match in matches for metric in match.row.metrics))
    rows: list[tuple[Any, ...]] = []
    for match in matches:
        row = match.row
        values, config = map(row.metrics.get, metrics), config_phrase(row.config)
        rows.append((row.source, row.implementation, row.hardware, *values, config))
        for nearest in match.measured:
            values, differs = map(nearest.values.get, metrics), "; ".join(nearest.differs)
            arm = nearest.arm
            rows.append(("here", arm.short_name, str(arm.hardware), *values, differs or "the same"))
        if not match.measured:
            rows.append(("here", "not measured", *(None for _ in ("hardware", *metrics, "config"))))
    titles = ("published", "implementation", "hardware", *metrics, "config")
    if rows:
        yield make_table([Column(title, itemgetter(i)) for i, title in enumerate(titles)], rows)


_ORIGINS = {
    None: "",
    "one sample": ", one validation sample",
    "noise": ", the noise of the validation set",
}
"""To what a margin was widened."""


def _notes(summary: ReportSummary) -> Iterator[str]:
    for metric, margin in summary.margins.items():
        yield f"Same {metric}: the interval is within ± {_margin(margin)}."
    front, best = summary.front, summary.best_by_objective
    if best is not None:
        yield f"Best config: {config_phrase(best.chosen.config)}."
    if front.points:
        yield (
            f"Best of {front.tried} configs × arms, {front.left_out} excluded; chosen after the "
            "fact, so probably a little optimistic."
        )
    if not best and len(front.points) > _MOST_POINTS:
        yield f"and {len(front.points) - _MOST_POINTS} more: rnnsweep best"
    if any(target.arms for target in summary.targets):
        yield (
            "Targets: median and quartiles over trials, up to the end of the first epoch that "
            "reaches the target; energy and cost in proportion to the time."
        )
    if summary.published:
        yield "Published results are from other hardware and software: context, not a comparison."


def _margin(margin: JudgedMargin) -> str:
    origin = _ORIGINS[margin.widened]
    return f"{margin_with_origin(margin.value, margin.share, margin.samples)}{origin}"


def _doubts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    unranked = {
        "unlike work": summary.front.unlike_work,
        "other mathematics": summary.front.different_mathematics,
    }
    for reason, arms in unranked.items():
        if arms and summary.front.points:
            yield Fact("not ranked", f"{joined(map(name, arms))}: {reason}")
    for target in summary.targets:
        if not target.arms:
            accuracy = number(target.accuracy)
            yield Fact("no target", f"val_accuracy {accuracy}: not recorded after each epoch")
