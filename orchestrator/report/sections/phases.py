"""The section on phases: where the time of each arm's trials went."""

from functools import partial

from orchestrator.analysis.arms.arm_summary import PHASES, PhaseSplit
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, absent_arms

_EXPLANATION = (
    "Mean seconds per trial over all complete trials, including the first trials of trainers. This "
    "shows where the time of the sweep went; comparisons use other figures."
)
_SLICES = (
    "For arms that took turns, timed is the time of their own slices. The time that they waited "
    "for each other is not counted twice: it is in the phases of the others."
)


def phases_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the mean seconds of each phase, by arm."""
    splits = summary.phases
    if not splits:
        return None
    columns: list[Column[PhaseSplit]] = [
        Column("seconds of", lambda split: name(split.arm)),
        Column("trials", lambda split: split.trials),
        *(Column(p.removesuffix("_s"), partial(_seconds, p), optional=True) for p in PHASES),
    ]
    has_slices = any("timed_s" in split.seconds for split in splits)
    return Section(
        "Time by phase",
        tables=(make_table(columns, splits),),
        paragraphs=absent_arms(summary, name, {split.arm for split in splits}),
        explanations=(_EXPLANATION, _SLICES) if has_slices else (_EXPLANATION,),
    )


def _seconds(phase: str, split: PhaseSplit) -> float | None:
    return split.seconds.get(phase)
