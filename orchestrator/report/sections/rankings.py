"""The section on rankings: the first arm of each group by time, energy, cost and memory."""

from dataclasses import replace

from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.statistics.formatting import ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.verdicts import standing_text
from orchestrator.report.wording import ArmNames, absent_arms_by_metric, grouped
from workloads.metrics import find_metric

_EXPLANATION = (
    "The next one needs so many times as much as the first one: the geometric mean over blocks. "
    "The intervals of a row hold together for all pairs of its group (Holm's procedure), which "
    "allows for the first one being picked by its own figures."
)


def rankings_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Rank the arms of each group by time, energy, cost and memory."""
    if not summary.rankings:
        return None
    first: Column[Ranking] = Column("fastest", lambda r: _choice(r, name, r.leader))
    tables = []
    ranked_arms: dict[str, set[Arm]] = {}
    for metric, ranked in grouped((r.metric, r) for r in summary.rankings).items():
        columns: list[Column[Ranking]] = [
            Column("of", lambda r: name.place(r.within) or "all arms"),
            Column("arms", lambda r: 1 + len(r.behind)),
            replace(first, title=find_metric(metric).superlative or first.title),
            Column("next", lambda r: _choice(r, name, r.behind[0].arm)),
            Column("it needs (95 % CI)", lambda r: r.behind[0].ratio, show=ratio),
            Column("verdict", standing_text),
        ]
        tables.append(make_table(columns, ranked))
        ranked_arms[metric] = {b.arm for r in ranked for b in r.behind} | {r.leader for r in ranked}
    return Section(
        "Rankings",
        tables=tuple(tables),
        paragraphs=absent_arms_by_metric(summary, name, ranked_arms),
        explanations=(_EXPLANATION,),
    )


def _choice(ranking: Ranking, name: ArmNames, arm: Arm) -> str:
    """Return the part of an arm's name that differs within the group."""
    if ranking.among == "implementations":
        return arm.short_name
    return name.place(arm.hardware) if ranking.among == "hardware" else name(arm)
