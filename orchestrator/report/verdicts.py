"""The words of verdicts: faster, slower, same within the margin, inconclusive.

A verdict itself is computed in `orchestrator.analysis`; here is how it reads, wherever it is shown:
its sign, the sentence on one arm and its baseline, that on an arm before and after, and the cell of
a ranking. Headlines, which name the fastest arm of several, are in `sections.headlines`.
"""

import math
from collections.abc import Mapping

from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.comparisons.results import ResultComparison, ResultVerdict
from orchestrator.analysis.comparisons.speed import Comparison, Verdict
from orchestrator.analysis.pairing.complete_rounds import Qualifier, UnitKind
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    natural,
    ratio,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.core.disturbance import Disturbance, disturbance_text, load_pct
from orchestrator.core.text import counted, noun_for
from orchestrator.report.wording import (
    ArmNames,
    about,
    deciding_interval,
    margin_text,
    result_name,
)

WORDS: Mapping[Verdict, str] = {
    "faster": "faster",
    "slower": "slower",
    "same": "same",
    "inconclusive": "inconclusive",
}
"""How each verdict reads, in tables and in sentences such as `is 1.4 × slower than`."""

INCONCLUSIVE = WORDS["inconclusive"]
"""The word for what is not decided, of break-evens and crossovers too."""

DIFFERENT_MATHEMATICS = "different mathematics"
"""The word for an arm that computes something else than its reference: it has no verdict."""

RESULT_WORDS: Mapping[ResultVerdict, str] = {
    "better": "better",
    "worse": "worse",
    "equal": "equal",
    "inconclusive": INCONCLUSIVE,
}
"""How the verdict on a result of training, such as an accuracy, reads in a table."""

QUALIFIERS: Mapping[Qualifier, str] = {"few configs": "few configs", "busy": "busy"}
"""How each qualifier of a verdict reads, in brackets after it."""

SIGNS: Mapping[str, str] = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""The signs of verdicts, so that colour is not their only mark."""


def verdict_label(comparison: Comparison) -> str:
    """Write the verdict for a table: `slower`, `slower (busy)`, `inconclusive (few configs)`."""
    if comparison.different_mathematics:
        return DIFFERENT_MATHEMATICS
    return qualified(WORDS[comparison.verdict], comparison.qualifier)


def qualified(word: str, qualifier: Qualifier | None) -> str:
    """Write a verdict for a table, with what limits it: `slower (busy)`."""
    return f"{word} ({QUALIFIERS[qualifier]})" if qualifier else word


def busy_note(disturbance: Disturbance) -> str:
    """Write what a busy verdict is shown with: `busy: others took 41 % of the CPUs`."""
    return f"{QUALIFIERS['busy']}: {busy_cause(disturbance)}"


def busy_cause(disturbance: Disturbance) -> str:
    """Write `others took 41 % of the CPUs`, or the causes if the size of the load is unknown."""
    load = load_pct(disturbance)
    if load is None:
        return disturbance_text(disturbance) or ""
    return f"others took {load:.0f} % of the CPUs"


def speed_ratio(estimate: Estimate, *, with_interval: bool = True) -> str:
    """Write a ratio of speeds for a table: `3.40 × (3.20–3.60)`, or `46 × (30–70) slower`."""
    shown = natural(estimate)
    text = ratio(shown) if with_interval else ratio_value(shown)
    return text if shown is estimate else f"{text} {WORDS['slower']}"


def speed_phrase(estimate: Estimate, base: str) -> str:
    """Write `is 3.40 × (3.20–3.60) as fast as BASE`, or `is 46 × (30–70) slower than BASE`.

    A slower one whose interval holds 1 `takes 1.20 × (0.83–1.67) as long as BASE`.
    """
    shown = natural(estimate)
    if shown is estimate:
        return f"is {ratio(shown)} as fast as {base}"
    if estimate.high < 1:
        return f"is {ratio(shown)} {WORDS['slower']} than {base}"
    return f"takes {ratio(shown)} as long as {base}"


def throughout_phrase(verdict: Verdict) -> str:
    """Write `faster than` or `as fast as`: an arm and its baseline at all sizes of a range."""
    return "as fast as" if verdict == "same" else f"{WORDS[verdict]} than"


def verdict_sentence(comparison: Comparison, name: ArmNames) -> str:
    """Write the verdict of one arm against its baseline, with interval and number of blocks.

    The interval is the corrected one, which decides the verdict, if there is one.
    """
    arm, baseline = name(comparison.arm), comparison.baseline
    if baseline is None:
        return f"{arm} is not compared: {comparison.reason}"
    if comparison.is_of_variants:
        base = str(baseline.variant_name)
    else:
        base = f"{name(baseline)}{name.where}"
    shown = deciding_interval(comparison)
    if shown is None:
        word = DIFFERENT_MATHEMATICS if comparison.different_mathematics else INCONCLUSIVE
        return f"{word}: {arm} compared with {base} ({comparison.reason})"
    learned = "".join(_result_clause(comparison, result) for result in comparison.results)
    if comparison.verdict == "same":
        margin = share(comparison.margin)
        equal = f"{arm} and {base} are equally fast within {margin} ({ratio_interval(shown)})"
        return f"{equal}{_over(comparison)}{learned}"
    figures = f"{arm} {speed_phrase(shown, base)}"
    if comparison.verdict != "inconclusive":
        return f"{figures}{_over(comparison)}{learned}"
    if comparison.corrected is None:
        busy = f"; {busy_note(comparison.disturbance)}" if comparison.disturbance else ""
        return f"{INCONCLUSIVE}: {figures} ({comparison.reason}{busy}){learned}"
    return f"{INCONCLUSIVE}: {figures}{_over(comparison)}{learned}{_blocks_needed(comparison)}"


def _over(comparison: Comparison) -> str:
    """Write by what and over how many configs two arms are compared, and what disturbed them."""
    text = ""
    if comparison.measures[0] != comparison.measures[1]:
        text += ", by time per step alone (timed only against whole trainings)"
    text += f"{for_this_config(comparison.unit)}, {over_units(comparison)}"
    disturbed = len(comparison.disturbed)
    if disturbed and comparison.quiet_only:
        text += f" (undisturbed trials only: {counted(disturbed, comparison.unit)} had others)"
    return text


def for_this_config(unit: UnitKind) -> str:
    """Write `, for this config` if a verdict is over the repeats of one config; else nothing."""
    return ", for this config" if unit == "repeat" else ""


def over_units(comparison: Comparison) -> str:
    """Write `over 6 configs`, or `over 8 repeats (busy: others took 41 % of the CPUs)`."""
    over = f"over {counted(len(comparison.pairs), comparison.unit)}"
    if comparison.qualifier == "busy":
        over += f" ({busy_note(comparison.disturbance)})"
    return over


def _result_clause(comparison: Comparison, result: ResultComparison) -> str:
    """Write the verdict on one result of training; empty if it was not judged."""
    if result.corrected is None:
        return ""
    name = result_name(result.metric)
    shown = _result_difference(result, result.corrected, comparison)
    if result.verdict == "equal":
        if comparison.verdict == "faster":
            equal = f", and costs no {name}"
        else:
            equal = "; their accuracies are equal" if name == "accuracy" else f"; equal {name}"
        return f"{equal} ({shown}, within {margin_text(result)})"
    if result.verdict == "inconclusive":
        has_diverged = result.diverged or result.baseline_diverged
        reason = f"{result.reason}; " if has_diverged else ""
        return f"; its {name} is {INCONCLUSIVE} ({reason}{shown}, margin {margin_text(result)})"
    # After `A and B are equally fast`, it must be said which of the two is meant.
    is_named_last = comparison.verdict in ("same", "inconclusive")
    subject = "; the former" if is_named_last else ", and"
    return f"{subject} {better_or_worse(result)} ({shown})"


def better_or_worse(result: ResultComparison) -> str:
    """Write `is more accurate` or `has the better val_loss` for a verdict that is one of these."""
    is_better = result.verdict == "better"
    if result_name(result.metric) == "accuracy":
        return f"is {'more' if is_better else 'less'} accurate"
    return f"has the {'better' if is_better else 'worse'} {result.metric}"


def _result_difference(result: ResultComparison, shown: Estimate, comparison: Comparison) -> str:
    text, blocks = f"difference {difference_interval(shown)}", result.difference.n
    return text if blocks == len(comparison.pairs) else f"{text} over {blocks} {comparison.unit}s"


def _blocks_needed(comparison: Comparison) -> str:
    """Write how many more configs, or repeats, would narrow the interval to which width."""
    needed = comparison.blocks_needed
    width = math.expm1(needed.half_width) if needed else 0.0
    if needed is None or not width:
        return ""
    noun = noun_for(needed.more_blocks, comparison.unit)
    return f"; about {about(needed.more_blocks)} more {noun} would give ± {share(width)}"


def change_sentence(comparison: Comparison, arm: str, margin: float, lost: str = "") -> str:
    """Write whether an arm became faster or slower between two sweeps.

    `arm` is its name, and `lost` what it no longer completes. The comparison has the arm after as
    its arm, and the arm before as its baseline.
    """
    shown, over = deciding_interval(comparison), over_units(comparison)
    here = for_this_config(comparison.unit)
    if comparison.verdict == "same":
        figures = f"{ratio(shown)}{here}, {over}"
        return f"{arm} is as fast as before, within {share(margin)}: {figures}{lost}"
    change = f": it {speed_phrase(shown, 'before')}" if shown else ""
    if comparison.verdict == "inconclusive":
        busy = f"; {busy_note(comparison.disturbance)}" if comparison.qualifier == "busy" else ""
        reason = f"{comparison.reason}{busy}{lost if comparison.pairs else ''}"
        either = f"{WORDS['faster']} or {WORDS['slower']}"
        return f"{INCONCLUSIVE}: whether {arm} became {either}{change} ({reason})"
    return f"{arm} became {WORDS[comparison.verdict]}{change}{here}, {over}{lost}"


def standing_text(ranking: Ranking) -> str:
    """Write where the first arm of a ranking stands: `first`, `equal`, `inconclusive (busy)`."""
    is_open = any(behind.standing == "inconclusive" for behind in ranking.behind)
    word = INCONCLUSIVE if is_open else "first" if ranking.sole else "equal"
    return qualified(word, ranking.qualifier)
