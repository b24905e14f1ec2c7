"""What a whole training takes, compiling included, where that is another answer than its steps."""

from collections.abc import Collection, Iterator

from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import joined
from orchestrator.report.document import Bullet, Kind
from orchestrator.report.sections.headlines import compared_with
from orchestrator.report.wording import about, arm_names, first_and_count, step_noun

_LITTLE = 0.1
"""The share of a training up to which its compilation is not worth a sentence."""


def whole_training_bullets(summary: ReportSummary) -> Iterator[Bullet]:
    """Write what the whole training took with compiling, on each hardware, where it is not little.

    Verdicts compare steps. An arm whose steps are the fastest may be the slowest to train if it
    compiles for longer than it trains, which this says whether or not the verdict is open.
    """
    rankings = [
        ranking
        for ranking in summary.rankings
        if ranking.metric == summary.time_metric and ranking.among == "implementations"
    ]
    for ranking in rankings:
        text = _sentence(summary, ranking)
        if text:
            yield Bullet(Kind.IN_ALL, text)


def _sentence(summary: ReportSummary, ranking: Ranking) -> str:
    """Name the leader by steps, the arm it is compared with, and the shortest whole training."""
    name, leader = arm_names(summary), ranking.leader
    ranked = (leader, *(behind.arm for behind in ranking.behind))
    rows = {row.arm: row for row in summary.arms if row.arm in ranked}
    whole_s = {
        arm: row.means["whole_train_s"].value
        for arm, row in rows.items()
        if "whole_train_s" in row.means
    }
    if leader not in whole_s or len(whole_s) < 2:
        return ""
    shortest = min(whole_s, key=lambda arm: whole_s[arm])
    train_s = rows[leader].means["train_s"].value
    if shortest == leader and whole_s[leader] - train_s < _LITTLE * whole_s[leader]:
        return ""
    named = {leader, compared_with(summary, ranking), shortest}
    order = sorted((arm for arm in named if arm in whole_s), key=lambda arm: whole_s[arm])
    figures = joined([f"{number(whole_s[arm])} s with {name(arm)}" for arm in order])
    pays = _pays_off(summary, leader, named - {leader})
    missing = [name(arm) for arm in ranked if arm not in whole_s]
    without = f"; no compile time of {first_and_count(missing)}" if missing else ""
    return f"A whole training takes, compiling included, {figures}{pays}{without}."


def _pays_off(summary: ReportSummary, leader: Arm, others: Collection[Arm]) -> str:
    """Write after how many steps the leader's longer compilation pays off, if that is decided."""
    longer, noun = f"; the longer compilation of {arm_names(summary)(leader)}", step_noun(summary)
    for point in summary.break_evens:
        if point.arm != leader or point.baseline not in others:
            continue
        if point.verdict == "never":
            return f"{longer} does not pay off"
        if point.verdict == "pays" and point.steps:
            steps = about(point.steps.value)
            return f"{longer} pays off after about {steps} {noun}s, averaged over the configs"
    return ""
