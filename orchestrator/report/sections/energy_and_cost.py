"""The section on the energy of the timed epochs of each arm, and on the cost of its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.measures import SCOPED
from orchestrator.analysis.statistics.estimates import spread
from orchestrator.analysis.statistics.formatting import ABSENT, count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames, energy_kinds


@dataclass(frozen=True, slots=True)
class _Column:
    """A metric and its column; values are divided by `per` to get the unit of the title."""

    metric: str
    title: str
    per: float = 1.0


_ENERGY = (
    _Column("energy_j", "energy (J)"),
    _Column("energy_gpu_j", "GPUs only (J)"),
    _Column("energy_per_sample_j", "per sample (mJ)", per=1e-3),
    _Column("mean_power_w", "power (W)"),
)
_COST = (
    _Column("cost_usd", "per trial (USD)"),
    _Column("train_cost_usd", "timed epochs (USD)"),
)


def spending(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List energy by scope, as unlike scopes are not comparable, and cost with its basis.

    Return None if no energy was measured and nothing has a price.
    """
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    own: dict[Arm, list[FinishedTrial]] = {arm_summary.arm: [] for arm_summary in summary.arms}
    for trial in complete:
        own[trial.arm].append(trial)
    energy_columns, cost_columns = (_measured(columns, complete) for columns in (_ENERGY, _COST))
    energy = [
        (name(arm), scope, *cells)
        for arm, trials in own.items()
        for scope, cells in _grouped(trials, lambda t: t.telemetry.energy_scope, energy_columns)
    ]
    cost = [
        (name(arm), *cells, basis)
        for arm, trials in own.items()
        for basis, cells in _grouped(trials, lambda t: t.cost_basis, cost_columns)
    ]
    if not energy and not cost:
        return None
    tables, notes = [], []
    if energy:
        headers = ("arm", "energy of", "trials", *(column.title for column in energy_columns))
        tables.append(Table(headers, tuple(energy), frozenset(range(2, len(headers)))))
        notes.append(
            "Energy of the timed epochs only: median (quartiles) over complete trials. gpu is the "
            "energy of the GPUs, and cpu_package that of all CPUs of the node, including other "
            "work on it. Energies of different kinds are not comparable."
        )
    if cost:
        headers = ("arm", "trials", *(column.title for column in cost_columns), "price")
        numeric = frozenset(range(1, len(headers) - 1))
        tables.append(Table(headers, tuple(cost), numeric))
        notes.append(
            "The cost of a trial covers all of its phases, including the start of its trainer if "
            "it was the trainer's first trial. To compare arms, use the cost of the timed epochs."
        )
        if any("cost_usd" in t.metrics and t.arm.measure == "timing" for t in complete):
            notes.append("Trials that took turns share the cost of their round equally.")
    notes += _absent(complete)
    return Section("Energy and cost", tables=tuple(tables), paragraphs=tuple(notes))


def _measured(columns: Sequence[_Column], trials: Sequence[FinishedTrial]) -> list[_Column]:
    """Return the columns that any trial has a value for."""
    return [column for column in columns if any(column.metric in trial.metrics for trial in trials)]


def unlike_energies(summary: ReportSummary) -> str:
    """Explain how configs are ranked by energies of different kinds; empty for one kind."""
    kinds = energy_kinds(summary)
    if len(kinds) < 2:
        return ""
    chosen = joined([metric for metric in summary.front.objectives if metric in SCOPED])
    return (
        f"{chosen} is measured in different ways here ({joined(kinds)}), which are not comparable: "
        "each config competes only with those of its own kind."
    )


def _grouped(
    trials: Iterable[FinishedTrial],
    qualifier: Callable[[FinishedTrial], str | None],
    columns: Sequence[_Column],
) -> list[tuple[str, tuple[str, ...]]]:
    """Group the trials of an arm by a qualifier: their number, and the spread of each column."""
    own: dict[str, list[FinishedTrial]] = {}
    for trial in trials:
        if columns and columns[0].metric in trial.metrics:
            own.setdefault(qualifier(trial) or ABSENT, []).append(trial)
    return [
        (value, (str(len(group)), *(_cell(group, column) for column in columns)))
        for value, group in sorted(own.items())
    ]


def _cell(trials: Sequence[FinishedTrial], column: _Column) -> str:
    values = [trial.metrics[column.metric] for trial in trials if column.metric in trial.metrics]
    return quartiles(spread([value / column.per for value in values]))


def _absent(trials: Sequence[FinishedTrial]) -> list[str]:
    """Count the complete trials without an energy, with the reason of the first."""
    reasons = [reason for trial in trials if (reason := trial.telemetry.energy_absent)]
    if not reasons:
        return []
    return [f"Without energy: {count(len(reasons), 'trial')}. Reason of the first: {reasons[0]}."]
