"""The section on the energy of the timed epochs of each arm, and on the cost of its trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import TypeAlias

from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.analysis.statistics.formatting import ABSENT, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames

_Group: TypeAlias = tuple[str, list[FinishedTrial]]
"""A qualifier, such as the scope of an energy, and the trials of one arm with it."""

_ENERGY = (
    ("energy_j", "energy", "J", 1.0),
    ("energy_gpu_j", "GPUs only", "J", 1.0),
    ("energy_per_sample_j", "per sample", "mJ", 1e-3),
    ("mean_power_w", "power", "W", 1.0),
)
_COST = (("cost_usd", "per trial", "USD", 1.0), ("train_cost_usd", "timed epochs", "USD", 1.0))


def spending(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List energy by scope, as unlike scopes are not comparable, and cost with its basis.

    Return None if no energy was measured and nothing has a price.
    """
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    energies = _groups(
        summary, [metric for metric, *_ in _ENERGY], lambda t: t.telemetry.energy_scope
    )
    costs = _groups(summary, [metric for metric, *_ in _COST], lambda t: t.cost_basis)
    if not energies and not costs:
        return None
    arm: Column[_Group] = Column("arm", lambda group: name(group[1][0].arm))
    trials: Column[_Group] = Column("trials", lambda group: len(group[1]))
    scope: Column[_Group] = Column("energy of", lambda group: group[0])
    basis: Column[_Group] = Column("price", lambda group: group[0])
    tables = []
    if energies:
        tables.append(make_table([arm, scope, trials, *_columns(_ENERGY)], energies))
    if costs:
        tables.append(make_table([arm, trials, *_columns(_COST), basis], costs))
    notes = paragraphs(
        "sections/energy_and_cost.j2",
        has_energy=bool(energies),
        has_cost=bool(costs),
        is_shared=any("cost_usd" in t.metrics and t.arm.measure == "timing" for t in complete),
        absent=[reason for trial in complete if (reason := trial.telemetry.energy_absent)],
    )
    return Section("Energy and cost", tables=tuple(tables), paragraphs=notes)


def _columns(metrics: tuple[tuple[str, str, str, float], ...]) -> list[Column[_Group]]:
    return [
        Column(title, partial(_spread, metric, per), unit, quartiles, optional=True)
        for metric, title, unit, per in metrics
    ]


def _spread(metric: str, per: float, group: _Group) -> Spread | None:
    return spread([t.metrics[metric] / per for t in group[1] if metric in t.metrics])


def _groups(
    summary: ReportSummary, metrics: list[str], qualifier: Callable[[FinishedTrial], str | None]
) -> list[_Group]:
    """Group the complete trials that have one of the metrics, by arm and qualifier."""

    def label(trial: FinishedTrial) -> str:
        return qualifier(trial) or ABSENT

    own: dict[Arm, list[FinishedTrial]] = {arm.arm: [] for arm in summary.arms}
    for trial in summary.trials:
        if trial.status == "complete" and not trial.metrics.keys().isdisjoint(metrics):
            own[trial.arm].append(trial)
    return [
        (key, list(group))
        for trials in own.values()
        for key, group in groupby(sorted(trials, key=label), key=label)
    ]
