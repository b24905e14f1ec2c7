"""What the timed epochs of each arm drew, what its trials cost, and what else their node did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.measures import SCOPED
from orchestrator.analysis.statistics.estimates import spread
from orchestrator.analysis.statistics.formatting import ABSENT, count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import Arm, FinishedTrial
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames, energy_kinds


@dataclass(frozen=True, slots=True)
class _Column:
    """A metric and its unit; `per` of the metric's own unit are one of those."""

    metric: str
    title: str
    per: float = 1.0


_ENERGY = (
    _Column("energy_j", "energy (J)"),
    _Column("energy_gpu_j", "GPUs alone (J)"),
    _Column("energy_per_sample_j", "a sample (mJ)", per=1e-3),
    _Column("mean_power_w", "power (W)"),
)
_COST = (
    _Column("cost_usd", "a trial (USD)"),
    _Column("train_cost_usd", "its timed epochs (USD)"),
)


def spending(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Energy by scope, for figures of unlike scopes are of unlike things; and cost with its basis.

    None where nothing was measured and nothing has a price.
    """
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    own: dict[Arm, list[FinishedTrial]] = {found.arm: [] for found in summary.arms}
    for trial in complete:
        own[trial.arm].append(trial)
    drawn, paid = (_told(columns, complete) for columns in (_ENERGY, _COST))
    energy = [
        (name(arm), scope, *cells)
        for arm, trials in own.items()
        for scope, cells in _grouped(trials, lambda trial: trial.telemetry.energy_scope, drawn)
    ]
    cost = [
        (name(arm), *cells, basis)
        for arm, trials in own.items()
        for basis, cells in _grouped(trials, lambda trial: trial.cost_basis, paid)
    ]
    if not energy and not cost:
        return None
    tables, notes = [], []
    if energy:
        headers = ("arm", "energy of", "trials", *(column.title for column in drawn))
        tables.append(Table(headers, tuple(energy), frozenset(range(2, len(headers)))))
        notes.append(
            "Energy is that of the timed epochs alone, median (quartiles) over complete trials. "
            "gpu is what the GPUs drew, cpu_package what the node's CPUs drew, whoever used them: "
            "energies of unlike kinds are not to be compared."
        )
    if cost:
        headers = ("arm", "trials", *(column.title for column in paid), "by")
        numeric = frozenset(range(1, len(headers) - 1))
        tables.append(Table(headers, tuple(cost), numeric))
        notes.append(
            "By the hour a trial pays for all of its phases, its trainer's start among them where "
            "it was the first: the timed epochs are what can be compared."
        )
        if any("cost_usd" in t.metrics and t.arm.measure == "timing" for t in complete):
            notes.append("Trials that took turns share what their round cost, in equal parts.")
    notes += _absent(complete)
    return Section("Energy and cost", tables=tuple(tables), paragraphs=tuple(notes))


def _told(columns: Sequence[_Column], trials: Sequence[FinishedTrial]) -> list[_Column]:
    """Those that some trial has."""
    return [each for each in columns if any(each.metric in trial.metrics for trial in trials)]


def unlike_energies(summary: ReportSummary) -> str:
    """How there is a choice by energy where it is of unlike kinds; empty where it is not."""
    kinds = energy_kinds(summary)
    if len(kinds) < 2:
        return ""
    chosen = joined([metric for metric in summary.front.objectives if metric in SCOPED])
    return (
        f"{chosen} is of unlike kinds here ({joined(kinds)}), which are not to be compared: each "
        "config stands against those of its own kind alone."
    )


def _grouped(
    trials: Iterable[FinishedTrial],
    qualifier: Callable[[FinishedTrial], str | None],
    columns: Sequence[_Column],
) -> list[tuple[str, tuple[str, ...]]]:
    """Return, by a qualifier of its trials, an arm's number of trials and the columns' spreads."""
    own: dict[str, list[FinishedTrial]] = {}
    for trial in trials:
        if columns and columns[0].metric in trial.metrics:
            own.setdefault(qualifier(trial) or ABSENT, []).append(trial)
    return [
        (said, (str(len(found)), *(_cell(found, column) for column in columns)))
        for said, found in sorted(own.items())
    ]


def _cell(trials: Sequence[FinishedTrial], column: _Column) -> str:
    told = [trial.metrics[column.metric] for trial in trials if column.metric in trial.metrics]
    return quartiles(spread([value / column.per for value in told]))


def _absent(trials: Sequence[FinishedTrial]) -> list[str]:
    """Return the number of complete trials without energy, and the reason of the first."""
    reasons = [reason for trial in trials if (reason := trial.telemetry.energy_absent)]
    if not reasons:
        return []
    return [f"Without energy: {count(len(reasons), 'trial')}, the first because {reasons[0]}."]
