"""The section on the objectives of the sweep: the Pareto-best configs, or the best one."""

import shlex
from collections.abc import Iterator
from functools import partial

from orchestrator.analysis.arms.best_configs import Front, ParetoPoint
from orchestrator.analysis.arms.choice import ArmChoice, ArmOnConfig
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import joined
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.verdicts import DIFFERENT_MATHEMATICS
from orchestrator.report.wording import ArmNames, config_phrase, energy_kinds
from workloads.metrics import WITH_ENERGY_SCOPE

_MOST_ROWS = 20
"""The most points of the front that are printed."""


def front_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the Pareto-best configs, or the best one if there is one objective."""
    best = summary.front
    if not best.points:
        return None
    if summary.best_by_objective:
        return _best_config(best, summary.best_by_objective, name)
    columns: list[Column[ParetoPoint]] = [
        Column("arm", lambda point: name(point.arm)),
        Column("config no.", lambda point: point.block),
        *(Column(metric, partial(_objective, metric)) for metric in best.objectives),
    ]
    if len(energy_kinds(summary)) > 1:
        columns.append(Column("energy of", lambda point: point.scope, numeric=True))
    columns.append(Column("trials", lambda point: point.repeats))
    columns.append(Column("config", lambda point: config_phrase(point.config)))
    return Section(
        "Best config" if len(best.objectives) == 1 else "Pareto-best configs",
        tables=(make_table(columns, best.points[:_MOST_ROWS]),),
        paragraphs=tuple(_notes(summary, name)),
        explanations=(_explanation(best),),
    )


def _best_config(front: Front, best: ArmChoice, name: ArmNames) -> Section:
    """List what every arm has on the best config by the only objective."""
    columns: list[Column[ArmOnConfig]] = [
        Column("arm", lambda row: name(row.arm)),
        Column(best.metric, lambda row: row.value, numeric=True),
        Column(best.time_metric or "time", lambda row: row.time, numeric=True, optional=True),
        Column("choice", lambda row: row.candidacy),
        Column("reason", lambda row: row.reason, optional=True),
    ]
    config = f"Config {best.chosen.block}: {config_phrase(best.chosen.config)}."
    return Section(
        "Best config",
        tables=(make_table(columns, best.arms),),
        paragraphs=(config, *_excluded(front)),
        explanations=(_explanation(front),),
    )


def _excluded(front: Front) -> Iterator[str]:
    if front.left_out:
        yield f"{front.left_out} excluded: a repeat failed, or an objective is missing."


def _explanation(front: Front) -> str:
    return (
        f"Of {front.tried} configs × arms, picked after the fact: not a comparison of arms. The "
        "best of several noisy values is likely a little optimistic."
    )


def _objective(metric: str, point: ParetoPoint) -> float:
    return point.values[metric]


def _notes(summary: ReportSummary, name: ArmNames) -> Iterator[str]:
    """Write which configs are not comparable, excluded, or not printed."""
    best, kinds, label = summary.front, energy_kinds(summary), shlex.quote(summary.sweep.label)
    if len(kinds) > 1:
        scoped = joined([metric for metric in best.objectives if metric in WITH_ENERGY_SCOPE])
        yield (
            f"{scoped} is measured in different ways here ({joined(kinds)}), which are not "
            "comparable: each config competes only with configs of its own kind."
        )
    yield from _excluded(best)
    if best.apart:
        apart = ", ".join(name(arm) for arm in best.apart)
        yield (f"Not ranked, because they did another amount of work or were timed only: {apart}.")
    if best.different_mathematics:
        different = ", ".join(name(arm) for arm in best.different_mathematics)
        yield f"Not ranked, because of {DIFFERENT_MATHEMATICS}: {different}."
    more = len(best.points) - _MOST_ROWS
    if more > 0:
        yield f"{more} more: rnnsweep best {label}, or rnnsweep query {label}."
