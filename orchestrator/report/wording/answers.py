"""What a sweep answers, in sentences: who is first, where an arm overtakes another, what pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeAlias

from orchestrator.analysis.comparisons.break_even import BreakEven
from orchestrator.analysis.comparisons.ranking import Behind, Ranking
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    count,
    difference,
    joined,
    ratio,
    ratio_interval,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import Arm
from orchestrator.report.wording.crossovers import crossover_sentence
from orchestrator.report.wording.sentences import ArmNames

Bullet = tuple[str, str]
"""A kind, for the colour, and a sentence."""

_Pair: TypeAlias = tuple[str, frozenset[Arm]]
"""A metric, and two arms that are compared by it."""

NAMED = 8
"""So many comparisons, or choices of hardware, are told one by one; more are counted."""

_FIRST = {
    "energy_per_sample_j": ("draws the least energy a sample", "draws {}"),
    "train_cost_usd": ("is the cheapest to train on", "costs {}"),
}
_FASTEST = "is the fastest", "takes {} its time"


def ranked(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Which implementation is first on each hardware, which hardware for each, and of all."""
    margin = summary.comparisons[0].margin if summary.comparisons else None
    known = _compared(summary)
    groups: dict[tuple[str, str], list[Ranking]] = {}
    for each in summary.rankings:
        if not _is_told(each, known):
            groups.setdefault((each.among, each.within), []).append(each)
    crowded = sum(among == "hardware" for among, _ in groups) > NAMED / 2
    told: list[Bullet] = []
    for among in ("implementations", "hardware", "arms"):
        if among == "hardware" and crowded:
            told += _hardware_counted(summary.rankings)
            continue
        for (kind, _), own in groups.items():
            if kind == among:
                told += _group(own, name, margin, known)
                known |= {pair for each in own for pair in _pairs(each)}
    return told


def _group(
    rankings: Sequence[Ranking], name: ArmNames, margin: float | None, known: Collection[_Pair]
) -> list[Bullet]:
    """The sentences of one group; a sole leader's further honours stand in its first one."""
    first = rankings[0]
    also = [
        each for each in rankings[1:] if each.sole and first.sole and each.leader == first.leader
    ]
    more = [_FIRST[each.metric][0] for each in also if each.metric in _FIRST]
    sentence = _place_sentence(first, name, margin, known)
    sentence += f"; it also {joined(more)}" if more else ""
    sentence += _unranked([_choice(first, arm, name) for arm in first.left_out])
    rest = [each for each in rankings[1:] if each not in also]
    return [
        (_kind(first), sentence),
        *((_kind(each), ranking_sentence(each, name, margin, known)) for each in rest),
    ]


def _kind(ranking: Ranking) -> str:
    return "best" if ranking.sole else "inconclusive"


def _compared(summary: ReportSummary) -> set[_Pair]:
    """The pairs of which a comparison with the baseline tells by how much they differ."""
    return {
        (summary.time_metric, frozenset((each.arm, each.baseline)))
        for each in summary.comparisons
        if summary.time_metric is not None and each.baseline is not None
    }


def _pairs(ranking: Ranking) -> list[_Pair]:
    """The leader beside each of the others."""
    return [(ranking.metric, frozenset((ranking.leader, each.arm))) for each in ranking.behind]


def _is_told(ranking: Ranking, known: Collection[_Pair]) -> bool:
    """Whether a comparison with the baseline says the same: of two arms by time."""
    pairs = _pairs(ranking)
    return len(pairs) == 1 and pairs[0] in known


def _hardware_counted(rankings: Sequence[Ranking]) -> list[Bullet]:
    """`NVIDIA H200 is the fastest for 9 of 10 implementations on several classes`."""
    told = []
    for metric in dict.fromkeys(each.metric for each in rankings):
        own = [r for r in rankings if r.metric == metric and r.among == "hardware"]
        first = Counter(r.leader.hardware for r in own if r.sole)
        for hardware, n in first.most_common():
            superlative, _ = _FIRST.get(metric, _FASTEST)
            of = f"for {n} of {count(len(own), 'implementation')}"
            away = dict.fromkeys(str(arm.hardware) for r in own for arm in r.left_out)
            told.append(("best", f"{hardware} {superlative} {of}{_unranked(list(away))}"))
    return told


def ranking_sentence(
    ranking: Ranking, name: ArmNames, margin: float | None, known: Collection[_Pair] = ()
) -> str:
    """Who is first in a group, by how much, who may be as good, and who is not ranked."""
    left_out = [_choice(ranking, arm, name) for arm in ranking.left_out]
    return f"{_place_sentence(ranking, name, margin, known)}{_unranked(left_out)}"


def _unranked(choices: Sequence[str]) -> str:
    """What might be first, and has not the rounds of those that are ranked; empty for none."""
    if not choices:
        return ""
    rest = "of an earlier start, is" if len(choices) == 1 else "of earlier starts, are"
    return f"; {joined(choices)}, {rest} not ranked"


def _place_sentence(
    ranking: Ranking, name: ArmNames, margin: float | None, known: Collection[_Pair]
) -> str:
    """Who is first in a group, by how much, and who may be as good.

    Intervals of a group are corrected for its own pairs. Of a pair that is `known`, a comparison or
    another group has told one, corrected for others: a second would only raise the question why.
    """
    superlative, times = _FIRST.get(ranking.metric, _FASTEST)
    place, leader = _place(ranking), _choice(ranking, ranking.leader, name)
    noise = f", {ranking.disturbed} of them disturbed" if ranking.disturbed else ""
    over = f"over {count(ranking.blocks, 'block')}{noise}"
    if ranking.reason:
        return f"{place}: cannot tell which {superlative}: {leader} leads {over}; {ranking.reason}"
    nearest, rest = ranking.behind[0], len(ranking.behind) - 1
    if ranking.sole:
        further = f"; {count(rest, 'other')} further behind" if rest else ""
        behind, arm = times.format(ratio(nearest.ratio)), _choice(ranking, nearest.arm, name)
        is_known = _pairs(ranking)[0] in known
        following = f"the next is {arm}" if is_known else f"the next, {arm}, {behind}"
        return f"{place}: {leader} {superlative}; {following}, {over}{further}"
    rivals = [each for each in ranking.behind if each.standing != "worse"]
    worse = len(ranking.behind) - len(rivals)
    others = f"; {count(worse, 'other')} surely behind" if worse else ""
    told = joined([_rival(ranking, each, name, known) for each in rivals[:3]])
    more = f" and {len(rivals) - 3} more" if len(rivals) > 3 else ""
    if all(each.standing == "same" for each in rivals):
        within = f" within {share(margin)}" if margin is not None else ""
        return f"{place}: {leader} {superlative}, and equal{within} to {told}{more}, {over}{others}"
    return (
        f"{place}: cannot tell which {superlative}: {leader} leads, and {told}{more} may be as "
        f"good, {over}{others}"
    )


def _rival(ranking: Ranking, behind: Behind, name: ArmNames, known: Collection[_Pair]) -> str:
    arm = _choice(ranking, behind.arm, name)
    pair = (ranking.metric, frozenset((ranking.leader, behind.arm)))
    if behind.ratio is None or pair in known:
        return arm
    what = "as much" if ranking.metric in _FIRST else "its time"
    return f"{arm} ({ratio_interval(behind.ratio)} × {what})"


def _place(ranking: Ranking) -> str:
    if ranking.among == "implementations":
        return f"on {ranking.within}"
    return f"for {ranking.within}" if ranking.among == "hardware" else "of all arms"


def _choice(ranking: Ranking, arm: Arm, name: ArmNames) -> str:
    """What the reader chooses: the rest of the arm's name is the same for all of the group."""
    if ranking.among == "implementations":
        return arm.implementation
    return str(arm.hardware) if ranking.among == "hardware" else name(arm)


def counted(comparisons: Sequence[Comparison], baseline: str) -> Bullet:
    """Many comparisons in one sentence; the table has them."""
    verdicts: Counter[str] = Counter(each.verdict for each in comparisons)
    told = [
        f"{verdicts[verdict]} {said}"
        for verdict, said in (
            ("faster", "faster"),
            ("slower", "slower"),
            ("same", "equally fast"),
            ("inconclusive", "of which it cannot be told"),
        )
        if verdicts[verdict]
    ]
    arms = count(len(comparisons), "arm")
    equal = sum(
        each.accuracy is not None and each.accuracy.verdict == "equal" for each in comparisons
    )
    learned = f", {equal} shown to be as accurate" if equal else ""
    return "counted", (
        f"of {arms} beside {baseline}: {joined(told)}{learned}; the table below has each"
    )


def crossings(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Where an arm overtakes its baseline; only what is shown at both ends."""
    return [
        ("crosses", crossover_sentence(each, name))
        for each in summary.crossovers
        if each.verdict == "crosses"
    ]


def compiling(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """What an option that compiles longer pays for, and when: of arms alike but for options."""
    told: list[Bullet] = [
        (each.verdict, break_even_sentence(each, name))
        for each in summary.break_evens
        if each.verdict != "inconclusive" and _kernel(each.arm) == _kernel(each.baseline)
    ]
    return told[:NAMED]


def _kernel(arm: Arm) -> str:
    """`tensorflow/portable` of `tensorflow/portable+xla`."""
    return arm.implementation.partition("+")[0]


def break_even_sentence(found: BreakEven, name: ArmNames) -> str:
    """`A compiles 4.1 s longer than B, and pays for it after 5,300 steps`."""
    arm, base = name(found.arm), name(found.baseline)
    if found.verdict == "inconclusive":
        return f"cannot tell whether {arm} pays for compiling beside {base}: {found.reason}"
    longer = f"{arm} compiles {_seconds(found.extra_compile_s)} longer than {base}"
    over = f"over {count(len(found.blocks), 'block')}"
    if found.steps is None:
        return f"{longer} and never makes up for it: {found.reason}, {over}"
    steps = found.steps
    return (
        f"{longer} and has made up for it after {_whole(steps.value)} steps "
        f"({_whole(steps.low)}–{_whole(steps.high)}), on the average of the configs tried, {over}"
    )


def _whole(steps: float) -> str:
    """`4,360` of 4358.7: a number of steps, to three figures."""
    return f"{float(f'{steps:.3g}'):,.0f}"


def _seconds(estimate: Estimate | None) -> str:
    return f"{difference(estimate)} s".removeprefix("+").replace("(+", "(").replace("to +", "to ")
