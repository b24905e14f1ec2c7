"""The section on factors: which value of each wins, by how much, and what that depends on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from orchestrator.analysis.comparisons.factors import Contrast, EffectAt, FactorAnswer, Interaction
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    ABSENT,
    difference,
    difference_interval,
    difference_value,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arm_factors import FactorName, factor_named
from orchestrator.core.text import counted, joined
from orchestrator.report.document import Bullet, Column, Kind, Section, Table, make_table
from orchestrator.report.verdicts import (
    INCONCLUSIVE,
    RESULT_WORDS,
    WORDS,
    busy_note,
    for_this_config,
    qualified,
    speed_ratio,
)
from orchestrator.report.wording import (
    ArmNames,
    arm_names,
    grouped,
    margin_with_origin,
    result_name,
)

_PREPOSITIONS: dict[FactorName, str] = {
    "variant": "with",
    "implementation": "with",
    "precision": "in",
    "hardware": "on",
    "threads": "on",
    "CPUs": "on",
}
"""How a sentence joins a value of each factor."""


def _noun(factor: FactorName) -> str:
    return f"number of {factor}" if factor in ("threads", "CPUs") else factor


_MOST_DEPENDENCES = 2
"""The most other factors of which a sentence says whether the effect depends on them."""

_MOST_PLACES = 4
"""For how many values of another factor a sentence has the effect; of more, the least and most."""

_EXPLANATION = (
    "The effect of a factor is averaged within each config over the combinations of the other "
    "factors that have all of its values, and judged over configs as any comparison is. It depends "
    "on another factor if the effects with two values of that factor differ (t interval of the "
    "difference, Holm's procedure). The intervals with single values are plain 95 % ones."
)


def factors_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the effect of each factor, over all combinations of the others and with each value."""
    if not summary.factors:
        return None
    tables = [_table(name, answers) for answers in grouped_by_factor(summary.factors).values()]
    return Section("Factors", tables=tuple(tables), explanations=(_EXPLANATION,))


def grouped_by_factor(answers: Sequence[FactorAnswer]) -> dict[FactorName, list[FactorAnswer]]:
    """Return the answers by factor: by time first, then by each result."""
    return grouped((answer.factor, answer) for answer in answers)


def _table(name: ArmNames, answers: Sequence[FactorAnswer]) -> Table:
    """Make the table of one factor: a row for each other value and metric."""
    rows = [(answer, contrast) for answer in answers for contrast in answer.others]
    others = dict.fromkeys(
        (interaction.factor, at.value)
        for _, contrast in rows
        for interaction in contrast.interactions
        for at in interaction.effects
    )

    def pair(row: tuple[FactorAnswer, Contrast]) -> str:
        answer, contrast = row
        best, other = (value_text(answer.factor, v, name) for v in (answer.best, contrast.value))
        return f"{best} over {other}"

    def effect_with(key: tuple[FactorName, str], row: tuple[FactorAnswer, Contrast]) -> str | None:
        answer, contrast = row
        effects = (
            at.effect
            for interaction in contrast.interactions
            for at in interaction.effects
            if (interaction.factor, at.value) == key
        )
        found = next(effects, None)
        return _effect(answer, found) if found else None

    def verdict(row: tuple[FactorAnswer, Contrast]) -> str:
        answer, contrast = row
        if answer.is_ratio:
            words = {"worse": WORDS["faster"], "same": WORDS["same"]}
        else:
            words = {"worse": RESULT_WORDS["better"], "same": RESULT_WORDS["equal"]}
        return qualified(words.get(contrast.standing, INCONCLUSIVE), answer.qualifier)

    columns: list[Column[tuple[FactorAnswer, Contrast]]] = [
        Column(answers[0].factor, pair),
        Column("by", lambda row: row[0].metric),
        Column("effect (95 % CI)", lambda row: _effect(row[0], row[1].effect), numeric=True),
        *(
            Column(_place(factor, value, name), partial(effect_with, (factor, value)), numeric=True)
            for factor, value in others
        ),
        Column("verdict", verdict),
    ]
    return make_table(columns, rows)


def _effect(answer: FactorAnswer, effect: Estimate | None) -> str:
    """Write an effect for a table, with its interval."""
    if effect is None:
        return ABSENT
    return speed_ratio(effect) if answer.is_ratio else difference(effect)


def _effect_value(answer: FactorAnswer, effect: Estimate | None) -> str:
    """Write an effect for a sentence, without its interval."""
    if effect is None:
        return ABSENT
    if answer.is_ratio:
        return speed_ratio(effect, with_interval=False)
    return difference_value(effect)


def value_text(factor: FactorName, value: str, name: ArmNames) -> str:
    """Write a value of a factor; hardware has the short name that the report uses."""
    return name.place(value) if factor == "hardware" else value


def _place(factor: FactorName, value: str, name: ArmNames) -> str:
    """Write `with gru`, `on 2 threads`."""
    return f"{_PREPOSITIONS[factor]} {value_text(factor, value, name)}"


def factor_bullets(summary: ReportSummary, *, is_brief: bool = False) -> Iterator[Bullet]:
    """Write the answer for each factor: which value wins, by how much, and what that depends on.

    A brief answer has its first sentence alone, without what the effect depends on. Implementations
    on several classes of hardware alone have none: the headlines have these.
    """
    for texts in _texts_by_factor(summary):
        yield _bullet(texts, is_brief=is_brief)


def bullets_on_results(summary: ReportSummary) -> tuple[Bullet, ...]:
    """Return the answers for factors that begin with a better result: its time is not decided."""
    return tuple(
        _bullet(texts, is_brief=False)
        for texts in _texts_by_factor(summary)
        if texts[0].contrast.standing == "worse" and not texts[0].answer.is_ratio
    )


def _texts_by_factor(summary: ReportSummary) -> Iterator[list[_FactorText]]:
    """Return the sentences on each factor: what is decided comes first."""
    name = arm_names(summary)
    by_factor = grouped_by_factor(summary.factors)
    for factor, answers in by_factor.items():
        if factor == "implementation" and by_factor.keys() == {"implementation", "hardware"}:
            continue
        texts = [_FactorText(summary, answer, name) for answer in answers]
        times = [text for text in texts if text.answer.is_ratio][:1]
        results = [text for text in texts if not text.answer.is_ratio]
        decided = [text for text in results if text.contrast.standing == "worse"]
        rest = [text for text in results if text not in decided]
        is_faster = bool(times) and times[0].contrast.standing == "worse"
        yield [*times, *decided, *rest] if is_faster else [*decided, *times, *rest]


def _bullet(texts: Sequence[_FactorText], *, is_brief: bool) -> Bullet:
    first = texts[0]
    if is_brief:
        sentences = [first.brief_sentence()]
    else:
        is_faster = first.answer.is_ratio and first.contrast.standing == "worse"
        before = first if is_faster else None
        sentences = [text.sentence(before, is_main=text is first) for text in texts]
    if first.contrast.standing == "worse":
        kind = Kind.FASTEST
    else:
        kind = Kind.SAME if first.contrast.standing == "same" else Kind.INCONCLUSIVE
    factor = first.answer.factor
    return Bullet(kind, f"{factor[:1].upper()}{factor[1:]}: {' '.join(sentences)}")


def _is_plural(summary: ReportSummary, answer: FactorAnswer) -> bool:
    """Return whether the best value is several things: `2 threads`, but not `1 thread`."""
    if answer.factor not in ("threads", "CPUs"):
        return False
    factor = factor_named(answer.factor)
    counts = {factor.text(row.arm): factor.key(row.arm) for row in summary.arms}
    return counts.get(answer.best) != 1


def _compared(summary: ReportSummary, answer: FactorAnswer) -> Contrast:
    """Return the contrast of a sentence: with the baseline's value, or else with the next one."""
    if answer.others[0].standing != "worse" or summary.baseline is None:
        return answer.others[0]
    factor = factor_named(answer.factor)
    of_baseline = {factor.text(arm) for arm in summary.baseline.of.values()}
    compared = [contrast for contrast in answer.others if contrast.value in of_baseline]
    return compared[0] if len(compared) == 1 else answer.others[0]


class _FactorText:
    """The sentence on one factor by one metric."""

    def __init__(self, summary: ReportSummary, answer: FactorAnswer, name: ArmNames) -> None:
        self.answer, self.contrast, self.name = answer, _compared(summary, answer), name
        self.is_plural = _is_plural(summary, answer)
        self.is_or_are, self.has_or_have = ("are", "have") if self.is_plural else ("is", "has")
        results = (r for c in summary.comparisons for r in c.results if r.metric == answer.metric)
        self.result = next(results, None)

    @property
    def best(self) -> str:
        """The winning value."""
        return value_text(self.answer.factor, self.answer.best, self.name)

    @property
    def other(self) -> str:
        """The value that it is compared with."""
        return value_text(self.answer.factor, self.contrast.value, self.name)

    def sentence(self, faster: _FactorText | None, *, is_main: bool) -> str:
        """Write the sentence; `faster` is that by time, if it was written before."""
        text = self._time() if self.answer.is_ratio else self._result(faster)
        return f"{text}{self._limits()}{self._dependences(is_main=is_main)}."

    def brief_sentence(self) -> str:
        """Write the sentence without dependences."""
        text = self._time() if self.answer.is_ratio else self._result(None)
        return f"{text}{self._limits()}."

    def _time(self) -> str:
        answer, contrast = self.answer, self.contrast
        if contrast.effect is None:
            return f"{self.best} {'lead' if self.is_plural else 'leads'} so far"
        figure = f"{ratio_value(contrast.effect)} as fast as {self.other}"
        interval = f"95 % CI {ratio_interval(contrast.effect)}"
        if answer.qualifier == "busy":
            interval += f"; {busy_note(answer.disturbance)}"
        if contrast.standing == "worse":
            open_values = [c for c in answer.others if c.standing != "worse"]
            if len(answer.others) > 1 and not open_values:
                return f"{self.best} {self.is_or_are} fastest, {figure} ({interval})"
            return f"{self.best} {self.is_or_are} {figure} ({interval})"
        if contrast.standing == "same":
            within = share(answer.margin)
            return f"{self.best} and {self.other} are equally fast within {within} ({interval})"
        if not contrast.is_judged:
            shown = "" if contrast.effect.high == math.inf else f" ({interval})"
            return f"{self.best} {self.is_or_are} {figure} so far{shown}"
        return (
            f"it is not clear whether {self.best} or {self.other} is faster: {figure} ({interval})"
        )

    def _limits(self) -> str:
        """Write that the sentence is about one config, or over how few configs it is."""
        answer = self.answer
        if answer.is_ratio and not self.contrast.is_judged:
            return f", over {counted(answer.blocks, answer.unit)}"
        return for_this_config(answer.unit)

    def _result(self, faster: _FactorText | None) -> str:
        contrast, noun = self.contrast, result_name(self.answer.metric)
        if contrast.effect is None:
            return f"The {noun} was measured in one config"
        interval = f"95 % CI {difference_interval(contrast.effect)}"
        if contrast.standing == "worse":
            is_same_pair = faster is not None and (faster.best, faster.other) == (
                self.best,
                self.other,
            )
            subject = "It" if is_same_pair and not self.is_plural else self.best
            if noun == "accuracy":
                verb = f"{self.is_or_are} more accurate"
            else:
                verb = f"{self.has_or_have} the better {noun}"
            over = "" if is_same_pair else f" than {self.other}"
            return f"{subject} {verb}{over}: {difference_value(contrast.effect)} ({interval})"
        if contrast.standing == "same":
            return f"The {noun} is the same within {self._margin()} ({interval})"
        if not contrast.is_judged:
            if abs(contrast.effect.value) <= self.answer.margin:
                return f"The {noun} differs by no more than {self._margin()} so far"
            shown = "" if contrast.effect.high == math.inf else f" ({interval})"
            gained = difference_value(contrast.effect)
            return f"{self.best} {self.has_or_have} the better {noun} so far: {gained}{shown}"
        return f"Whether the {noun} is the same is not clear ({interval})"

    def _margin(self) -> str:
        share_of = self.result.share if self.result else None
        samples = self.result.validation_samples if self.result else None
        return margin_with_origin(self.answer.margin, share_of, samples)

    def _dependences(self, *, is_main: bool) -> str:
        """Write on which other factors the effect depends, with its figures there.

        Of a sentence that is not the main one only where it does.
        """
        interactions = self.contrast.interactions
        if not self.contrast.is_judged or not interactions:
            return ""
        depends = [i for i in interactions if i.verdict == "depends"]
        if not depends and not is_main:
            return ""
        texts = [self._dependence(i) for i in (depends or interactions)[:_MOST_DEPENDENCES]]
        return f"; {'; '.join(texts)}"

    def _dependence(self, interaction: Interaction) -> str:
        if interaction.verdict == "alike":
            places = (_place(interaction.factor, at.value, self.name) for at in interaction.effects)
            return f"the same {joined([*places])}"
        shown = _least_and_most(interaction.effects)
        figures = [
            f"{_effect_value(self.answer, at.effect)}"
            f" {_place(interaction.factor, at.value, self.name)}"
            for at in shown
        ]
        is_whole = len(shown) == len(interaction.effects)
        text = ", ".join(figures) if is_whole else f"from {' to '.join(figures)}"
        if interaction.verdict == "depends":
            return f"this depends on the {_noun(interaction.factor)}: {text}"
        return f"whether this depends on the {_noun(interaction.factor)} is not clear: {text}"


def _least_and_most(effects: Sequence[EffectAt]) -> Sequence[EffectAt]:
    """Return the least and the greatest effect of many; few are returned as they are."""
    known = [(at.effect.value, at) for at in effects if at.effect]
    if len(known) <= _MOST_PLACES:
        return effects
    (_, least), *_, (_, most) = sorted(known, key=lambda effect_at: effect_at[0])
    return (least, most)
