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
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    natural,
    number,
    ratio,
    ratio_interval,
    ratio_value,
    share,
)
from orchestrator.core.disturbance import busy_text
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

INCONCLUSIVE_BUSY = f"{INCONCLUSIVE} (busy)"
"""The word in tables where other work can have caused the difference."""

INCONCLUSIVE_FEW = f"{INCONCLUSIVE} (few configs)"
"""The word in tables where there are fewer configs than any verdict needs."""

OTHER_WORK_UNKNOWN = "other work unknown"
"""What qualifies a verdict if its trials were too short to see what other processes took."""

SIGNS: Mapping[str, str] = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
"""The signs of verdicts, so that colour is not their only mark."""


def verdict_label(comparison: Comparison) -> str:
    """Write the verdict for a table: `slower`, `slower (provisional)`, `inconclusive (busy)`."""
    if comparison.different_mathematics:
        return DIFFERENT_MATHEMATICS
    if comparison.verdict == "inconclusive" and 0 < len(comparison.pairs) < MIN_BLOCKS:
        return INCONCLUSIVE_FEW
    if comparison.verdict == "inconclusive" and comparison.bias:
        return INCONCLUSIVE_BUSY
    word = WORDS[comparison.verdict]
    if comparison.verdict == "inconclusive":
        return word
    return decided(
        word,
        provisional=comparison.provisional,
        other_work_unknown=comparison.other_work_unknown,
    )


def decided(word: str, *, provisional: bool, other_work_unknown: bool) -> str:
    """Write a verdict that is decided, with what qualifies it: `slower (provisional)`."""
    if provisional:
        return f"{word} (provisional)"
    return f"{word} ({OTHER_WORK_UNKNOWN})" if other_work_unknown else word


def busy_clause(disturbance: Mapping[str, float], bias: float) -> str:
    """Write why a difference that was measured on a busy machine is inconclusive.

    `but the machine was busy (other processes took 68 % of the CPUs), which alone can cause 2.7 ×:
    inconclusive`. The bias is infinite if it was not measured.
    """
    what = busy_text(disturbance)
    busy = f"but the machine was busy ({what})" if what else "but the machine was busy"
    if bias == math.inf:
        return f"{busy}, and what that can cause was not measured: {INCONCLUSIVE}"
    return f"{busy}, which alone can cause {number(float(f'{bias:.3g}'))} ×: {INCONCLUSIVE}"


def speed_ratio(estimate: Estimate, *, with_interval: bool = True) -> str:
    """Write a ratio of speeds for a table: `3.40 × (3.20–3.60)`, or `46 × (30–70) slower`."""
    shown = natural(estimate)
    text = ratio(shown) if with_interval else ratio_value(shown)
    return text if shown is estimate else f"{text} {WORDS['slower']}"


def speed_phrase(estimate: Estimate, base: str, *, is_measured: bool = False) -> str:
    """Write `is 3.40 × (3.20–3.60) as fast as BASE`, or `is 46 × (30–70) slower than BASE`.

    A slower one whose interval holds 1 `takes 1.20 × (0.83–1.67) as long as BASE`. What only
    `is_measured` and inconclusive `measured 3.40 × (3.20–3.60) as fast as BASE`.
    """
    shown, verb = natural(estimate), "measured" if is_measured else "is"
    if shown is estimate:
        return f"{verb} {ratio(shown)} as fast as {base}"
    if estimate.high < 1:
        return f"{verb} {ratio(shown)} {WORDS['slower']} than {base}"
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
        disturbance = busy_text(comparison.disturbance)
        disturbed = f"; disturbed: {disturbance}" if disturbance else ""
        return f"{INCONCLUSIVE}: {figures} ({comparison.reason}{disturbed}){learned}"
    if comparison.bias:
        measured = speed_phrase(shown, base, is_measured=True)
        clause = busy_clause(comparison.disturbance, comparison.bias)
        return f"{arm} {measured}{_over(comparison)}, {clause}{learned}"
    return f"{INCONCLUSIVE}: {figures}{_over(comparison)}{learned}{_blocks_needed(comparison)}"


def _over(comparison: Comparison) -> str:
    """Write by what and over how many configs two arms are compared, and what disturbed them."""
    text = ""
    if comparison.measures[0] != comparison.measures[1]:
        text += ", by time per step alone (timed in slices against whole trainings)"
    if comparison.provisional:
        text += ", measured on a busy machine (provisional)"
    text += f", over {counted(len(comparison.pairs), 'config')}"
    disturbed = len(comparison.disturbed_blocks)
    if disturbed and comparison.quiet_only:
        text += f" (undisturbed trials only: {counted(disturbed, 'config')} had others)"
    elif disturbed and not comparison.bias:
        text += f" ({disturbed} of them disturbed: {busy_text(comparison.disturbance)})"
    if comparison.other_work_unknown and not comparison.bias:
        text += f" ({OTHER_WORK_UNKNOWN})"
    return text


def _result_clause(comparison: Comparison, result: ResultComparison) -> str:
    """Write the verdict on one result of training; empty if it was not judged."""
    if result.corrected is None:
        return ""
    name = result_name(result.metric)
    shown = _result_difference(result, result.corrected, len(comparison.pairs))
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


def _result_difference(result: ResultComparison, shown: Estimate, blocks: int) -> str:
    text = f"difference {difference_interval(shown)}"
    if result.difference.n != blocks:
        text += f" over {result.difference.n} configs"
    return text


def _blocks_needed(comparison: Comparison) -> str:
    """Write how many more configs would narrow the interval to which width."""
    needed = comparison.blocks_needed
    width = math.expm1(needed.half_width) if needed else 0.0
    if needed is None or not width:
        return ""
    noun = noun_for(needed.more_blocks, "config")
    return f"; about {about(needed.more_blocks)} more {noun} would give ± {share(width)}"


def change_sentence(comparison: Comparison, arm: str, margin: float, lost: str = "") -> str:
    """Write whether an arm became faster or slower between two sweeps.

    `arm` is its name, and `lost` what it no longer completes. The comparison has the arm after as
    its arm, and the arm before as its baseline.
    """
    shown, over = deciding_interval(comparison), counted(len(comparison.pairs), "config")
    if comparison.verdict == "same":
        figures = f"{ratio(shown)}, over {over}"
        return f"{arm} is as fast as before, within {share(margin)}: {figures}{lost}"
    change = f": it {speed_phrase(shown, 'before')}" if shown else ""
    if comparison.verdict == "inconclusive" and comparison.bias and shown:
        clause = busy_clause(comparison.disturbance, comparison.bias)
        return f"{arm} {speed_phrase(shown, 'before', is_measured=True)}, {clause}{lost}"
    if comparison.verdict == "inconclusive":
        reason = f"{comparison.reason}{lost if comparison.pairs else ''}"
        either = f"{WORDS['faster']} or {WORDS['slower']}"
        return f"{INCONCLUSIVE}: whether {arm} became {either}{change} ({reason})"
    busy = ", measured on a busy machine (provisional)" if comparison.provisional else ""
    return f"{arm} became {WORDS[comparison.verdict]}{change}{busy}, over {over}{lost}"


def standing_text(ranking: Ranking) -> str:
    """Write where the first arm of a ranking stands: `first`, `equal`, `inconclusive (busy)`."""
    if ranking.reason:
        return INCONCLUSIVE_FEW
    if any(behind.standing == "inconclusive" for behind in ranking.behind):
        return INCONCLUSIVE_BUSY if ranking.provisional else INCONCLUSIVE
    return decided(
        "first" if ranking.sole else "equal",
        provisional=ranking.provisional,
        other_work_unknown=ranking.other_work_unknown,
    )
