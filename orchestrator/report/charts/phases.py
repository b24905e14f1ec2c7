"""What the time of an arm's trials went on, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.arms.phases import PHASES
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.document import Table
from orchestrator.report.wording.sentences import ArmNames


def phases(summary: ReportSummary, name: ArmNames) -> list[Chart]:
    """One plot of stacked bars; none where no phase was measured."""
    found = [split for split in summary.phases if split.seconds]
    measured = [phase for phase in PHASES if any(phase in split.seconds for split in found)]
    if not measured:
        return []
    rows = tuple(
        (
            name(split.arm),
            *(number(split.seconds[p]) if p in split.seconds else ABSENT for p in measured),
        )
        for split in found
    )
    headers = ("arm", *measured)
    return [
        Chart(
            key="phases",
            part="phases",
            title="Seconds of a trial by phase",
            told=" ".join(_told(name(split.arm), split.seconds) for split in found),
            at=Axis("", places=tuple(name(split.arm) for split in found)),
            values=Axis("seconds of a trial, mean"),
            series=tuple(
                Series(
                    name=phase.removesuffix("_s"),
                    style=PHASES.index(phase),
                    drawn="bars",
                    at=tuple(range(len(found))),
                    values=tuple(split.seconds.get(phase) for split in found),
                    hover=tuple(
                        f"{name(split.arm)}: {phase.removesuffix('_s')} "
                        f"{number(split.seconds.get(phase, 0))} s"
                        for split in found
                    ),
                )
                for phase in measured
            ),
            table=Table(headers, rows, frozenset(range(1, len(headers)))),
            sideways=True,
        )
    ]


def _told(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
