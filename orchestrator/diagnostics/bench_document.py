"""What `rnnsweep bench` prints: the fastest implementation, one table, and what is doubtful."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.contrasts.contrast import (
    Contrast,
    Qualifier,
    Question,
    Verdict,
)
from orchestrator.analysis.pairing.complete_rounds import typical_disturbance
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import number, ratio, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.text import counted
from orchestrator.diagnostics.bench_schedule import Schedule
from orchestrator.report.best.program import implementation_program
from orchestrator.report.document import Column, Document, Fact, Section, Tone, make_table
from orchestrator.report.leading import leading_fact
from orchestrator.report.names import kernel_text
from orchestrator.report.words import (
    QUALIFIERS,
    TIME_WORDS,
    busy_text,
    verdict_label,
)
from workloads.registry import has_random_data

_STEPS = {"step_ms": "step", "predict_ms": "prediction"}
"""What a bench times, by its metric."""


def as_document(summary: ReportSummary, ended: Schedule | None = None) -> Document:
    """Return which implementation is fastest, a row for each, and what is doubtful.

    With the schedule of a bench that has `ended` it also has what the rounds took, and the option
    that gives a verdict or a narrower interval.
    """
    effort = [Fact("timed", str(ended))] if ended is not None else []
    section = Section(
        "",
        facts=(*_fastest(summary), *_precision(summary), *effort),
        tables=(make_table(_columns(summary), summary.arms),),
        doubts=tuple(_doubts(summary, ended)),
        notes=tuple(_mathematics_note(summary)),
    )
    return Document(f"{summary.sweep.workload} on {summary.arms[0].arm.hardware}", (section,))


def program_of_fastest(summary: ReportSummary) -> str:
    """Return a Python module that puts the fastest implementation to use.

    It is empty if that is open, and for an implementation of the user's own.
    """
    contrasts = _contrasts_of_leader(summary)
    if not contrasts or not all(contrast.is_decided for contrast in contrasts):
        return ""
    (fastest,) = (row.arm for row in summary.arms if str(row.arm) == contrasts[0].subject)
    return implementation_program(fastest, summary.trials)


def _fastest(summary: ReportSummary) -> Iterator[Fact]:
    """Yield the fact about the fastest implementation, if any was timed."""
    timed = [row for row in summary.arms if _time_ms(row) is not None]
    if len(timed) == 1:
        (row,), metric = timed, _metric(summary)
        text = f"one implementation, {row.arm.implementation}: {number(row.means[metric])} ms"
        yield Fact("fastest", f"{text} per {_STEPS[metric]}")
    if contrasts := _contrasts_of_leader(summary):
        names = {str(row.arm): row.arm.implementation for row in summary.arms}
        bases = summary.baseline.of.values() if summary.baseline else ()
        yield leading_fact("fastest", contrasts, names, preferred=next(map(str, bases), ""))


def _contrasts_of_leader(summary: ReportSummary) -> list[Contrast]:
    """Return the fastest implementation compared with each other one, the nearest one first."""
    leader = summary.leader(summary.time_metric) if summary.time_metric else None
    return leader.comparisons(summary.contrasts) if leader else []


def _precision(summary: ReportSummary) -> Iterator[Fact]:
    """Return `ratios within ± 2.1 %`, or `± 2.1 to 4 %`; nothing without an interval."""
    widths = sorted(
        math.sqrt(estimate.high / estimate.low) - 1
        for contrast in _against_baseline(summary)
        if _has_interval(estimate := contrast.estimate)
    )
    if widths:
        texts = dict.fromkeys(f"{100 * width:.2g}" for width in (widths[0], widths[-1]))
        yield Fact("precision", f"ratios within ± {' to '.join(texts)} %")


def _has_interval(estimate: Estimate) -> bool:
    return estimate.low > 0 and estimate.high < math.inf


def _against_baseline(summary: ReportSummary) -> list[Contrast]:
    """Return the speed-ups of the arms over the first implementation."""
    return [
        contrast
        for contrast in summary.contrasts
        if contrast.question == Question.BASELINE and contrast.metric == summary.time_metric
    ]


def _metric(summary: ReportSummary) -> str:
    """Return the metric that the bench times."""
    means = [row.means for row in summary.arms]
    return next((metric for metric in _STEPS if any(metric in of for of in means)), "step_ms")


def _time_ms(row: ArmSummary) -> float | None:
    return next((row.means[metric] for metric in _STEPS if metric in row.means), None)


def _columns(summary: ReportSummary) -> Sequence[Column[ArmSummary]]:
    by_arm = {contrast.subject: contrast for contrast in _against_baseline(summary)}
    bases = summary.baseline.of.values() if summary.baseline and by_arm else ()
    has_surprise = any(kernel.asked != kernel.ran for row in summary.arms for kernel in row.kernels)
    failed = {excluded.arm: excluded.status for excluded in summary.excluded}

    def speedup(row: ArmSummary) -> str | None:
        contrast = by_arm.get(str(row.arm))
        if row.arm in bases:
            return "baseline"
        return ratio(contrast.estimate) if contrast else None

    def verdict(row: ArmSummary) -> str | None:
        if contrast := by_arm.get(str(row.arm)):
            return verdict_label(contrast)
        return failed[row.arm].replace("_", " ") if row.arm in failed and not row.used else None

    def kernel(row: ArmSummary) -> str | None:
        return kernel_text(row.kernels[0].asked, row.kernels[0].ran) if row.kernels else None

    return (
        Column("implementation", lambda row: row.arm.implementation),
        Column(f"ms/{_STEPS[_metric(summary)]}", _time_ms, numeric=True),
        Column(f"speed-up ({share(CONFIDENCE)} CI)", speedup, numeric=True, optional=True),
        Column("verdict", verdict, optional=True),
        Column("compile (s)", lambda row: row.means.get("compile_s"), numeric=True, optional=True),
        Column("kernel", lambda row: kernel(row) if has_surprise else None, optional=True),
    )


def _doubts(summary: ReportSummary, ended: Schedule | None) -> Iterator[Fact]:
    """Yield what failed, computes something else, was disturbed, or gives no verdict."""
    for excluded in summary.excluded:
        reason = f"{excluded.reason}: {excluded.message}" if excluded.message else excluded.reason
        label = excluded.status.replace("_", " ")
        yield Fact(label, f"{excluded.arm.implementation}: {reason}", Tone.BAD)
    yield from _other_mathematics(summary)
    yield from _busy(summary)
    if ended is not None:
        yield from _undecided(summary, ended)
    if len(summary.arms) == 1:
        text = "name a second implementation, or save the times for rnnsweep compare: --export-json"
        yield Fact("no ratio", text)
    if has_random_data(summary.sweep.workload):
        yield Fact("random data", "only times count; for losses and metrics: --data MODULE:LOAD")


def _other_mathematics(summary: ReportSummary) -> Iterator[Fact]:
    """Yield how far outputs and gradients are from the reference's, and what rounding explains."""
    for row in summary.arms:
        mathematics = row.mathematics
        if mathematics is None or not mathematics.is_different:
            continue
        outputs, allowed = mathematics.max_output_share, mathematics.output_tolerance
        text = (
            f"{row.arm.implementation}, compared with {mathematics.reference.implementation}:"
            f" outputs differ by {share(outputs)} (rounding: {share(allowed)})"
        )
        if mathematics.max_gradient_difference is not None:
            gradients, allowed = mathematics.max_gradient_difference, mathematics.gradient_tolerance
            text += f", gradients by {share(gradients)} (rounding: {share(allowed)})"
        yield Fact(QUALIFIERS[Qualifier.OTHER_MATHEMATICS], text, Tone.BAD)


def _busy(summary: ReportSummary) -> Iterator[Fact]:
    """Yield how many rounds were disturbed, by what, and how many rounds the ratios are over."""
    disturbed = defaultdict[int, list[Disturbance]](list)
    for trial in summary.trials:
        if trial.disturbance:
            disturbed[trial.block].append(trial.disturbance)
    if not disturbed:
        return
    cause = busy_text(typical_disturbance(map(typical_disturbance, disturbed.values())))
    text = f"{len(disturbed)} of {counted(summary.sweep.blocks, 'round')}: {cause}"
    values = summary.values_of(summary.time_metric) if summary.time_metric else None
    if values is not None:
        text += f"; ratios are means over {counted(len(values.blocks), 'round')}"
    label = QUALIFIERS[Qualifier.BUSY]
    yield Fact(label, f"{text}. To wait for a quiet machine: --wait-quiet 30m", Tone.DOUBT)


def _undecided(summary: ReportSummary, ended: Schedule) -> Iterator[Fact]:
    """Yield the option that gives a verdict, or a narrower interval."""
    qualifiers = {
        contrast.qualifier for contrast in _against_baseline(summary) if not contrast.is_decided
    }
    if Qualifier.FEW in qualifiers:
        rounds = f"{len(ended.turns)} of the {MIN_BLOCKS} rounds that a verdict needs"
        yield Fact("few rounds", f"{rounds}: {ended.longer()}", Tone.DOUBT)
    elif qualifiers - {Qualifier.OTHER_MATHEMATICS}:
        label = TIME_WORDS[Verdict.OPEN]
        yield Fact(label, f"for a narrower interval: {ended.longer()}", Tone.DOUBT)


def _mathematics_note(summary: ReportSummary) -> Iterator[str]:
    """Yield how far the outputs of the implementations are apart, if all compute the same."""
    compared = [row.mathematics for row in summary.arms if row.mathematics]
    if compared and not any(mathematics.is_different for mathematics in compared):
        largest = max(mathematics.max_output_share for mathematics in compared)
        apart = share(float(f"{largest:.2g}"))
        yield f"Equal mathematics: outputs agree to {apart}."
