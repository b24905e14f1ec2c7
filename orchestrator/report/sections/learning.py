"""The section on learning: the accuracy of each arm by epoch, and when it had it."""

from functools import partial

from orchestrator.analysis.arms.arm_summary import LearningCurve
from orchestrator.analysis.results import USUAL_RESULTS
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.sections.arms import unmatched_note
from orchestrator.report.wording import ArmNames, absent_arms


def learning_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the accuracy of each arm after the first, the middle and the last epoch, and when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((accuracy for accuracy in USUAL_RESULTS if accuracy in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    epochs = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(epochs) - 1
    columns: list[Column[LearningCurve]] = [
        Column("arm", lambda curve: name(curve.arm)),
        Column("configs", lambda curve: curve.points[0].value.n),
    ]
    for epoch in (epochs[place] for place in sorted({0, last // 2, last})):
        columns.append(Column(f"after epoch {epoch}", partial(_at, epoch), numeric=True))
    unmatched = [name(curve.arm) for curve in curves if not curve.matched]
    explanation = (
        f"Median {metric} over blocks, at the median training time up to that epoch. The page "
        "draws all epochs."
    )
    return Section(
        "Learning",
        tables=(make_table(columns, curves),),
        paragraphs=(
            *([unmatched_note(unmatched)] if unmatched else []),
            *absent_arms(summary, name, {curve.arm for curve in curves}, metric),
        ),
        explanations=(explanation,),
    )


def _at(epoch: int, curve: LearningCurve) -> str | None:
    points = [point for point in curve.points if point.epoch == epoch]
    return f"{number(points[0].value.median)} at {number(points[0].seconds)} s" if points else None
