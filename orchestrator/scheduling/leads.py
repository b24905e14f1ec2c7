"""Which arms lead a running sweep, in words: by time, and by the results of its objectives."""

from collections.abc import Callable, Collection, Iterator

from orchestrator.analysis.comparisons.ranking import rankings
from orchestrator.analysis.comparisons.result_ranking import rank_results
from orchestrator.analysis.pairing import complete_rounds, pairs
from orchestrator.analysis.statistics.formatting import difference, number, ratio
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import counted
from workloads.metrics import find_metric


def describe_leads(record: SweepRecord, arm_name: Callable[[Arm], str]) -> list[str]:
    """Return which arm leads by each objective, in the order of the objectives.

    Times count where an objective is no result of training, or where no result was measured.
    """
    costs = [name for name in record.objectives if not find_metric(name).is_result]
    results = list(_leads_by_results(record, arm_name, say_equal=not costs))
    times = list(_leads_by_times(record, arm_name, costs)) if costs or not results else []
    is_time_first = costs[:1] == list(record.objectives)[:1]
    return [*times, *results] if is_time_first else [*results, *times]


def _leads_by_times(
    record: SweepRecord, arm_name: Callable[[Arm], str], objectives: Collection[str]
) -> Iterator[str]:
    """Return which arm has the least time on each hardware, or of another objective."""
    timed = complete_rounds.match(record, lambda trial: trial.has_times)
    time_metric = pairs.time_metric(timed)
    for ranked in rankings(timed, time_metric, record.criteria.margins.speed):
        second = ranked.behind[0]
        is_shown = ranked.metric == time_metric or ranked.metric in objectives
        if not is_shown or ranked.among != "implementations" or not second.ratio:
            continue
        leader = arm_name(ranked.leader)
        if ranked.metric == time_metric:
            text = (
                f"{leader} {'is fastest' if ranked.sole else 'leads'}: "
                f"{ratio(second.ratio)} as fast as {second.arm.short_name}"
            )
        else:
            text = (
                f"{leader} {'has the least' if ranked.sole else 'leads in'} {ranked.metric}: "
                f"{second.arm.short_name} has {ratio(second.ratio)} as much"
            )
        busy = " (busy)" if ranked.disturbed else ""
        yield f"{text} over {counted(ranked.blocks, ranked.unit)}{busy}"


def _leads_by_results(
    record: SweepRecord, arm_name: Callable[[Arm], str], *, say_equal: bool
) -> Iterator[str]:
    """Return which arm has the best result, for each objective that was measured.

    Arms whose results differ by no more than the margin are said to be equal, or not named.
    """
    if not record.objectives:
        return
    for ranked in rank_results(record, complete_rounds.match(record)):
        if ranked.metric not in record.objectives:
            continue
        over = f"over {counted(ranked.blocks, ranked.unit)}"
        is_decided = bool(ranked.worse) and not ranked.as_good
        compared = [arm for arm in ranked.behind if arm.difference]
        apart = [b for b in compared if b.difference and abs(b.difference.value) > ranked.margin]
        if apart:
            other = ranked.worse[0] if is_decided else apart[0]
            leaders, verb = arm_name(ranked.leader), "leads in"
            if is_decided:
                verb = "has the best"
            elif close := len(compared) - len(apart):
                leaders, verb = f"{leaders} and {counted(close, 'other arm')}", "lead in"
            yield (
                f"{leaders} {verb} {ranked.metric}: {difference(other.difference)} "
                f"compared with {arm_name(other.arm)} {over}"
            )
        elif say_equal:
            within = number(float(f"{ranked.margin:.2g}"))
            yield f"the arms' {ranked.metric} is the same within {within} {over}"
