"""What the report says on whether all arms compute the same."""

from collections.abc import Iterator

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.arms.mathematics import Mathematics
from orchestrator.analysis.statistics.formatting import share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted, joined
from orchestrator.report.document import Bullet, Column, Kind
from orchestrator.report.verdicts import DIFFERENT_MATHEMATICS
from orchestrator.report.wording import arm_names, grouped

MATHEMATICS_EXPLANATION = (
    "Before its warm-up each trial computes outputs and gradients of the first samples at the "
    "initial weights, without dropout. Max Δ output is the largest difference of an output from "
    "the same output of the reference arm in its round, and its share of the root mean square of "
    "the outputs. Max Δ gradient is relative to the gradient of a weight array. An arm beyond the "
    "tolerance of its precision has no verdict of speed."
)


def mathematics_sentence(summary: ReportSummary) -> str | None:
    """Write `All arms compute the same: …`; None if nothing was compared, or an arm differs."""
    compared = [row.mathematics for row in summary.arms if row.mathematics]
    if not compared or any(mathematics.is_different for mathematics in compared):
        return None
    arms = {row.arm for row in summary.arms if row.mathematics}
    arms |= {mathematics.reference for mathematics in compared}
    measured = {row.arm for row in summary.arms if row.measures}
    is_all = measured <= arms
    if len({mathematics.reference.variant for mathematics in compared}) > 1:
        subject = "Within each variant " + ("all arms" if is_all else "some arms")
    else:
        subject = "All arms" if is_all else f"{len(arms)} of {counted(len(measured), 'arm')}"
    difference = max(mathematics.max_output_difference for mathematics in compared)
    of_size = max(mathematics.max_output_share for mathematics in compared)  # maybe another arm's
    differ = (
        f"differ by at most {_difference_text(difference, of_size)}" if difference else "are equal"
    )
    return f"{subject} compute the same: from equal weights their outputs {differ}."


def mathematics_doubts(summary: ReportSummary) -> Iterator[Bullet]:
    """Write which arms compute something else than their reference."""
    name = arm_names(summary)
    rows = [(row.arm, row.mathematics) for row in summary.arms if row.mathematics]
    for reference, group in grouped((m.reference, (arm, m)) for arm, m in rows).items():
        different = [(arm, m) for arm, m in group if m.is_different]
        if not different:
            continue
        _, worst = max(different, key=lambda pair: pair[1].max_output_share)
        arms = joined([name(arm) for arm, _ in different])
        do = "compute" if len(different) > 1 else "computes"
        text = f"{arms} {do} something else than {name(reference)} ({DIFFERENT_MATHEMATICS})"
        yield Bullet(
            Kind.DIFFERENT_MATHEMATICS,
            f"{text}: from equal weights, {_reasons(worst)}. There is no verdict of speed. Compare "
            "what the model does on the two backends",
        )


def mathematics_columns() -> list[Column[ArmSummary]]:
    """Return the columns of the largest differences, for a table of arms."""
    return [
        Column("max Δ output", _output_cell, optional=True, numeric=True),
        Column("max Δ gradient", _gradient_cell, optional=True, numeric=True),
    ]


def _output_cell(row: ArmSummary) -> str | None:
    mathematics = row.mathematics
    if mathematics is None:
        return None
    return _difference_text(mathematics.max_output_difference, mathematics.max_output_share)


def _gradient_cell(row: ArmSummary) -> str | None:
    mathematics = row.mathematics
    if mathematics is None or mathematics.max_gradient_difference is None:
        return None
    return share(mathematics.max_gradient_difference)


def _difference_text(difference: float, of_size: float) -> str:
    """Write `5.6e-08 (0.00013 % of their size)` for a difference of outputs and its share."""
    return f"{difference:.2g} ({share(float(f'{of_size:.2g}'))} of their size)"


def _reasons(mathematics: Mathematics) -> str:
    """Write which differences are beyond their tolerance."""
    reasons = []
    if mathematics.max_output_share > mathematics.output_tolerance:
        rounding = share(mathematics.output_tolerance)
        difference = _difference_text(
            mathematics.max_output_difference, mathematics.max_output_share
        )
        reasons.append(f"outputs differ by up to {difference}, and rounding explains {rounding}")
    gradient = mathematics.max_gradient_difference or 0.0
    if gradient > mathematics.gradient_tolerance:
        rounding = share(mathematics.gradient_tolerance)
        reasons.append(f"gradients by up to {share(gradient)}, and rounding explains {rounding}")
    return "; ".join(reasons)
