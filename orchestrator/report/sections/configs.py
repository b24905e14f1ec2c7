"""The section on configs: the sizes that were tried, with the time on each arm."""

import shlex
from functools import partial
from statistics import fmean

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, config_phrase, grouped

_LISTED = 20
"""The most configs that are listed."""


def configs_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the sizes of each config with the time on each arm, repeats averaged."""
    metric, rows = summary.time_metric, [row.arm for row in summary.arms if row.measures]
    if metric is None:
        return None
    times = grouped(
        ((trial.block, trial.arm), trial.metrics[metric])
        for trial in summary.trials
        if trial.status == "complete" and metric in trial.metrics
    )

    def mean(arm: Arm, block: int) -> float | None:
        return fmean(times[block, arm]) if (block, arm) in times else None

    sizes = {trial.block: config_phrase(trial.config) for trial in summary.trials}
    columns: list[Column[int]] = [Column(f"{metric} with", sizes.__getitem__)]
    columns += [Column(name(arm), partial(mean, arm)) for arm in rows]
    table = make_table(columns, sorted(sizes)[:_LISTED])
    more = len(sizes) - _LISTED
    notes = (f"{more} more: rnnsweep query {shlex.quote(summary.sweep.label)}",) if more > 0 else ()
    return Section("Configs tried", tables=(table,), paragraphs=notes)
