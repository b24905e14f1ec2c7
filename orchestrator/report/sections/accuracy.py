"""The section on accuracy: that of every arm against that of its baseline."""

from collections.abc import Iterator

from orchestrator.analysis.comparisons.speed import AccuracyComparison, Comparison
from orchestrator.analysis.statistics.formatting import difference, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.sections.speed import baseline_name, compared_columns
from orchestrator.report.verdicts import ACCURACY_WORDS
from orchestrator.report.wording import ArmNames, gain


def accuracy_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the accuracy of every arm with that of its baseline."""
    compared = [(c, c.accuracy) for c in summary.comparisons if c.accuracy]
    if not compared:
        return None
    columns: list[Column[Comparison]] = [
        *compared_columns(summary, name),
        Column("Δ val_accuracy (95 % CI)", gain, show=difference, numeric=True),
        Column("configs", lambda c: c.accuracy and c.accuracy.difference.n),
        Column("accuracy", lambda c: c.accuracy and ACCURACY_WORDS[c.accuracy.verdict]),
    ]
    return Section(
        f"Accuracy compared with {baseline_name(summary, name)}",
        tables=(make_table(columns, [comparison for comparison, _ in compared]),),
        explanations=(" ".join(_explanation(compared[0][1])),),
    )


def _explanation(first: AccuracyComparison) -> Iterator[str]:
    yield (
        "The difference is the arm's val_accuracy minus the baseline's, averaged over blocks with "
        "a 95 % t interval. The accuracies are equal if the whole interval lies within "
        f"{number(first.margin)} of 0 (two one-sided tests); an interval that only includes 0 does "
        "not show that."
    )
    if first.step:
        yield "That is one validation sample, because the margin of the spec is narrower."
    yield "The intervals hold for all arms together (Holm's procedure)."
