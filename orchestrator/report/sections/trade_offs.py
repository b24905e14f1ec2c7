"""The section on trade-offs: the fronts of accuracy against time, energy, cost and memory."""

from orchestrator.analysis.arms.best_configs import ParetoPoint, TradeOff
from orchestrator.analysis.measures import EXPENSES, MEASURES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, config_phrase, result_name

_UNITS = {measure.metric: measure.unit for measure in (*MEASURES, *EXPENSES) if measure.per == 1}


def trade_offs_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the two ends of each front: the most accurate config, and the least expensive one.

    Of several hardware classes only the fronts over all are listed.
    """
    is_over_all = any(front.hardware is None for front in summary.fronts)
    shown = [front for front in summary.fronts if not is_over_all or front.hardware is None]
    if not shown:
        return None

    def end(point: ParetoPoint, trade_off: TradeOff) -> str:
        unit = _UNITS.get(trade_off.expense, "")
        value = f"{number(point.values[trade_off.expense])} {unit}".strip()
        where = f"{config_phrase(point.config)} on {name(point.arm)}"
        return f"{number(point.values[trade_off.result])}, {value}: {where}"

    def most_accurate(trade_off: TradeOff) -> str:
        return end(trade_off.front.points[0], trade_off)

    def least(trade_off: TradeOff) -> str:
        points = trade_off.front.points
        return end(min(points, key=lambda point: point.values[trade_off.expense]), trade_off)

    result = shown[0].result
    is_accuracy = result_name(result) == "accuracy"
    columns: list[Column[TradeOff]] = [
        Column("against", lambda t: f"{t.expense}, {t.scope}" if t.scope else t.expense),
        Column("points", lambda trade_off: len(trade_off.front.points)),
        Column("the most accurate" if is_accuracy else f"the best {result}", most_accurate),
        Column("the least", least),
    ]
    explanation = (
        f"A front holds the configs × arms that no other beats in both {result} and a time, an "
        "energy or a cost. Listed are the lowest of these and the most accurate one. Both are "
        "picked after the fact, and so likely a little optimistic. The page draws all points."
    )
    return Section(
        f"Pareto fronts of {result}",
        tables=(make_table(columns, shown),),
        explanations=(explanation,),
    )
