"""Tables of contrasts: what is compared with what, by how much, and the verdict."""

from collections.abc import Callable, Iterable, Sequence

from orchestrator.analysis.contrasts.contrast import Contrast, Question, Scale, Unit
from orchestrator.analysis.measures import measure_of
from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.analysis.statistics.formatting import difference, ratio, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Table, make_table
from orchestrator.report.names import ArmNames
from orchestrator.report.words import range_text, verdict_label
from workloads.metrics import find_metric

MOST_ROWS = 40
"""The most rows of a table of contrasts; the JSON format has all."""


def contrast_table(
    summary: ReportSummary,
    name: ArmNames,
    contrasts: Sequence[Contrast],
    titles: tuple[str, str | None, str] = ("arm", "baseline", "speed-up"),
    *,
    by: bool = False,
    show: Callable[[Contrast], str] | None = None,
) -> Table:
    """Make a table with a row for each contrast, `MOST_ROWS` at most.

    The `titles` are of the subject, the reference and the effect. Effects are as the contrast has
    them (a speed-up below 1 is slower), unless `show` writes them. The reference has no column if
    it has no title, or if it is the only baseline. With `by` a column has the metric. The values of
    single configs have a column where contrasts are ratios of arms.
    """
    subject, reference, effect = titles
    shown = shown_names(summary, name)
    has_one_baseline = (
        len({contrast.reference for contrast in contrasts}) == 1
        and contrasts[0].question == Question.BASELINE
    )
    has_reference = reference and not has_one_baseline
    unit = contrasts[0].unit if contrasts else Unit.CONFIG
    columns: list[Column[Contrast]] = [
        Column(subject, lambda contrast: shown(contrast.subject)),
        Column(
            reference or "",
            lambda contrast: shown(contrast.reference) if has_reference else None,
            optional=True,
        ),
        Column("by", lambda contrast: metric_title(contrast.metric) if by else None, optional=True),
        Column(f"{effect} ({share(CONFIDENCE)} CI)", show or _effect, numeric=True),
        Column(f"{unit}s", lambda contrast: contrast.blocks),
        Column("verdict", verdict_label),
        Column(f"over {unit}s", _over_configs, numeric=True, optional=True),
    ]
    return make_table(columns, contrasts[:MOST_ROWS])


def _effect(contrast: Contrast) -> str:
    text = ratio if contrast.scale == Scale.RATIO else difference
    return text(contrast.estimate)


def _over_configs(contrast: Contrast) -> str | None:
    is_of_arms = contrast.question in (Question.BASELINE, Question.BEST)
    return range_text(contrast) if is_of_arms and contrast.scale == Scale.RATIO else None


def shown_names(summary: ReportSummary, name: ArmNames) -> Callable[[str], str]:
    """Return the function that makes a subject or a reference of contrasts readable.

    It is an arm, an arm with a change of its size, or the value of a factor.
    """
    names = {str(row.arm): name(row.arm) for row in summary.arms}
    longest_first = sorted(names, key=len, reverse=True)

    def shown(text: str) -> str:
        for arm in longest_first:
            if text == arm or text.startswith(f"{arm}, "):
                return names[arm] + text.removeprefix(arm)
        return name.hardware_name(text)

    return shown


def counted_rows(contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """Return the note on the rows that a table of these contrasts leaves out."""
    more = len(contrasts) - MOST_ROWS
    return (f"and {more} more: --format json",) if more > 0 else ()


def chosen(
    summary: ReportSummary, metric: str | None, *questions: Question
) -> tuple[Contrast, ...]:
    """Return the contrasts by a metric that answer these questions."""
    return tuple(
        contrast
        for contrast in summary.contrasts
        if contrast.metric == metric and contrast.question in questions
    )


def best_first(contrasts: Iterable[Contrast]) -> tuple[Contrast, ...]:
    """Return ratios of arms with the largest gain first."""
    return tuple(sorted(contrasts, key=lambda contrast: -contrast.estimate.value))


def metric_title(metric: str) -> str:
    """Return how a metric is titled in tables: `step (ms)`."""
    return measure_of(find_metric(metric)).title


def baseline_name(summary: ReportSummary, name: ArmNames) -> str:
    """Return what arms are compared with: an arm, or a name that fits one on each hardware."""
    base = summary.baseline
    if base is None:
        return "no baseline"
    named = next((name(arm) for arm in base.of.values() if str(arm) == base.name), base.name)
    return f"{named} on the same hardware" if base.scope == "same hardware" else named
