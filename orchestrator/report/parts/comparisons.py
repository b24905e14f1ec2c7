"""The part on comparisons: speed-ups over the baseline, the fastest arm, and the factors."""

from collections import Counter
from collections.abc import Iterator

from orchestrator.analysis.contrasts.contrast import Contrast, Question, Unit, Verdict
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS
from orchestrator.analysis.statistics.formatting import share
from orchestrator.analysis.statistics.verdicts import CORRECTION
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, joined
from orchestrator.report.document import PARTS, Fact, Section
from orchestrator.report.names import ArmNames, grouped
from orchestrator.report.parts.contrast_tables import (
    baseline_name,
    best_first,
    chosen,
    contrast_table,
    counted_rows,
    metric_title,
)

_MOST_GAPS = 6
"""The most reasons for which configs are excluded that have a row."""


def comparisons_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the times of the arms, and the values of each factor by time and by result."""
    metric = summary.time_metric
    over_baseline = best_first(chosen(summary, metric, Question.BASELINE))
    of_leaders = chosen(summary, metric, Question.BEST)
    every = (*([metric] if metric else []), *summary.results)
    factors, interactions = (
        [contrast for each in every for contrast in chosen(summary, each, question)]
        for question in (Question.FACTOR, Question.INTERACTION)
    )
    different = [c for c in interactions if c.verdict in (Verdict.BETTER, Verdict.WORSE)]
    tables = []
    if over_baseline:
        tables.append(contrast_table(summary, name, over_baseline))
    if of_leaders:
        titles = "fastest arm", "compared with", "speed-up"
        tables.append(contrast_table(summary, name, of_leaders, titles))
    if factors:
        titles = "best value", "compared with", "effect"
        tables.append(contrast_table(summary, name, factors, titles, by=True))
    if different:
        titles = "gain", "compared with", "effect"
        tables.append(contrast_table(summary, name, different, titles, by=True))
    if not tables:
        return None
    return Section(
        PARTS["comparisons"],
        tables=tuple(tables),
        doubts=tuple(_excluded(summary, name)),
        notes=(
            *(_notes(summary, name, metric, (*over_baseline, *of_leaders)) if metric else ()),
            *_note_on_interactions(len(interactions), len(different)),
            *(note for rows in (over_baseline, of_leaders) for note in counted_rows(rows)),
            *(note for rows in (factors, different) for note in counted_rows(rows)),
        ),
        part="comparisons",
    )


def _notes(
    summary: ReportSummary, name: ArmNames, metric: str, compared: tuple[Contrast, ...]
) -> Iterator[str]:
    complete = len(summary.complete_blocks)
    every = complete + len(summary.gaps)
    unit = compared[0].unit if compared else Unit.CONFIG
    yield (
        f"Speed-up: {metric_title(metric)} of the baseline ({baseline_name(summary, name)}) "
        f"divided by the arm's, as a geometric mean over {unit}s. {complete} of "
        f"{counted(every, 'config')} are complete on every arm."
    )
    for contrast in compared[:1]:
        yield (
            f"Same: the interval is within {share(contrast.margin)} of 1. A verdict needs "
            f"{MIN_BLOCKS} {contrast.unit}s. Intervals are corrected for all comparisons of a "
            f"question ({CORRECTION}): at most {share(1 - CONFIDENCE)} of sweeps have a wrong "
            "verdict."
        )


def _note_on_interactions(asked: int, different: int) -> Iterator[str]:
    if asked:
        yield (
            f"The effect of a factor depends on another factor in {different} of "
            f"{counted(asked, 'case')}. All cases: --format json."
        )


def _excluded(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield which configs and arms are not compared, and why."""
    missing = Counter(gap.missing for gap in summary.gaps).most_common()
    for arms, configs in missing[:_MOST_GAPS]:
        yield Fact("excluded", f"{counted(configs, 'config')}: {_missing(arms, name)}")
    if len(missing) > _MOST_GAPS:
        yield Fact("excluded", f"and {len(missing) - _MOST_GAPS} more reasons: --format json")
    if summary.absent:
        arms_text = joined(map(name, summary.absent))
        yield Fact("excluded", f"{arms_text}: no complete trial")
    if summary.former:
        yield Fact("former", f"{joined(map(name, summary.former))}: not part of the last start")


def _missing(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    """Write what arms lack, by reason: `A and B failed; C time limit`."""
    reasons = grouped((reason.replace("_", " "), name(arm)) for arm, reason in missing)
    texts = (f"{joined(arms)} {reason}" for reason, arms in reasons.items())
    return "; ".join(texts) or "no trial complete"
