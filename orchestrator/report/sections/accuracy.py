"""The section on accuracy: what each arm achieved against what its baseline achieved."""

from collections.abc import Iterator
from functools import partial

from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.formatting import difference
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import USUAL_ACCURACY_MARGIN
from orchestrator.core.text import joined
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.sections.speed import baseline_name, compared_columns
from orchestrator.report.verdicts import RESULT_WORDS
from orchestrator.report.wording import (
    ArmNames,
    absent_arms_by_metric,
    compared_results,
    gain,
    margin_text,
    margin_with_origin,
    result_name,
)


def accuracy_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare every arm with its baseline by each result: an accuracy, a loss, another objective.

    There is one table for each.
    """
    metrics = compared_results(summary)
    if not metrics:
        return None
    results = [result for comparison in summary.comparisons for result in comparison.results]
    return Section(
        f"{joined(_titles(metrics))} compared with {baseline_name(summary, name)}",
        tables=tuple(_table(summary, name, metric) for metric in metrics),
        paragraphs=absent_arms_by_metric(
            summary, name, {metric: _listed(summary, metric) for metric in metrics}
        ),
        explanations=(" ".join(_explanation(results)),),
    )


def _titles(metrics: tuple[str, ...]) -> Iterator[str]:
    for place, metric in enumerate(metrics):
        noun = result_name(metric)
        yield noun.capitalize() if place == 0 and noun == "accuracy" else noun


def _result(comparison: Comparison, metric: str) -> ResultComparison | None:
    return next((result for result in comparison.results if result.metric == metric), None)


def _table(summary: ReportSummary, name: ArmNames, metric: str) -> Table:
    def blocks(comparison: Comparison) -> int | None:
        result = _result(comparison, metric)
        return result.difference.n if result else None

    def verdict(comparison: Comparison) -> str | None:
        result = _result(comparison, metric)
        return RESULT_WORDS[result.verdict] if result else None

    columns: list[Column[Comparison]] = [
        *compared_columns(summary, name),
        Column(
            f"Δ {metric} (95 % CI)", partial(gain, metric=metric), show=difference, numeric=True
        ),
        Column(f"{summary.comparisons[0].unit}s", blocks),
        Column(result_name(metric), verdict),
    ]
    compared = [comparison for comparison in summary.comparisons if _result(comparison, metric)]
    return make_table(columns, compared)


def _listed(summary: ReportSummary, metric: str) -> set[Arm]:
    """Return the arms of which a metric is compared, baselines included."""
    compared = [c for c in summary.comparisons if _result(c, metric)]
    return {arm for c in compared for arm in (c.arm, c.baseline) if arm}


def _explanation(results: list[ResultComparison]) -> Iterator[str]:
    by_metric = {result.metric: result for result in results}
    yield (
        f"The difference is the arm's {' or '.join(by_metric)} minus the baseline's, averaged over "
        "blocks with a 95 % t interval. Two arms are equal if the whole interval lies within the "
        f"margin of 0, {_margins(by_metric)} (two one-sided tests); an interval that only includes "
        "0 does not show that."
    )
    for result in by_metric.values():
        if result.widened == "one sample":
            yield (
                f"The margin of {result.metric} is one validation sample, because the margin "
                "of the spec is narrower."
            )
        elif result.widened == "noise" and result.validation_samples:
            usual = USUAL_ACCURACY_MARGIN.value
            of_samples = margin_with_origin(usual, None, result.validation_samples)
            yield (
                f"The usual margin, {of_samples}, is finer than what they can tell, so the margin "
                f"of {result.metric} is the standard error of an accuracy on so many samples; "
                "margins in the spec sets another one."
            )
        elif result.share is not None:
            yield (
                f"The margin of {result.metric} is a share of the baseline's mean; margins in the "
                "spec sets another one."
            )
    yield "The intervals hold for all arms together (Holm's procedure)."


def _margins(by_metric: dict[str, ResultComparison]) -> str:
    if len(by_metric) == 1:
        (only,) = by_metric.values()
        return margin_text(only)
    return ", ".join(f"{metric} {margin_text(result)}" for metric, result in by_metric.items())
