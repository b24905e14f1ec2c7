"""The plot of the time of trials by phase."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.arms.over_time import PHASES
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts.chart import Axis, Chart, Series
from orchestrator.report.document import Table
from orchestrator.report.wording import ArmNames


def phases(summary: ReportSummary, name: ArmNames) -> list[Chart]:
    """Make a plot of stacked bars; an empty list if no phase was measured."""
    splits = [split for split in summary.phases if split.seconds]
    measured = [phase for phase in PHASES if any(phase in split.seconds for split in splits)]
    if not measured:
        return []
    rows = tuple(
        (
            name(split.arm),
            *(number(split.seconds[p]) if p in split.seconds else ABSENT for p in measured),
        )
        for split in splits
    )
    headers = ("arm", *measured)
    return [
        Chart(
            key="phases",
            part="phases",
            title="Seconds per trial by phase",
            description=" ".join(_description(name(split.arm), split.seconds) for split in splits),
            positions=Axis("", categories=tuple(name(split.arm) for split in splits)),
            values=Axis("mean seconds per trial"),
            series=tuple(
                Series(
                    name=phase.removesuffix("_s"),
                    style=PHASES.index(phase),
                    mark="bars",
                    positions=tuple(range(len(splits))),
                    values=tuple(split.seconds.get(phase) for split in splits),
                    hover=tuple(
                        f"{name(split.arm)}: {phase.removesuffix('_s')} "
                        f"{number(split.seconds.get(phase, 0))} s"
                        for split in splits
                    ),
                )
                for phase in measured
            ),
            table=Table(headers, rows, frozenset(range(1, len(headers)))),
            sideways=True,
        )
    ]


def _description(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
