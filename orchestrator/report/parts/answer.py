"""*answer*: what to use and how sure that is, a row for each arm, and what is doubtful."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.contrasts.answers import WHOLE_TRAINING
from orchestrator.analysis.contrasts.contrast import Contrast, Question, Unit, Verdict
from orchestrator.analysis.contrasts.questions import Leader
from orchestrator.analysis.measures import TIMES, value_of
from orchestrator.analysis.statistics.formatting import (
    difference_value,
    number,
    plain,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arm_factors import FACTORS
from orchestrator.core.arms import Arm
from orchestrator.core.selectors import known_implementation
from orchestrator.core.text import counted
from orchestrator.report.document import (
    PARTS,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    make_table,
)
from orchestrator.report.leading import in_order_of_interest, leading_fact
from orchestrator.report.names import ArmNames, about, arm_names, config_phrase, result_name
from orchestrator.report.parts.doubts import doubts, report_command
from orchestrator.report.words import QUALIFIERS, WORDS, effect_text, range_text, verdict_label
from workloads.metrics import find_metric

_MOST_ROWS = 8
"""The most rows of the short report's table."""

_MOST_DOUBTS = 2
"""The most doubts of an answer; *trust* has all of them."""

_MOST_HARDWARE = 3
"""The most hardware classes with a fact of their own."""

_PER = {
    "step_ms": "step",
    "predict_ms": "prediction",
    "sample_us": "sample",
    "predict_sample_us": "sample",
}
"""What a time is of, by its metric; other times are of a whole training."""

_OPEN = WORDS[Verdict.OPEN]


def answer_part(summary: ReportSummary, name: ArmNames) -> Section:
    """Return the facts that answer the sweep's question, all its arms, and the first doubts."""
    has_figures = any(row.measures for row in summary.arms)
    return Section(
        PARTS["answer"],
        facts=tuple(_facts(summary, name)),
        tables=(arms_table(summary, name),) if has_figures else (),
        doubts=doubts(summary, name)[:_MOST_DOUBTS],
        notes=tuple(_use_note(summary)),
        part="answer",
    )


def short_report(summary: ReportSummary, *, rest: str | None = None) -> Document:
    """Return the answer alone, with the first rows of its table.

    The last note counts what is hidden, and has the commands for more, or else the `rest`.
    """
    name = arm_names(summary)
    section = answer_part(summary, name)
    arms = sum(max(0, len(table.rows) - _MOST_ROWS) for table in section.tables)
    hidden = {"arm": arms, "doubt": len(doubts(summary, name)) - len(section.doubts)}
    counts = [counted(number, f"more {noun}") for noun, number in hidden.items() if number]
    more = rest or _commands_for_more(summary, ", ".join(counts))
    shown = replace(
        section,
        tables=tuple(replace(t, rows=t.rows[:_MOST_ROWS], is_cut=True) for t in section.tables),
        notes=(*section.notes, more),
    )
    return Document(title(summary), (shown,))


def title(summary: ReportSummary) -> str:
    """Return `NAME · WORKLOAD on HARDWARE · 6 configs × 3 arms · 17 of 18 trials`.

    Arms that the last start left out, and their trials, are not counted.
    """
    sweep = summary.sweep
    arms = [row for row in summary.arms if row.planned]
    hardware = {row.arm.hardware_class for row in arms}
    where = (
        hardware.pop().in_sentence if len(hardware) == 1 else f"{len(hardware)} hardware classes"
    )
    factors = [
        counted(sweep.blocks, "config"),
        counted(len(arms), "arm"),
        *([counted(sweep.repeats, "repeat")] if sweep.repeats > 1 else []),
    ]
    ended = summary.planned_trials - sweep.trials.missing
    trials = counted(summary.planned_trials, "trial")
    trials = f"{ended} of {trials}" if sweep.trials.missing else trials
    task = f"{sweep.workload} on {where}" if arms else sweep.workload
    return " · ".join((sweep.label, task, " × ".join(factors), trials))


def _facts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield what the sweep is about first: times, unless its objectives are results that differ."""
    by_time = [*fastest_facts(summary, name), *_factor_facts(summary, name, summary.time_metric)]
    by_result = [*_result_facts(summary, name)]
    yield from in_order_of_interest(by_time, by_result, summary.sweep.objectives, summary.results)
    yield from _best_fact(summary, name)
    yield from _target_facts(summary, name)
    yield from _whole_training_fact(summary, name)


def fastest_facts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield which arm is fastest and by how much, over all hardware and then on each class."""
    metric = _time_metric(summary)
    timed = [row for row in summary.arms if metric in row.means]
    if not any(leader.metric == metric for leader in summary.leaders):
        if len(timed) == 1:
            (row,) = timed
            takes = _duration_text(metric, row.means[metric])
            yield Fact("fastest", f"only one arm, {name(row.arm)}: {takes}")
        elif timed:
            yield Fact("fastest", f"{_OPEN}: no two arms can be compared", Tone.DOUBT)
        return
    overall = summary.leader(metric)
    if overall:
        yield _leader_fact("fastest", summary, overall, name)
    if len({row.arm.hardware_class for row in summary.arms}) == 1:
        return  # arms that differ in threads or CPUs: factors have them
    single = [leader for leader in summary.leaders if leader.metric == metric and leader.hardware]
    for leader in single[:_MOST_HARDWARE] if overall not in single else ():
        yield _leader_fact("fastest", summary, leader, name)
    if len(single) > _MOST_HARDWARE:
        command = report_command(summary, "--section comparisons")
        yield Fact("more", f"{len(single) - _MOST_HARDWARE} more hardware classes: {command}")


def _leader_fact(label: str, summary: ReportSummary, leader: Leader, name: ArmNames) -> Fact:
    """Return how the leader compares with its baseline, or else with the next arm."""
    arms = {str(row.arm): row.arm for row in summary.arms}
    names = {arm: name(arms[arm]) for arm in (leader.arm, *leader.others)}
    if leader.hardware:  # which the leader's name has
        names |= {arm: arms[arm].short_name for arm in leader.others}
    base = summary.baseline.of.get(arms[leader.arm]) if summary.baseline else None
    return leading_fact(label, leader.comparisons(summary.contrasts), names, str(base))


def _factor_facts(summary: ReportSummary, name: ArmNames, metric: str | None) -> Iterator[Fact]:
    """Yield the best value of each factor by a metric; none for arms that differ in one factor."""
    for factor in FACTORS:
        values = {factor.text(row.arm) for row in summary.arms}
        contrasts = [
            contrast
            for contrast in summary.contrasts
            if contrast.question == Question.FACTOR
            and contrast.metric == metric
            and {contrast.subject, contrast.reference} <= values
        ]
        if contrasts:
            names = {value: name.hardware_name(value) for value in values}
            yield leading_fact(factor.name, contrasts, names)


def _result_facts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield which arm has the best result, or the value of a factor that decides it."""
    for metric in summary.results:
        leader, label = summary.leader(metric), result_name(metric)
        of_factors = [f for f in _factor_facts(summary, name, metric) if f.tone == Tone.GOOD]
        if of_factors:
            yield from (replace(fact, label=label) for fact in of_factors)
        elif leader:
            yield _leader_fact(label, summary, leader, name)


def _best_fact(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield the best config by the most important result, and the arm to use it on."""
    choice = summary.best
    if choice is None:
        return
    point, (chosen, *_) = choice.chosen, choice.of("chosen")
    text = f"{choice.metric} {number(point.values[choice.metric])}"
    if choice.time_metric and chosen.time is not None:
        text += f" in {_duration_text(choice.time_metric, chosen.time)}"
    is_clear = len(summary.arms) == 1 or str(point.arm) == _undoubted_leader(summary)
    on_arm = "" if is_clear else f" on {name(point.arm)}"
    yield Fact("best", f"{text}: {config_phrase(point.config)}{on_arm}")


def _undoubted_leader(summary: ReportSummary) -> str | None:
    """Return the fastest arm, unless it is open whether it is faster than any other one."""
    fastest = summary.leader(summary.time_metric or "")
    if fastest is None:
        return None
    is_decided = any(contrast.is_decided for contrast in fastest.comparisons(summary.contrasts))
    return fastest.arm if is_decided else None


def _target_facts(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield the arm that reaches each target first, by the median over its trainings."""
    different = summary.front.different_mathematics
    for target in summary.targets:
        medians = [(row.time_s.median, row) for row in target.arms if row.arm not in different]
        reached = [(median, row) for median, row in medians if median is not None]
        text = "no arm reaches it in half of its trainings"
        if reached:
            median, row = min(reached, key=lambda pair: pair[0])
            of = f"{row.time_s.reached} of {counted(row.time_s.trials, 'training')}"
            text = f"{name(row.arm)} first, after {number(median)} s (median; {of})"
        yield Fact(f"to {target.accuracy:g}", text)


def _whole_training_fact(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield which arm takes least with compiling, if that is another one than the fastest."""
    fastest = summary.leader(summary.time_metric or "")
    leader = summary.leader(WHOLE_TRAINING)
    if fastest is None or leader is None or fastest.arm not in leader.others:
        return
    rows = {str(row.arm): row for row in summary.arms}
    least, other = rows[leader.arm], rows[fastest.arm]
    contrast = summary.contrast(least.arm, other.arm, WHOLE_TRAINING)
    if contrast is None or contrast.verdict == Verdict.SAME:
        return
    least_s, other_s = (number(row.means[WHOLE_TRAINING]) for row in (least, other))
    text = f"for {_trainings_text(summary, other.arm)}, {name(least.arm)} takes the least time:"
    qualifier = f"; {QUALIFIERS[contrast.qualifier]}" if contrast.qualifier else ""
    text += f" {least_s} s with compiling ({name(other.arm)} {other_s} s{qualifier})"
    is_open = not contrast.is_decided
    yield Fact(
        "in all", f"{_OPEN}: {text}" if is_open else text, Tone.DOUBT if is_open else Tone.PLAIN
    )


def _trainings_text(summary: ReportSummary, arm: Arm) -> str:
    """Write `these 120–220 steps`, or `these trainings` if no steps were timed."""
    steps = [
        1000 * train_s / step_ms
        for trial in summary.trials
        if trial.arm == arm and trial.status == "complete"
        if (train_s := value_of(trial, "train_s")) and (step_ms := value_of(trial, "step_ms"))
    ]
    if not steps:
        return "these trainings"
    ends = dict.fromkeys(about(end) for end in (min(steps), max(steps)))
    return f"these {'–'.join(ends)} steps"


def arms_table(summary: ReportSummary, name: ArmNames) -> Table:
    """Return the table of arms, the fastest first; its most important columns come first."""
    baselines = summary.baseline.of if summary.baseline else {}
    metric = _time_metric(summary)
    references = {base for arm, base in baselines.items() if arm != base}

    def contrast(row: ArmSummary, by: str | None) -> Contrast | None:
        base = baselines.get(row.arm, row.arm)
        return summary.contrast(row.arm, base, by) if by and base != row.arm else None

    def speedup(row: ArmSummary) -> str | None:
        found = contrast(row, summary.time_metric)
        if found:
            return effect_text(found)
        return "baseline" if row.arm in references and summary.time_metric else None

    def verdict(row: ArmSummary) -> str | None:
        found = contrast(row, summary.time_metric)
        if not row.measures:
            return "no result"
        return verdict_label(found) if found else None

    def reference(row: ArmSummary) -> str | None:
        found = contrast(row, summary.time_metric)
        return _difference_of_arms(row.arm, baselines[row.arm]) if found else None

    def over_configs(row: ArmSummary) -> str | None:
        found = contrast(row, summary.time_metric)
        return range_text(found) if found else None

    def gained(result: str, row: ArmSummary) -> str | None:
        found = contrast(row, result)
        return difference_value(found.estimate) if found else None

    def mean(measured: str, per: float, row: ArmSummary) -> float | None:
        return row.means[measured] / per if measured in row.means else None

    values = summary.values_of(metric)
    unit = values.unit if values else Unit.CONFIG
    times = {metric, summary.time_metric, WHOLE_TRAINING, *summary.results}
    expenses = [
        measure
        for measure in (*summary.measures, *summary.expenses)
        if measure.metric in summary.sweep.objectives
        and measure.metric not in times
        and not find_metric(measure.metric).is_result
    ]
    columns: list[Column[ArmSummary]] = [
        Column("arm" if summary.models else "implementation", lambda row: row.arm.short_name),
        Column(
            "hardware",
            lambda row: None if name.hardware else name.hardware_name(row.arm.hardware),
            key=True,
        ),
        Column(
            f"{find_metric(metric).unit}/{_PER.get(metric, 'training')}", partial(mean, metric, 1.0)
        ),
        Column("speed-up", speedup, numeric=True),
        *([Column("over", reference)] if len(references) > 1 else []),
        Column("verdict", verdict),
        Column(
            "in all", partial(mean, WHOLE_TRAINING, 1.0), show=lambda value: f"{number(value)} s"
        ),
        *(
            Column(f"Δ {result_name(result)}", partial(gained, result), numeric=True)
            for result in summary.results
        ),
        Column(f"over {unit}s", over_configs, numeric=True),
        *(
            Column(measure.title, partial(mean, measure.metric, measure.per), show=plain)
            for measure in expenses
        ),
    ]
    columns = [replace(column, optional=True) for column in columns]
    rows = sorted(summary.arms, key=lambda row: row.means.get(metric, math.inf))
    return make_table(columns, rows)


def _difference_of_arms(arm: Arm, reference: Arm) -> str:
    """Return in what the reference differs from an arm: `lstm`, `1 thread`."""
    return ", ".join(f.text(reference) for f in FACTORS if f.key(arm) != f.key(reference))


def _time_metric(summary: ReportSummary) -> str:
    """Return the metric of speed-ups, or the first time that the only arm with one has."""
    measured = (metric for metric in TIMES if any(metric in row.means for row in summary.arms))
    return summary.time_metric or next(measured, TIMES[0])


def _duration_text(metric: str, value: float) -> str:
    """Write `6.5 ms per step`, or `0.90 s` for a metric that is not per something."""
    of = f" per {_PER[metric]}" if metric in _PER else ""
    return f"{number(value)} {find_metric(metric).unit}{of}"


def _use_note(summary: ReportSummary) -> Iterator[str]:
    """Yield the command that writes code for the best choice, if rnnsweep knows its code."""
    leader = summary.leader(_time_metric(summary))
    used = {leader.arm} if leader else set()
    used |= {str(summary.best.chosen.arm)} if summary.best else set()
    has_code = any(known_implementation(r.arm) for r in summary.arms if str(r.arm) in used)
    if has_code and not summary.sweep.start.address:
        command = summary.sweep.start.reading("best", summary.sweep.label)
        yield f"best config as code: {command} --code"


def _commands_for_more(summary: ReportSummary, hidden: str) -> str:
    """Write the commands that have the rest of a report, and what is hidden of the answer."""
    whole = report_command(summary, "--full") + (f" ({hidden})" if hidden else "")
    return f"more: {whole} · -o report.html"
