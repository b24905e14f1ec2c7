"""Answers of a sweep in sentences: rankings, crossovers, and compilation that pays off."""

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
from orchestrator.core.arms import Arm
from orchestrator.report.wording.crossovers import crossover_sentence
from orchestrator.report.wording.sentences import ArmNames

Bullet = tuple[str, str]
"""A kind, which decides the colour, and a sentence."""

_Pair: TypeAlias = tuple[str, frozenset[Arm]]
"""A metric, and two arms that it compares."""

NAMED = 8
"""The most comparisons, or hardware classes, that get a sentence each; more are counted."""

_FIRST = {
    "energy_per_sample_j": ("uses the least energy per sample", "uses {}"),
    "train_cost_usd": ("is the cheapest to train on", "costs {}"),
}
_FASTEST = "is the fastest", "takes {} its time"


def ranked(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Write the best implementation on each hardware, the best hardware for each, and overall."""
    margin = summary.comparisons[0].margin if summary.comparisons else None
    compared = _compared(summary)
    groups: dict[tuple[str, str], list[Ranking]] = {}
    for ranking in summary.rankings:
        if not _is_redundant(ranking, compared):
            groups.setdefault((ranking.among, ranking.within), []).append(ranking)
    crowded = sum(among == "hardware" for among, _ in groups) > NAMED / 2
    bullets: list[Bullet] = []
    for among in ("implementations", "hardware", "arms"):
        if among == "hardware" and crowded:
            bullets += _hardware_counted(summary.rankings)
            continue
        for (kind, _), own in groups.items():
            if kind == among:
                bullets += _group(own, name, margin, compared)
                compared |= {pair for ranking in own for pair in _pairs(ranking)}
    return bullets


def _group(
    rankings: Sequence[Ranking], name: ArmNames, margin: float | None, compared: Collection[_Pair]
) -> list[Bullet]:
    """Write the sentences of one group; the first one names all that a sole leader leads in."""
    first = rankings[0]
    also = [r for r in rankings[1:] if r.sole and first.sole and r.leader == first.leader]
    more = [_FIRST[ranking.metric][0] for ranking in also if ranking.metric in _FIRST]
    sentence = _place_sentence(first, name, margin, compared)
    sentence += f"; it also {joined(more)}" if more else ""
    sentence += _unranked([_choice(first, arm, name) for arm in first.left_out])
    rest = [ranking for ranking in rankings[1:] if ranking not in also]
    return [
        (_kind(first), sentence),
        *((_kind(ranking), ranking_sentence(ranking, name, margin, compared)) for ranking in rest),
    ]


def _kind(ranking: Ranking) -> str:
    return "best" if ranking.sole else "inconclusive"


def _compared(summary: ReportSummary) -> set[_Pair]:
    """Return the pairs that a comparison with the baseline already covers."""
    return {
        (summary.time_metric, frozenset((comparison.arm, comparison.baseline)))
        for comparison in summary.comparisons
        if summary.time_metric is not None and comparison.baseline is not None
    }


def _pairs(ranking: Ranking) -> list[_Pair]:
    """Return the pairs of the leader with each of the others."""
    others = (behind.arm for behind in ranking.behind)
    return [(ranking.metric, frozenset((ranking.leader, arm))) for arm in others]


def _is_redundant(ranking: Ranking, compared: Collection[_Pair]) -> bool:
    """Check for a ranking of two arms that a comparison with the baseline already covers."""
    pairs = _pairs(ranking)
    return len(pairs) == 1 and pairs[0] in compared


def _hardware_counted(rankings: Sequence[Ranking]) -> list[Bullet]:
    """Write `NVIDIA H200 is the fastest for 9 of 10 implementations on several classes`."""
    bullets = []
    for metric in dict.fromkeys(ranking.metric for ranking in rankings):
        own = [r for r in rankings if r.metric == metric and r.among == "hardware"]
        first = Counter(r.leader.hardware for r in own if r.sole)
        for hardware, n in first.most_common():
            superlative, _ = _FIRST.get(metric, _FASTEST)
            of = f"for {n} of {count(len(own), 'implementation')}"
            unranked = dict.fromkeys(str(arm.hardware) for r in own for arm in r.left_out)
            bullets.append(("best", f"{hardware} {superlative} {of}{_unranked(list(unranked))}"))
    return bullets


def ranking_sentence(
    ranking: Ranking, name: ArmNames, margin: float | None, compared: Collection[_Pair] = ()
) -> str:
    """Write the leader of a group, its lead, possible equals, and arms that are not ranked."""
    left_out = [_choice(ranking, arm, name) for arm in ranking.left_out]
    return f"{_place_sentence(ranking, name, margin, compared)}{_unranked(left_out)}"


def _unranked(choices: Sequence[str]) -> str:
    """Write the arms that lack the rounds of those that are ranked; empty for none."""
    if not choices:
        return ""
    rest = "of an earlier start, is" if len(choices) == 1 else "of earlier starts, are"
    return f"; {joined(choices)}, {rest} not ranked"


def _place_sentence(
    ranking: Ranking, name: ArmNames, margin: float | None, compared: Collection[_Pair]
) -> str:
    """Write the leader of a group, its lead, and possible equals.

    Intervals of a group are corrected for its own pairs. For a pair in `compared`, another family
    of comparisons shows an interval already; a second one would only confuse.
    """
    superlative, times = _FIRST.get(ranking.metric, _FASTEST)
    place, leader = _place(ranking), _choice(ranking, ranking.leader, name)
    noise = f", {ranking.disturbed} of them disturbed" if ranking.disturbed else ""
    over = f"over {count(ranking.blocks, 'block')}{noise}"
    if ranking.reason:
        return (
            f"{place}: which {superlative} is inconclusive: {leader} leads {over}; {ranking.reason}"
        )
    nearest, rest = ranking.behind[0], len(ranking.behind) - 1
    if ranking.sole:
        further = f"; {count(rest, 'other')} further behind" if rest else ""
        behind, arm = times.format(ratio(nearest.ratio)), _choice(ranking, nearest.arm, name)
        is_compared = _pairs(ranking)[0] in compared
        following = f"the next is {arm}" if is_compared else f"the next, {arm}, {behind}"
        return f"{place}: {leader} {superlative}; {following}, {over}{further}"
    rivals = [behind for behind in ranking.behind if behind.standing != "worse"]
    worse = len(ranking.behind) - len(rivals)
    slower = "is slower" if worse == 1 else "are slower"
    if ranking.metric in _FIRST:
        slower = "is behind" if worse == 1 else "are behind"
    others = f"; {count(worse, 'other')} {slower}" if worse else ""
    named = joined([_rival(ranking, behind, name, compared) for behind in rivals[:3]])
    more = f" and {len(rivals) - 3} more" if len(rivals) > 3 else ""
    if all(behind.standing == "same" for behind in rivals):
        within = f" within {share(margin)}" if margin is not None else ""
        return (
            f"{place}: {leader} {superlative}, and equal{within} to {named}{more}, {over}{others}"
        )
    return (
        f"{place}: which {superlative} is inconclusive: {leader} leads, and {named}{more} may be "
        f"as good, {over}{others}"
    )


def _rival(ranking: Ranking, behind: Behind, name: ArmNames, compared: Collection[_Pair]) -> str:
    arm = _choice(ranking, behind.arm, name)
    pair = (ranking.metric, frozenset((ranking.leader, behind.arm)))
    if behind.ratio is None or pair in compared:
        return arm
    what = "as much" if ranking.metric in _FIRST else "its time"
    return f"{arm} ({ratio_interval(behind.ratio)} × {what})"


def _place(ranking: Ranking) -> str:
    if ranking.among == "implementations":
        return f"on {ranking.within}"
    return f"for {ranking.within}" if ranking.among == "hardware" else "of all arms"


def _choice(ranking: Ranking, arm: Arm, name: ArmNames) -> str:
    """Return the part of an arm's name that differs within the group."""
    if ranking.among == "implementations":
        return arm.implementation
    return str(arm.hardware) if ranking.among == "hardware" else name(arm)


def counted(comparisons: Sequence[Comparison], baseline: str) -> Bullet:
    """Summarise many comparisons in one sentence; the table lists them."""
    verdicts: Counter[str] = Counter(comparison.verdict for comparison in comparisons)
    counts = [
        f"{verdicts[verdict]} {text}"
        for verdict, text in (
            ("faster", "faster"),
            ("slower", "slower"),
            ("same", "equally fast"),
            ("inconclusive", "inconclusive"),
        )
        if verdicts[verdict]
    ]
    arms = count(len(comparisons), "arm")
    equal = sum(c.accuracy is not None and c.accuracy.verdict == "equal" for c in comparisons)
    learned = f", {equal} shown to be as accurate" if equal else ""
    return "counted", (
        f"of {arms} compared with {baseline}: {joined(counts)}{learned}; see the table below"
    )


def crossings(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Write where an arm overtakes its baseline, if that is shown at both ends."""
    return [
        ("crosses", crossover_sentence(crossover, name))
        for crossover in summary.crossovers
        if crossover.verdict == "crosses"
    ]


def compiling(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Write when a longer compilation pays off, for arms that differ in options only."""
    bullets: list[Bullet] = [
        (point.verdict, break_even_sentence(point, name))
        for point in summary.break_evens
        if point.verdict != "inconclusive" and _kernel(point.arm) == _kernel(point.baseline)
    ]
    return bullets[:NAMED]


def _kernel(arm: Arm) -> str:
    """Return `tensorflow/portable` for `tensorflow/portable+xla`."""
    return arm.implementation.partition("+")[0]


def break_even_sentence(point: BreakEven, name: ArmNames) -> str:
    """Write `A compiles 4.1 s longer than B, which pays off after 5,300 steps`."""
    arm, base = name(point.arm), name(point.baseline)
    if point.verdict == "inconclusive":
        return (
            f"inconclusive: when the compilation of {arm} pays off against {base} ({point.reason})"
        )
    longer = f"{arm} compiles {_seconds(point.extra_compile_s)} longer than {base}"
    over = f"over {count(len(point.blocks), 'block')}"
    if point.steps is None:
        return f"{longer}, which never pays off: {point.reason}, {over}"
    steps = point.steps
    return (
        f"{longer}, which pays off after {_whole(steps.value)} steps "
        f"({_whole(steps.low)}–{_whole(steps.high)}), averaged over the configs tried, {over}"
    )


def _whole(steps: float) -> str:
    """Format a number of steps with three figures: `4,360` for 4358.7."""
    return f"{float(f'{steps:.3g}'):,.0f}"


def _seconds(estimate: Estimate | None) -> str:
    return f"{difference(estimate)} s".removeprefix("+").replace("(+", "(").replace("to +", "to ")
