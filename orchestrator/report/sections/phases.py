"""The section on phases: where the time of each arm's trials went."""

from functools import partial

from orchestrator.analysis.arms.arm_summary import PHASES, PhaseSplit, took_turns
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, absent_arms

_EXPLANATION = (
    "Mean seconds per trial over all complete trials, including the first trials of trainers. This "
    "shows where the time of the sweep went; comparisons use other figures."
)
_TURNS = (
    "Of arms that took turns, each has its own time. The time that they waited for each other is "
    "in the phases of the others."
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
    has_turns = any(map(took_turns, summary.trials))
    return Section(
        "Time by phase",
        tables=(make_table(columns, splits),),
        paragraphs=absent_arms(summary, name, {split.arm for split in splits}),
        explanations=(_EXPLANATION, _TURNS) if has_turns else (_EXPLANATION,),
    )


def _seconds(phase: str, split: PhaseSplit) -> float | None:
    return split.seconds.get(phase)
