"""The chart of phases: where the time of each arm's trials went."""

from collections.abc import Iterator, Mapping

from orchestrator.analysis.arms.arm_summary import PHASES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.charts import chart
from orchestrator.report.charts.chart import ROW, Chart, Styles, arm_channels, layer, short
from orchestrator.report.wording import ArmNames


def phase_charts(summary: ReportSummary, name: ArmNames, _: Styles) -> Iterator[Chart]:
    """Make a chart of stacked bars, one for each arm, if phases were measured."""
    splits = [split for split in summary.phases if split.seconds]
    measured = [phase for phase in PHASES if any(phase in split.seconds for split in splits)]
    if not measured:
        return
    data = [
        {
            "name": (words := phase.removesuffix("_s")),
            "row": short(name(split.arm)),
            "order": PHASES.index(phase),
            "seconds": (seconds := split.seconds.get(phase, 0.0)),
            "text": f"{name(split.arm)}: {words} {number(seconds)} s",
        }
        for split in splits
        for phase in measured
    ]
    names = {phase.removesuffix("_s"): PHASES.index(phase) for phase in measured}
    legend = arm_channels(names, legend={"columns": 5})
    stacked = {"type": "quantitative", "title": "mean seconds per trial", "stack": "zero"}
    bars = layer(
        "bars",
        "bar",
        {"size": 22, "stroke": "var(--paper)", "yOffset": 6},
        x={"field": "seconds", **stacked},
        y=ROW,
        color=legend["color"],
        order="order",
        tooltip="text",
    )
    arms = [{"row": row["row"], "label": ""} for row in data[:: len(measured)]]
    yield Chart(
        key="phases",
        section="phases",
        title="Seconds per trial by phase",
        description=" ".join(_longest(name(split.arm), split.seconds) for split in splits),
        layers=[bars, *chart.row_names("arms")],
        data={"bars": data, "arms": arms},
        height=chart.ROW_HEIGHT * len(splits),
        notes=("From left to right in the order of the legend",),
    )


def _longest(arm: str, seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    longest = max(seconds, key=lambda phase: seconds[phase])
    share = 100 * seconds[longest] / total if total else 0
    return f"{arm}: {number(total)} s, most of it {longest.removesuffix('_s')} ({share:.0f} %)."
