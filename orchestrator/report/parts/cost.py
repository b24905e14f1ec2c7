"""The part on cost: what each arm measured, where its time went, and what that costs."""

from collections.abc import Iterator, Sequence
from functools import partial

from orchestrator.analysis.arms.arm_summary import PHASES, ArmSummary, PhaseSplit
from orchestrator.analysis.contrasts.answers import EXPENSES_COMPARED, WHOLE_TRAINING
from orchestrator.analysis.contrasts.break_even import BreakEven
from orchestrator.analysis.contrasts.contrast import Contrast, Question, Verdict
from orchestrator.analysis.measures import Measure
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, number, plain, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted, joined
from orchestrator.report.document import PARTS, Column, Fact, Section, Table, make_table
from orchestrator.report.names import ArmNames, step_noun
from orchestrator.report.parts.contrast_tables import (
    baseline_name,
    chosen,
    metric_title,
    shown_names,
)
from orchestrator.report.words import WORDS, verdict_label
from workloads.metrics import WITH_ENERGY_SCOPE

SIDE_BY_SIDE = 4
"""Up to this many arms are the columns of the table of measures; more are its rows."""

_COMPARED = (WHOLE_TRAINING, *EXPENSES_COMPARED)
"""What arms take, and are compared by."""

_NEVER = "never"
"""The text of a compilation that saves no time per step."""


def cost_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the measures of each arm, compare its expenses, and split its time by phase."""
    measures = (*summary.measures, *summary.expenses)
    tables = [_measures(summary, measures, name)] if any(r.means for r in summary.arms) else []
    tables += _expenses(summary, name)
    if summary.break_evens:
        tables.append(_break_evens(summary, name))
    if summary.phases:
        tables.append(_phases(summary, name))
    if not tables:
        return None
    return Section(
        PARTS["cost"],
        tables=tuple(tables),
        doubts=tuple(_doubts(summary, name)),
        notes=tuple(_notes(summary, measures, name)),
        part="cost",
    )


def _measures(summary: ReportSummary, measures: Sequence[Measure], name: ArmNames) -> Table:
    """Make the table of means; its columns are the arms if they are few."""
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("trials", lambda row: row.used),
        *(Column(measure.title, partial(_mean, measure), numeric=True) for measure in measures),
    ]
    table = make_table(columns, summary.arms)
    if len(summary.arms) > SIDE_BY_SIDE:
        return table
    (_, *arms), *rows = zip(table.headers, *table.rows, strict=True)
    return Table(("measure", *arms), tuple(rows), frozenset(range(1, len(summary.arms) + 1)))


def _mean(measure: Measure, row: ArmSummary) -> str | None:
    """Write the mean, with the devices that an energy is of."""
    mean = row.means.get(measure.metric)
    if mean is None:
        return None
    text = plain(mean / measure.per)
    return f"{text} {row.energy_scope}".strip() if measure.metric in WITH_ENERGY_SCOPE else text


def _expenses(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    """Yield how each arm compares with its baseline by what it takes: a column for each metric."""
    by_metric = {
        metric: {contrast.subject: contrast for contrast in contrasts}
        for metric in _COMPARED
        if (contrasts := chosen(summary, metric, Question.BASELINE))
    }
    columns: list[Column[str]] = [Column("compared with baseline", shown_names(summary, name))]
    columns += [
        Column(metric_title(metric), of_metric.get, show=_effect_and_verdict, numeric=True)
        for metric, of_metric in by_metric.items()
    ]
    if by_metric:
        yield make_table(columns, dict.fromkeys(arm for each in by_metric.values() for arm in each))


def _effect_and_verdict(contrast: Contrast) -> str:
    return f"{ratio(contrast.estimate)} {verdict_label(contrast)}"


def _break_evens(summary: ReportSummary, name: ArmNames) -> Table:
    noun = step_noun(summary)

    def seconds(estimate: Estimate) -> str:
        return difference(estimate)

    columns: list[Column[BreakEven]] = [
        Column("compiles longer", lambda point: name(point.arm)),
        Column("compared with", lambda point: name(point.baseline), key=True),
        Column("by (s)", lambda point: point.extra_compile_s, show=seconds),
        Column(f"saves (ms/{noun})", lambda point: point.saved_step_ms, show=seconds),
        Column(f"pays off after ({noun}s)", _pays_off, numeric=True),
        Column("configs", lambda point: point.blocks),
    ]
    return make_table(columns, summary.break_evens)


def _pays_off(point: BreakEven) -> str:
    """Write the steps with their interval; `never` if no step is saved, `open` if undecided."""
    steps = point.steps
    if steps is not None:
        return f"{number(steps.value)} ({number(steps.low)}–{number(steps.high)})"
    is_never = point.extra_compile_s.low > 0 and point.saved_step_ms.high < 0
    return _NEVER if is_never else WORDS[Verdict.OPEN]


def _phases(summary: ReportSummary, name: ArmNames) -> Table:
    columns: list[Column[PhaseSplit]] = [
        Column("seconds per trial", lambda split: name(split.arm)),
        Column("trials", lambda split: split.trials),
        *(Column(p.removesuffix("_s"), partial(_seconds, p), optional=True) for p in PHASES),
    ]
    return make_table(columns, summary.phases)


def _seconds(phase: str, split: PhaseSplit) -> float | None:
    return split.seconds.get(phase)


def _notes(summary: ReportSummary, measures: Sequence[Measure], name: ArmNames) -> Iterator[str]:
    yield (
        "Measures: means over the compared configs (geometric; arithmetic for results). Peak "
        "memory is from fresh trainers; load and compile are from warm ones, if there are any."
    )
    if any(chosen(summary, metric, Question.BASELINE) for metric in _COMPARED):
        base = baseline_name(summary, name)
        yield f"Compared with baseline: the value of the baseline ({base}) divided by the arm's."
    if any(measure.metric in WITH_ENERGY_SCOPE for measure in measures):
        yield (
            "Energy covers the timed epochs: gpu is the GPUs; cpu_package is all CPUs of the node, "
            "including other processes."
        )
    if summary.break_evens:
        yield "Break-even: ratio of means with Fieller's interval, corrected for all rows."
    if summary.phases:
        yield "Seconds per trial: means over all complete trials, without waiting for turns."
    complete = (trial for trial in summary.trials if trial.status == "complete")
    prices = dict.fromkeys(trial.cost_basis for trial in complete if trial.cost_basis)
    if prices:
        yield f"Prices: {'; '.join(prices)}."


def _doubts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    rows = summary.arms
    unmatched = [name(row.arm) for row in rows if row.means and not row.matched]
    if unmatched:
        yield Fact("not matched", f"means over all complete trials of the arm: {joined(unmatched)}")
    unlike_work = [name(row.arm) for row in rows if row.arm.work]
    if unlike_work:
        yield Fact("unlike work", f"only times per step are comparable: {joined(unlike_work)}")
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    absent = [reason for trial in complete if (reason := trial.telemetry.energy_absent)]
    if absent:
        yield Fact("no energy", f"{counted(len(absent), 'trial')}, the first: {absent[0]}")
