"""How much better the leader by a metric is than others, as a fact with numbers in it.

The report, `bench` and the live view of a running sweep have these facts.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from orchestrator.analysis.contrasts.contrast import Contrast, Scale, Verdict
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    difference_value,
    number,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.core.text import joined
from orchestrator.report.document import Fact, Tone
from orchestrator.report.words import QUALIFIERS, TIME_WORDS, WORDS, verdict_word
from workloads.metrics import find_metric

_MOST_NAMED = 3
"""The most arms that are named as being the same; more are counted."""

_OPEN = WORDS[Verdict.OPEN]


def in_order_of_interest(
    by_time: Sequence[Fact],
    by_result: Sequence[Fact],
    objectives: Collection[str],
    results: Collection[str],
) -> tuple[Fact, ...]:
    """Return the facts by time first, unless all objectives are results and one of these differs.

    `objectives` are metrics of the sweep, and `results` are the metrics that are compared.
    """
    is_about_results = all(find_metric(name).is_result for name in objectives)
    are_compared = not set(objectives).isdisjoint(results)
    differ = any(fact.tone == Tone.GOOD for fact in by_result)
    if is_about_results and are_compared and differ:
        return (*by_result, *by_time)
    return (*by_time, *by_result)


def leading_fact(
    label: str, contrasts: Sequence[Contrast], names: Mapping[str, str], preferred: str = ""
) -> Fact:
    """Return how one subject compares with its references, the nearest one first.

    Of the references that are worse, the `preferred` one is named, or else the nearest.
    """
    of_verdict: dict[Verdict, list[Contrast]] = {verdict: [] for verdict in Verdict}
    for contrast in contrasts:
        of_verdict[contrast.verdict].append(contrast)
    worse, still_open = of_verdict[Verdict.BETTER], of_verdict[Verdict.OPEN]
    named = next((c for c in worse if c.reference == preferred), worse[0] if worse else None)
    is_ratio = contrasts[0].scale == Scale.RATIO
    write = _text_of_ratios if is_ratio else _text_of_differences
    is_decided = named is not None or (is_ratio and not still_open)
    tone = Tone.GOOD if is_decided else Tone.DOUBT if still_open else Tone.PLAIN
    return Fact(label, write(named, of_verdict, names), tone)


def _text_of_ratios(
    worse: Contrast | None,
    of_verdict: Mapping[Verdict, Sequence[Contrast]],
    names: Mapping[str, str],
) -> str:
    """Write `A: 1.55 × as fast as B (1.18–2.04)`, then what is the same or open.

    Where all is open, no arm leads: `open: A against B, 1.20 × (0.10–10.8)`.
    """
    same, still_open = of_verdict[Verdict.SAME], of_verdict[Verdict.OPEN]
    texts = list[str]()
    if worse:
        texts.append(f"{names[worse.subject]}: {_gain(worse, names)}")
    if same:
        subject = _listed([names[same[0].subject], *(names[c.reference] for c in same)])
        within = f"the {WORDS[Verdict.SAME]} within {share(same[0].margin)}"
        texts.append(f"{subject}: {within}{_qualified(same[0])}")
    if still_open:
        nearest, *others = still_open
        reference = names[nearest.reference]
        gain = f"{ratio_value(nearest.estimate)}{_in_brackets(nearest)}"
        more = f" and {len(others)} more" if others else ""
        if texts:
            texts.append(f"{_OPEN} against {reference}{more}: {gain}")
        else:
            texts.append(f"{_OPEN}: {names[nearest.subject]} against {reference}{more}, {gain}")
    return "; ".join(texts)


def _gain(worse: Contrast, names: Mapping[str, str]) -> str:
    is_time = verdict_word(worse) == TIME_WORDS[worse.verdict]
    how = "as fast as" if is_time else "less than"
    value, reference = ratio_value(worse.estimate), names[worse.reference]
    return f"{value} {how} {reference}{_in_brackets(worse)}"


def _text_of_differences(
    worse: Contrast | None,
    of_verdict: Mapping[Verdict, Sequence[Contrast]],
    names: Mapping[str, str],
) -> str:
    """Write `A: +0.021 compared with B (+0.018 to +0.024)`, or on how many arms that is open."""
    same, still_open = of_verdict[Verdict.SAME], of_verdict[Verdict.OPEN]
    arms, texts = 1 + sum(map(len, of_verdict.values())), list[str]()
    if worse:
        subject = _listed([names[worse.subject], *(names[c.reference] for c in same)])
        gain = f"{difference_value(worse.estimate)} compared with {names[worse.reference]}"
        texts.append(f"{subject}: {gain}{_in_brackets(worse)}")
    elif not still_open:
        every = "both" if arms == 2 else f"all {arms} arms"
        within = f"within {number(float(f'{same[0].margin:.2g}'))}"
        return f"the {WORDS[Verdict.SAME]} on {every} ({within})"
    if still_open:
        ends = [abs(end) for c in still_open for end in (c.estimate.low, c.estimate.high)]
        within = f", within ± {number(float(f'{max(ends):.2g}'))}" if max(ends) < math.inf else ""
        where = "" if arms == 2 else f" on {len(still_open)} of {arms} arms"
        texts.append(f"{_OPEN}{where}{within}{_qualified(still_open[0])}")
    return "; ".join(texts)


def _in_brackets(contrast: Contrast) -> str:
    """Write ` (1.18–2.04; busy)`: the interval, unless it has no ends, and the qualifier."""
    is_ratio = contrast.scale == Scale.RATIO
    interval = (ratio_interval if is_ratio else difference_interval)(contrast.estimate)
    parts = [interval] if contrast.estimate.high < math.inf else []
    parts += [QUALIFIERS[contrast.qualifier]] if contrast.qualifier else []
    return f" ({'; '.join(parts)})" if parts else ""


def _qualified(contrast: Contrast) -> str:
    return f" ({QUALIFIERS[contrast.qualifier]})" if contrast.qualifier else ""


def _listed(names: Sequence[str]) -> str:
    hidden = len(names) - _MOST_NAMED
    return joined([*names[:_MOST_NAMED], *([f"{hidden} more"] if hidden > 0 else [])])
