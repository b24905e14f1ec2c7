"""What stands in a report, in which order: a summary becomes a document."""

from __future__ import annotations

from orchestrator.report.arms import ArmSummary, KernelCount
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.numbers import ABSENT, number, quartiles, ratio
from orchestrator.report.summary import ReportSummary
from orchestrator.report.wording import (
    ArmNames,
    accuracy_text,
    best_sentence,
    comparison_notes,
    ranges_text,
    scope_notes,
    verdict_sentence,
)

FRONT_ROWS = 20
"""How many points of the front are printed; the JSON format has them all."""


def document(summary: ReportSummary) -> Document:
    """The report as a document: verdicts first, then what they rest on."""
    name = ArmNames(summary)
    sections = (
        verdicts(summary, name),
        sweep(summary, name),
        speed(summary, name),
        arms(summary, name),
        front(summary, name),
        left_out(summary, name),
        validity(summary, name),
    )
    title = f"Sweep {summary.sweep.label}: {summary.sweep.workload}"
    return Document(title, tuple(section for section in sections if section is not None))


def verdicts(summary: ReportSummary, name: ArmNames) -> Section:
    """One sentence a comparison, then the best config."""
    bullets: list[tuple[str, str]] = [
        (c.verdict, verdict_sentence(c, name)) for c in summary.comparisons
    ]
    if not summary.trials:
        bullets = [("no trials", "no trial has ended yet: there is nothing to tell")]
    elif not summary.comparisons:
        bullets = [("one arm", "there is no second arm to compare with")]
    best = best_sentence(summary, name)
    bullets += [("best", best)] if best else []
    return Section("Verdict", tuple(bullets), paragraphs=tuple(scope_notes(summary)))


def sweep(summary: ReportSummary, name: ArmNames) -> Section:
    """How far the sweep has come."""
    head, trials = summary.sweep, summary.sweep.trials
    rows = [
        ("state", head.state),
        ("trials", f"{trials.complete} complete of {trials.expected} expected; {trials.failed} "
         f"failed, {trials.wrong_kernel} wrong kernel, {trials.disturbed} disturbed, "
         f"{trials.missing} missing"),
        ("blocks", f"{head.blocks} × {head.repeats} repeat(s); {len(summary.complete_blocks)} "
         "complete on every arm"),
        ("hardware", name.hardware or "several: named with each arm"),
        ("objectives", ", ".join(f"{m} ({d})" for m, d in head.objectives.items()) or ABSENT),
        ("configs tried", ranges_text(summary.configs) or ABSENT),
        ("MLflow run", head.run_id),
    ]  # fmt: skip
    return Section("Sweep", tables=(Table(("sweep", head.label), tuple(rows)),))


def speed(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Every arm over its baseline."""
    if not summary.comparisons or summary.baseline is None:
        return None
    headers = ("arm", "speed-up (95 %)", "blocks", "verdict", "Δ val_accuracy (95 %)")
    rows = tuple(
        (name(c.arm), ratio(c.speedup), str(len(c.pairs)), c.verdict, accuracy_text(c))
        for c in summary.comparisons
    )
    notes = comparison_notes(summary, name)
    if any(c.accuracy_difference for c in summary.comparisons):
        notes.append(
            "Δ val_accuracy is the arm's minus the baseline's, averaged over blocks with a "
            "95 % t interval; an interval that includes 0 does not show that they are equal."
        )
    over = summary.baseline
    each = " on the same hardware" if over.scope == "same hardware" else ""
    named = next((name(a) for a in over.of.values() if str(a) == over.name), over.name)
    table = Table(headers, rows, frozenset({1, 2, 4}))
    return Section(f"Speed-up over {named}{each}", tables=(table,), paragraphs=tuple(notes))


def arms(summary: ReportSummary, name: ArmNames) -> Section | None:
    """The measures of each arm: median and quartiles."""
    if not any(arm.measures for arm in summary.arms):
        return None
    headers = ("arm", "trials", *(measure.title for measure in summary.measures))
    rows = tuple(
        (name(arm.arm), str(arm.used), *_measure_cells(arm, summary)) for arm in summary.arms
    )
    table = Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)
    notes = [
        "Median (quartiles) over the complete trials of the rounds that are complete on every arm; "
        "n where it is another number of trials. Their spread is the configs' as well as noise."
    ]
    if own := [name(arm.arm) for arm in summary.arms if arm.measures and not arm.matched]:
        notes.append(f"Over all their own complete trials, not matched: {', '.join(own)}.")
    if any(measure.trainer != "any" for measure in summary.measures):
        notes.append(
            "Load and compile times leave out each trainer process's first trial; peak memory "
            "counts only that first one. – is: no comparable trial."
        )
    return Section("Arms", tables=(table,), paragraphs=tuple(notes))


def front(summary: ReportSummary, name: ArmNames) -> Section | None:
    """The configs that nothing beats."""
    found = summary.front
    if not found.points:
        return None
    headers = ("arm", "block", *found.objectives, "trials", "config")
    rows = tuple(
        (
            name(point.arm),
            str(point.block),
            *(number(point.values[metric]) for metric in found.objectives),
            str(point.repeats),
            ", ".join(f"{key} {_value(point.config[key])}" for key in sorted(point.config)),
        )
        for point in found.points[:FRONT_ROWS]
    )
    notes = [
        f"Of {found.tried} (config × arm); picked after the fact, so no comparison of arms and, "
        "being the best of several noisy values, likely a little optimistic."
    ]
    if found.left_out:
        notes.append(f"{found.left_out} left out: a repeat failed, or an objective is missing.")
    if len(found.points) > FRONT_ROWS:
        notes.append(f"{len(found.points) - FRONT_ROWS} more are in the JSON format.")
    title = "Best config" if len(found.objectives) == 1 else "Pareto-best configs"
    numeric = frozenset(range(1, len(headers) - 1))
    return Section(title, tables=(Table(headers, rows, numeric),), paragraphs=tuple(notes))


def left_out(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Trials that enter no comparison, and arms that cannot run."""
    tables = []
    if summary.left_out:
        rows = tuple(
            (name(row.arm), row.reason.replace("_", " "), str(row.trials), row.message, row.run_id)
            for row in summary.left_out
        )
        headers = ("arm", "why", "trials", "first message", "first run")
        tables.append(Table(headers, rows, frozenset({2})))
    if summary.impossible:
        impossible = tuple((name(i.arm), i.reason) for i in summary.impossible)
        tables.append(Table(("arm that cannot run", "reason"), impossible))
    return Section("Left out", tables=tuple(tables)) if tables else None


def validity(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Kernels proven, trials by outcome, versions."""
    if not summary.trials:
        return None
    headers = ("arm", "complete", "failed", "wrong", "disturbed", "missing", "kernel that ran")
    rows = tuple(
        (
            name(arm.arm) + ("" if arm.planned else " (of an earlier start)"),
            *(str(n) for n in (arm.trials.complete, arm.trials.failed, arm.trials.wrong_kernel)),
            *(str(n) for n in (arm.trials.disturbed, arm.trials.missing)),
            _kernels(arm),
        )
        for arm in summary.arms
    )
    environment = summary.sweep.environment
    versions = ", ".join(f"{key} {environment[key]}" for key in sorted(environment))
    notes = (f"Environment: {versions}.",) if versions else ("Environment: not recorded.",)
    table = Table(headers, rows, frozenset(range(1, 6)))
    return Section("Validity", tables=(table,), paragraphs=notes)


def _measure_cells(arm: ArmSummary, summary: ReportSummary) -> list[str]:
    cells = []
    for measure in summary.measures:
        found = arm.measures.get(measure.metric)
        partial = found is not None and found.n != arm.used
        cells.append(quartiles(found) + (f" n={found.n}" if found and partial else ""))
    return cells


def _kernels(arm: ArmSummary) -> str:
    told = [_kernel(kernel) for kernel in arm.kernels]
    if arm.unproven:
        told.append(f"not proven: {arm.unproven}")
    return "; ".join(told) or ABSENT


def _kernel(kernel: KernelCount) -> str:
    asked = "" if kernel.asked == kernel.ran else f", asked {kernel.asked}"
    return f"{kernel.ran}{asked}: {kernel.trials} ({kernel.evidence or 'no evidence'})"


def _value(value: bool | int | float | str) -> str:
    return number(value) if isinstance(value, float) else str(value)
