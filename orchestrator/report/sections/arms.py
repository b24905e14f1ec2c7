"""The section on the measures of each arm: times, memory, energy and cost."""

from collections.abc import Iterator, Sequence
from functools import partial

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.measures import Measure
from orchestrator.analysis.statistics.estimates import scaled
from orchestrator.analysis.statistics.formatting import ABSENT, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording import ArmNames
from workloads.metrics import FRESH_ONLY, WITH_ENERGY_SCOPE

SIDE_BY_SIDE = 4
"""Up to this many arms are the columns of the table of measures; more are its rows."""


def arms_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm: the mean over blocks, and the quartiles of its trials."""
    if not any(arm.measures for arm in summary.arms):
        return None
    measures = (*summary.measures, *summary.expenses)
    return Section(
        "Arms",
        tables=(_table(summary, measures, name),),
        paragraphs=tuple(_notes(summary, measures, name)),
        explanations=tuple(_explanations(summary, measures)),
    )


def _table(summary: ReportSummary, measures: Sequence[Measure], name: ArmNames) -> Table:
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda arm: name(arm.arm)),
        Column("trials", lambda arm: arm.used),
        *(Column(m.title, partial(_figure, m), numeric=True) for m in measures),
    ]
    table = make_table(columns, summary.arms)
    if len(summary.arms) > SIDE_BY_SIDE:
        return table
    (_, *arm_names), *cells = zip(table.headers, *table.rows, strict=True)
    figures = frozenset(range(1, len(summary.arms) + 1))
    return Table(("measure", *arm_names), tuple(cells), figures)


def _figure(measure: Measure, arm: ArmSummary) -> str:
    """Write mean and quartiles, the scope of an energy, and how many trials if that differs."""
    figure, mean = arm.measures.get(measure.metric), arm.means.get(measure.metric)
    if figure is None or mean is None:
        return ABSENT
    has_scope = measure.metric in WITH_ENERGY_SCOPE and arm.energy_scope
    scope = f" {arm.energy_scope}" if has_scope else ""
    trials = f" n={figure.n}" if figure.n != arm.used else ""
    return quartiles(scaled(figure, measure.per), mean.value / measure.per) + scope + trials


def _energy_scopes(summary: ReportSummary, measures: Sequence[Measure]) -> set[str]:
    """Return the scopes of the energies that are listed."""
    if not any(measure.metric in WITH_ENERGY_SCOPE for measure in measures):
        return set()
    return {arm.energy_scope for arm in summary.arms if arm.energy_scope}


def _costs(summary: ReportSummary) -> list[str]:
    """Return the prices of the complete trials, with their sources."""
    complete = (trial for trial in summary.trials if trial.status == "complete")
    return list(dict.fromkeys(trial.cost_basis for trial in complete if trial.cost_basis))


def _notes(summary: ReportSummary, measures: Sequence[Measure], name: ArmNames) -> Iterator[str]:
    """Write what the figures are, which are not comparable, or missing, and the prices."""
    yield (
        "Mean over the compared configs (geometric; of results, arithmetic), with the quartiles of "
        "the complete trials of the rounds that are complete on every arm."
    )
    rows = summary.arms
    unmatched = [name(row.arm) for row in rows if row.measures and not row.matched]
    if unmatched:
        yield unmatched_note(unmatched)
    other_work = [name(row.arm) for row in rows if row.arm.work]
    if other_work:
        yield (
            "Measured with another amount of work, as in their names: compare only their times per "
            f"step and per sample with other arms: {', '.join(other_work)}."
        )
    if len(_energy_scopes(summary, measures)) > 1:
        yield "Energies are of different kinds, as labelled: compare only energies of one kind."
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    absent = [reason for trial in complete if (reason := trial.telemetry.energy_absent)]
    if absent:
        trials = counted(len(absent), "trial")
        yield f"Without energy: {trials}. Reason of the first: {absent[0]}."
    costs = _costs(summary)
    if costs:
        yield f"Prices: {'; '.join(costs)}."


def unmatched_note(names: Sequence[str]) -> str:
    """Write which arms have figures over trials that are not matched with other arms' trials."""
    return f"Not matched, over all complete trials of the arm: {', '.join(names)}."


def _explanations(summary: ReportSummary, measures: Sequence[Measure]) -> Iterator[str]:
    """Explain the spread of the figures, and over which trials some of them are."""
    yield (
        "n is given if it differs from the number of trials. The spread comes from the configs as "
        "well as from noise."
    )
    if any(measure.trainer != "any" for measure in measures):
        yield (
            "Load and compile times exclude the first trial of each trainer process; peak memory "
            "counts only that first trial. – means that there is no comparable trial."
        )
    elif any(measure.metric in FRESH_ONLY for measure in measures):
        yield (
            "Every trial had a fresh trainer process: peak memory is comparable, and load and "
            "compile times include the start of the process."
        )
    if _energy_scopes(summary, measures):
        yield (
            "Energy is of the timed epochs only. gpu is the energy of the GPUs, and cpu_package "
            "the energy of all CPUs of the node, including other work on it."
        )
    if _costs(summary):
        yield (
            "The cost of a trial covers all of its phases, including the start of its trainer if "
            "it was the trainer's first trial. To compare arms, use the cost of the timed epochs. "
            "Trials that took turns share the cost of their turns equally."
        )
