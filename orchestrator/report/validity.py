"""The sections by which a reader judges a report: what was left out, and what was proven."""

from __future__ import annotations

from orchestrator.report.arms import ArmSummary, KernelCount
from orchestrator.report.document import Section, Table
from orchestrator.report.noise import noise_notes
from orchestrator.report.numbers import ABSENT
from orchestrator.report.summary import ReportSummary
from orchestrator.report.wording import ArmNames


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
    return Section("Validity", tables=(table,), paragraphs=(*noise_notes(summary), *notes))


def _kernels(arm: ArmSummary) -> str:
    told = [_kernel(kernel) for kernel in arm.kernels]
    if arm.unproven:
        told.append(f"not proven: {arm.unproven}")
    return "; ".join(told) or ABSENT


def _kernel(kernel: KernelCount) -> str:
    asked = "" if kernel.asked == kernel.ran else f", asked {kernel.asked}"
    return f"{kernel.ran}{asked}: {kernel.trials} ({kernel.evidence or 'no evidence'})"
