"""Headlines: which arm is fastest on each hardware class, by how much, and at which accuracy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.comparisons.result_ranking import ResultRanking
from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    difference_value,
    inverse,
    inverse_difference,
    number,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.document import Bullet, Kind
from orchestrator.report.verdicts import busy_note, for_this_config
from orchestrator.report.wording import (
    ArmNames,
    arm_names,
    deciding_interval,
    grouped,
    margin_with_origin,
    result_name,
)
from workloads.metrics import find_metric

_MOST_NAMED = 3
"""How many of the arms that may be as fast a headline names; the rest are counted."""

_FEWEST_WITH_INTERVAL = 4
"""The blocks from which a headline has the interval of its speed-up."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer for one hardware class; `hardware` is empty for several, or if there is none.

    `kind` is FASTEST, SAME (several are), INCONCLUSIVE, ONE_ARM, FAILED or NO_TRIALS.
    There are one to three `sentences`. `leader` is the arm with the shortest time; None if nothing
    was measured.
    """

    hardware: str
    kind: Kind
    sentences: tuple[str, ...]
    leader: Arm | None

    @property
    def bullet(self) -> Bullet:
        """The headline as a bullet."""
        return Bullet(self.kind, " ".join(self.sentences))


def headlines(summary: ReportSummary) -> tuple[Headline, ...]:
    """Return a headline over several hardware classes, and one for each; never empty."""
    if not summary.trials:
        return (Headline("", Kind.NO_TRIALS, ("No trial has ended yet.",), None),)
    if summary.is_without_success:
        trials = counted(len(summary.trials), "trial")
        text = f"All {trials} failed, so there is nothing to compare."
        return (Headline("", Kind.FAILED, (text,), None),)
    timed = [r for r in summary.rankings if r.metric == summary.time_metric]
    results = tuple(_best_results(summary))
    if summary.time_metric is None and summary.result_rankings:
        return results or (_best_mean(summary, summary.result_rankings[0]),)
    heads = _headlines_by_time(summary, timed)
    is_about_results = all(find_metric(name).is_result for name in summary.sweep.objectives)
    if is_about_results or heads[0].kind in (Kind.SAME, Kind.INCONCLUSIVE):
        return (*results, *heads)  # what the sweep is about, or what is decided, comes first
    return (*heads, *results)


def compared_with(summary: ReportSummary, ranking: Ranking) -> Arm:
    """Return the arm that a headline compares the leader of a ranking with."""
    return _lead(summary, ranking).compared_with


def _headlines_by_time(summary: ReportSummary, timed: Sequence[Ranking]) -> tuple[Headline, ...]:
    by_hardware = {r.within: r for r in timed if r.among == "implementations"}
    rows = grouped((str(row.arm.hardware), row) for row in summary.arms)
    single = [
        _ranked(summary, hardware, by_hardware[hardware])
        if hardware in by_hardware
        else _not_ranked(summary, hardware, arms)
        for hardware, arms in rows.items()
    ]
    several = [r for among in ("arms", "hardware") for r in timed if r.among == among]
    if not several:
        return tuple(single)
    if len({row.arm.hardware_class for row in summary.arms}) == 1 and summary.factors:
        return (_ranked(summary, "", several[0]),)  # the factors have threads and CPUs
    compared = (headline for headline in single if headline.kind != Kind.ONE_ARM)
    return (_ranked(summary, "", several[0]), *compared)


def _best_results(summary: ReportSummary) -> Iterator[Headline]:
    """Make a headline for each result in which some arms are better than others.

    None where the fastest arm is the best one, too, and the headline by time says so, and none
    where the answers for factors have it.
    """
    name = arm_names(summary)
    for ranking in summary.result_rankings:
        worse, as_good = ranking.worse, ranking.as_good
        if not worse or _factors_have(summary, ranking.metric):
            continue
        other, noun = worse[0], result_name(ranking.metric)
        if not as_good and _is_shown_fastest(summary, ranking.leader):
            continue
        if len(as_good) >= len(worse):  # most arms are as good: the others are what is to be said
            if not all(_is_shown_fastest(summary, behind.arm) for behind in worse):
                yield Headline("", Kind.SLOWER, (_worse_results(ranking, name),), ranking.leader)
            continue
        subject = joined([name(arm) for arm in (ranking.leader, *as_good[:_MOST_NAMED])])
        if len(as_good) > _MOST_NAMED:
            subject += f" and {len(as_good) - _MOST_NAMED} more"
        if as_good:
            verb = "are more accurate" if noun == "accuracy" else f"have a better {noun}"
        else:
            verb = "is the most accurate" if noun == "accuracy" else f"has the best {noun}"
            if len(ranking.behind) == 1:
                verb = "is more accurate" if noun == "accuracy" else f"has the better {noun}"
        gap = other.difference
        assert gap is not None  # it was judged
        text = (
            f"{subject} {verb}{for_this_config(ranking.unit)} ({number(ranking.value)}): "
            f"{difference_value(gap)} compared with "
            f"{name(other.arm)} (95 % CI {difference_interval(gap)})."
        )
        yield Headline("", Kind.BEST, (text,), ranking.leader)


def _best_mean(summary: ReportSummary, ranking: ResultRanking) -> Headline:
    """Make the headline of a result where no arm is shown to be best, and no time was measured."""
    name, noun = arm_names(summary), result_name(ranking.metric)
    arms = [ranking.leader, *ranking.as_good]
    if all(behind.standing == "same" for behind in ranking.behind):
        named = joined([name(arm) for arm in arms[:_MOST_NAMED]])
        more = f" and {len(arms) - _MOST_NAMED} more" if len(arms) > _MOST_NAMED else ""
        here = for_this_config(ranking.unit)
        text = f"{named}{more} have the same {noun} within {number(ranking.margin)}{here}."
        return Headline("", Kind.SAME, (text,), ranking.leader)
    over = f"over {counted(ranking.blocks, ranking.unit)}"
    sentences = [
        f"{name(ranking.leader)} has the best mean {noun}, {number(ranking.value)} {over}."
    ]
    gap = ranking.behind[0].difference
    if ranking.as_good and gap is not None:
        difference = f"{difference_value(gap)} (95 % CI {difference_interval(gap)})"
        other = name(ranking.behind[0].arm)
        sentences.append(f"Whether it is better than that of {other} is not clear: {difference}.")
    return Headline("", Kind.INCONCLUSIVE, tuple(sentences), ranking.leader)


def _factors_have(summary: ReportSummary, metric: str) -> bool:
    """Return whether a factor decides a result: then the factors' answers have it."""
    return any(
        answer.metric == metric and contrast.standing == "worse"
        for answer in summary.factors
        for contrast in answer.others
    )


def _worse_results(ranking: ResultRanking, name: ArmNames) -> str:
    """Write which few arms have worse results than the others."""
    noun = result_name(ranking.metric)
    verb = is_or_are(len(ranking.worse))
    what = f"{verb} less accurate" if noun == "accuracy" else f"{verb} worse in {noun}"
    figures = []
    for other in ranking.worse[:_MOST_NAMED]:
        assert other.difference is not None
        gap = inverse_difference(other.difference)
        figures.append(
            f"{name(other.arm)} ({difference_value(gap)}, 95 % CI {difference_interval(gap)})"
        )
    more = len(ranking.worse) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"{joined(figures)}{rest} {what} than {name(ranking.leader)}, which has the best mean, "
        f"{number(ranking.value)}{for_this_config(ranking.unit)}."
    )


def _is_shown_fastest(summary: ReportSummary, leader: Arm) -> bool:
    """Return whether a ranking by time shows this arm to be the fastest one."""
    return any(
        ranking.leader == leader and ranking.sole and not ranking.reason
        for ranking in summary.rankings
        if ranking.metric == summary.time_metric
    )


def _place(summary: ReportSummary, hardware: str) -> str:
    """Return `AMD EPYC (2 CPUs), timed only` for a hardware class in a sentence."""
    uses = {str(row.arm.hardware): row.arm.hardware for row in summary.arms}
    return arm_names(summary).place_in_sentence(uses[hardware])


def _not_ranked(summary: ReportSummary, hardware: str, rows: Sequence[ArmSummary]) -> Headline:
    """Make the headline of hardware on which nothing can be ranked."""
    place = _place(summary, hardware)
    measured = [row for row in rows if row.measures]
    if not measured:
        text = f"On {place}, no trial is complete yet."
        return Headline(hardware, Kind.INCONCLUSIVE, (text,), None)
    leader = measured[0].arm
    if len(rows) == 1:
        times, takes = measured[0].means, ""
        if "step_ms" in times:
            takes = f": it takes {number(times['step_ms'].value)} ms per step"
        elif "predict_ms" in times:
            takes = f": it takes {number(times['predict_ms'].value)} ms per prediction"
        text = f"On {place}, there is one arm, {leader.short_name}{takes}."
        return Headline(hardware, Kind.ONE_ARM, (text,), leader)
    reasons = (c.reason for c in summary.comparisons if str(c.arm.hardware) == hardware)
    reason = next(reasons, None)
    why = f": {reason}" if reason else ""
    text = f"On {place}, nothing can be compared{why}."
    return Headline(hardware, Kind.INCONCLUSIVE, (text,), leader)


@dataclass(frozen=True, slots=True)
class _Lead:
    """The leader of a ranking against its baseline, or else against the next arm.

    `speedup` is the leader's over that arm. `results` are the comparisons of what both achieved,
    each with the leader's value minus the other arm's.
    """

    compared_with: Arm
    speedup: Estimate | None
    results: tuple[tuple[ResultComparison, Estimate], ...] = ()


def _lead(summary: ReportSummary, ranking: Ranking) -> _Lead:
    """Compare the leader with its baseline or else with the next arm.

    A comparison of the report decides if there is one, so that no pair has two intervals.
    """
    leader, behind = ranking.leader, {entry.arm: entry for entry in ranking.behind}
    base = summary.baseline.of.get(leader) if summary.baseline else None
    compared_with = base if base in behind and base is not None else ranking.behind[0].arm
    pair = _pair(summary, leader, compared_with)
    if pair is None:
        return _Lead(compared_with, behind[compared_with].ratio)
    comparison, speedup = pair
    judged = [(r, r.corrected) for r in comparison.results if r.corrected is not None]
    if comparison.arm != leader:
        judged = [(result, inverse_difference(gained)) for result, gained in judged]
    return _Lead(compared_with, speedup, tuple(judged))


def _pair(summary: ReportSummary, leader: Arm, other: Arm) -> tuple[Comparison, Estimate] | None:
    """Return the report's comparison of two arms, and the leader's speed-up over the other."""
    for comparison in summary.comparisons:
        shown, sides = deciding_interval(comparison), (comparison.arm, comparison.baseline)
        if shown is not None and sides == (leader, other):
            return comparison, shown
        if shown is not None and sides == (other, leader):
            return comparison, inverse(shown)
    return None


def _is_slower(summary: ReportSummary, arm: Arm, leader: Arm) -> bool:
    """Return whether a comparison of the two has decided that an arm is slower."""
    pair = _pair(summary, leader, arm)
    return pair is not None and pair[0].verdict == ("slower" if pair[0].arm == arm else "faster")


def _ranked(summary: ReportSummary, hardware: str, ranking: Ranking) -> Headline:
    """Make the headline of a ranking, of one hardware class or (empty) of several."""
    name = arm_names(summary)
    lead = _lead(summary, ranking)
    open_arms = [behind for behind in ranking.behind if behind.standing != "worse"]
    # The comparison of a pair decides, as in the table: it counts its own quiet rounds, of which a
    # ranking of more arms has fewer, and is corrected for fewer other comparisons.
    slower = [behind.arm for behind in open_arms if _is_slower(summary, behind.arm, ranking.leader)]
    contenders = [behind for behind in open_arms if behind.arm not in slower]
    if ranking.reason or any(contender.standing != "same" for contender in contenders):
        kind = Kind.INCONCLUSIVE
    else:
        kind = Kind.SAME if contenders else Kind.FASTEST
    text = _HeadlineText(summary, ranking, lead, None if hardware else name)
    place = f"On {_place(summary, hardware)}" if hardware else _everywhere(summary)
    if ranking.reason:
        verdict = text.too_few_blocks()
    elif kind == Kind.FASTEST:
        verdict = text.fastest()
    elif kind == Kind.SAME:
        verdict = text.same([contender.arm for contender in contenders])
    else:
        verdict = text.unclear([contender.arm for contender in contenders])
    here = for_this_config(ranking.unit)
    sentences = [f"{place}{here}, {verdict[0]}", *verdict[1:], *text.results_unclear(kind)]
    return Headline(hardware, kind, tuple(sentences), ranking.leader)


def _everywhere(summary: ReportSummary) -> str:
    """Write the place of a headline over all hardware."""
    classes = {row.arm.hardware_class for row in summary.arms}
    if len(classes) > 1:
        return "Over all hardware"
    return f"On {classes.pop().in_sentence}"


@dataclass(frozen=True, slots=True)
class _HeadlineText:
    """The sentences of one ranking's headline. Without `names`, arms have their short names."""

    summary: ReportSummary
    ranking: Ranking
    lead: _Lead
    names: ArmNames | None

    @property
    def leader(self) -> str:
        """The name of the leader."""
        return self.name(self.ranking.leader)

    def name(self, arm: Arm) -> str:
        """Return the name of an arm in this headline."""
        return self.names(arm) if self.names else arm.short_name

    def too_few_blocks(self) -> list[str]:
        """Write who leads where there are too few blocks for a verdict."""
        blocks = counted(self.ranking.blocks, self.ranking.unit)
        figure = self._figure()
        shown = f": {figure}" if figure else ""
        return [f"{self.leader} leads so far, over {blocks}{self._busy()}{shown}."]

    def fastest(self) -> list[str]:
        """Write that one arm is faster than all others."""
        figure = self._figure()
        shown = f": {figure}{self._results()}" if figure else ""
        return [f"{self.leader} is fastest{self._busy()}{shown}."]

    def same(self, contenders: Sequence[Arm]) -> list[str]:
        """Write which arms are as fast as the leader within the margin."""
        equal = [self.leader, *map(self.name, contenders[:_MOST_NAMED])]
        if len(contenders) > _MOST_NAMED:
            equal.append(f"{len(contenders) - _MOST_NAMED} more")
        comparisons = self.summary.comparisons
        margin = comparisons[0].margin if comparisons else None
        within = f" within {share(margin)}" if margin else ""
        is_of_all = len(contenders) == len(self.ranking.behind)
        fastest = "" if is_of_all else "fastest, and "
        sentences = [f"{joined(equal)} are {fastest}equally fast{within}{self._busy()}."]
        figure = self._figure()
        if figure and self.lead.compared_with not in contenders:
            sentences.append(f"{self.leader} is {figure}{self._results()}.")
        return sentences

    def unclear(self, contenders: Sequence[Arm]) -> list[str]:
        """Write that other arms may be as fast as the leader, or faster."""
        figure, rest = self._figure(), ""
        shown = f": {self.leader} is {figure}{self._results()}" if figure else ""
        if len(contenders) > 1:
            rest = f" and {counted(len(contenders) - 1, 'other')}"
        if len(contenders) == len(self.ranking.behind) == 1:
            pair = f"{self.leader} or {self.name(contenders[0])}"
            return [f"it is not clear whether {pair} is faster{self._busy()}{shown}."]
        if self.lead.compared_with in contenders:
            other = f"{self.name(self.lead.compared_with)}{rest}"
            return [f"{self.leader} leads, but {other} may be as fast{self._busy()}{shown}."]
        figure = self._figure(in_brackets=True)
        shown = f" ({figure}{self._results()})" if figure else ""
        other = f"{self.name(contenders[0])}{rest}"
        return [f"{self.leader} leads{shown}, but {other} may be as fast{self._busy()}."]

    def results_unclear(self, kind: Kind) -> Iterator[str]:
        """Write of which results of the leader nothing can be said."""
        if kind == Kind.INCONCLUSIVE:
            return
        for result, gained in self.lead.results:
            if result.verdict == "inconclusive":
                name, interval = result_name(result.metric), difference_interval(gained)
                yield f"Whether its {name} is the same is not clear ({interval})."

    def _busy(self) -> str:
        """Write what others took, if disturbed blocks are compared; else nothing."""
        return f" ({busy_note(self.ranking.disturbance)})" if self.ranking.disturbed else ""

    def _figure(self, *, in_brackets: bool = False) -> str:
        """Write `1.25 × as fast as A (95 % CI 1.2–1.3)`; empty without a figure."""
        speedup = self.lead.speedup
        if speedup is None:
            return ""
        figure = f"{ratio_value(speedup)} as fast as {self.name(self.lead.compared_with)}"
        if speedup.n < _FEWEST_WITH_INTERVAL:
            return figure
        interval = f"95 % CI {ratio_interval(speedup)}"
        return f"{figure}, {interval}" if in_brackets else f"{figure} ({interval})"

    def _results(self) -> str:
        """Write `, at the same accuracy`, and so on for each result that was decided."""
        text = ""
        for result, gained in self.lead.results:
            name = result_name(result.metric)
            if result.verdict == "equal":
                within = margin_with_origin(result.margin, result.share, None)
                text += f", at the same {name} within {within}"
            elif result.verdict in ("better", "worse"):
                is_better = (gained.value > 0) == (result.direction == "maximize")
                but = "and" if ", but" in text else "but"
                if name == "accuracy":
                    clause = f"{'and more' if is_better else f'{but} less'} accurate"
                else:
                    clause = f"{'with a better' if is_better else f'{but} with a worse'} {name}"
                text += f", {clause} ({difference_value(gained)})"
        return text
