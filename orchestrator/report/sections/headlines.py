"""Headlines: which arm is fastest on each hardware class, by how much, and at which accuracy."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.ranking import BreakEven, Ranking
from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    difference_value,
    inverse,
    number,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report.document import Bullet, Kind
from orchestrator.report.wording import (
    ArmNames,
    about,
    arm_names,
    deciding_interval,
    grouped,
    is_or_are,
    result_name,
    step_noun,
)

_MOST_NAMED = 3
"""How many of the arms that may be as fast a headline names; the rest are counted."""

_FEWEST_WITH_INTERVAL = 4
"""The blocks from which a headline has the interval of its speed-up."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer for one hardware class; `hardware` is empty for several, or if there is none.

    `kind` is FASTEST, SAME (several are), INCONCLUSIVE, PROVISIONAL, ONE_ARM, FAILED or NO_TRIALS.
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
    compared = (headline for headline in single if headline.kind != Kind.ONE_ARM)
    return (_ranked(summary, "", several[0]), *compared)


def _place(summary: ReportSummary, hardware: str) -> str:
    """Return `AMD EPYC (2 CPUs), timed in slices` for a hardware class in a sentence."""
    place = arm_names(summary).place(hardware)
    place = re.sub(r", (\d+ CPUs?)(?= \[|$)", r" (\1)", place)
    return place.replace(" [timing]", ", timed in slices")


def _not_ranked(summary: ReportSummary, hardware: str, rows: Sequence[ArmSummary]) -> Headline:
    """Make the headline of hardware on which nothing can be ranked."""
    place = _place(summary, hardware)
    measured = [row for row in rows if row.measures]
    if not measured:
        text = f"On {place}, no trial is complete yet."
        return Headline(hardware, Kind.INCONCLUSIVE, (text,), None)
    leader = measured[0].arm
    if len(rows) == 1:
        times, takes = measured[0].measures, ""
        if "step_ms" in times:
            takes = f": it takes {number(times['step_ms'].median)} ms per step"
        elif "predict_ms" in times:
            takes = f": it takes {number(times['predict_ms'].median)} ms per prediction"
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

    `speedup` is that of the leader over that arm. `results` are the comparisons of what both
    achieved, each with the leader's value minus that of the other arm.
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
    for comparison in summary.comparisons:
        shown, sides = deciding_interval(comparison), (comparison.arm, comparison.baseline)
        if shown is None or sides not in ((leader, compared_with), (compared_with, leader)):
            continue
        judged = [(r, r.corrected) for r in comparison.results if r.corrected is not None]
        if sides == (leader, compared_with):
            return _Lead(compared_with, shown, tuple(judged))
        turned = [
            (result, replace(gained, value=-gained.value, low=-gained.high, high=-gained.low))
            for result, gained in judged
        ]
        return _Lead(compared_with, inverse(shown), tuple(turned))
    return _Lead(compared_with, behind[compared_with].ratio)


def _ranked(summary: ReportSummary, hardware: str, ranking: Ranking) -> Headline:
    """Make the headline of a ranking, of one hardware class or (empty) of several."""
    name = arm_names(summary)
    lead = _lead(summary, ranking)
    contenders = [behind for behind in ranking.behind if behind.standing != "worse"]
    if ranking.reason or any(contender.standing != "same" for contender in contenders):
        kind = Kind.INCONCLUSIVE
    else:
        kind = Kind.SAME if contenders else Kind.FASTEST
    text = _HeadlineText(summary, ranking, lead, None if hardware else name)
    place = f"On {_place(summary, hardware)}" if hardware else "Over all hardware"
    if ranking.reason:
        verdict = text.too_few_blocks()
    elif kind == Kind.FASTEST:
        verdict = text.fastest()
    elif kind == Kind.SAME:
        verdict = text.same([contender.arm for contender in contenders])
    else:
        verdict = text.unclear([contender.arm for contender in contenders])
    sentences = [f"{place}, {verdict[0]}", *verdict[1:], *text.results_unclear(kind)]
    sentences += text.compiling(kind)
    is_provisional = ranking.provisional and kind == Kind.FASTEST
    shown_kind = Kind.PROVISIONAL if is_provisional else kind
    return Headline(hardware, shown_kind, tuple(sentences), ranking.leader)


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
        blocks = counted(self.ranking.blocks, "config")
        figure = self._figure()
        shown = f": {figure}" if figure else ""
        return [f"{self.leader} leads so far, over {blocks}{shown}."]

    def fastest(self) -> list[str]:
        """Write that one arm is faster than all others."""
        is_provisional = self.ranking.provisional
        busy = " (provisional: measured on a busy machine)" if is_provisional else ""
        figure = self._figure()
        shown = f": {figure}{self._results()}" if figure else ""
        return [f"{self.leader} is fastest{busy}{shown}."]

    def same(self, contenders: Sequence[Arm]) -> list[str]:
        """Write which arms are as fast as the leader within the margin."""
        named = ", ".join(self.name(contender) for contender in contenders[:_MOST_NAMED])
        if len(contenders) > _MOST_NAMED:
            named += f" and {len(contenders) - _MOST_NAMED} more"
        comparisons = self.summary.comparisons
        margin = comparisons[0].margin if comparisons else None
        within = f" within {share(margin)}" if margin else ""
        equal = f"{named} {is_or_are(len(contenders))} equally fast{within}"
        sentences = [f"{self.leader} is fastest, and {equal}."]
        figure = self._figure()
        if figure and self.lead.compared_with not in contenders:
            sentences.append(f"It is {figure}{self._results()}.")
        return sentences

    def unclear(self, contenders: Sequence[Arm]) -> list[str]:
        """Write that other arms may be as fast as the leader, or faster."""
        figure, rest = self._figure(), ""
        shown = f": {self.leader} is {figure}{self._results()}" if figure else ""
        if len(contenders) > 1:
            rest = f" and {counted(len(contenders) - 1, 'other')}"
        if len(contenders) == len(self.ranking.behind) == 1:
            pair = f"{self.leader} or {self.name(contenders[0])}"
            return [f"it is not clear whether {pair} is faster{shown}."]
        if self.lead.compared_with in contenders:
            compared_with = self.name(self.lead.compared_with)
            return [f"{self.leader} leads, but {compared_with}{rest} may be as fast{shown}."]
        figure = self._figure(in_brackets=True)
        shown = f" ({figure}{self._results()})" if figure else ""
        contender = self.name(contenders[0])
        return [f"{self.leader} leads{shown}, but {contender}{rest} may be as fast."]

    def results_unclear(self, kind: Kind) -> Iterator[str]:
        """Write of which results of the leader nothing can be said."""
        if kind == Kind.INCONCLUSIVE:
            return
        for result, gained in self.lead.results:
            if result.verdict == "inconclusive":
                name, interval = result_name(result.metric), difference_interval(gained)
                yield f"Whether its {name} is the same is not clear ({interval})."

    def compiling(self, kind: Kind) -> Iterator[str]:
        """Write after how many steps the leader's longer compilation pays off."""
        if kind == Kind.SAME:
            return
        subject = "It" if kind == Kind.FASTEST else self.leader
        for point in self.summary.break_evens:
            pair = point.arm, point.baseline
            if pair == (self.ranking.leader, self.lead.compared_with) and point.verdict == "pays":
                yield f"{subject} {_pays_off(point, step_noun(self.summary))}."

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
                text += f", at the same {name}"
            elif result.verdict in ("better", "worse"):
                is_better = (gained.value > 0) == (result.direction == "maximize")
                if name == "accuracy":
                    clause = f"{'and more' if is_better else 'but less'} accurate"
                else:
                    clause = f"{'with a better' if is_better else 'but with a worse'} {name}"
                text += f", {clause} ({difference_value(gained)})"
        return text


def _pays_off(point: BreakEven, noun: str) -> str:
    assert point.extra_compile_s is not None
    assert point.steps is not None
    extra_s, steps = about(point.extra_compile_s.value), about(point.steps.value)
    return f"compiles {extra_s} s longer, which pays off after about {steps} {noun}s"
