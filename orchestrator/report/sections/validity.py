"""The sections by which a reader judges a report: what was left out, and what was proven."""

from __future__ import annotations

from orchestrator.analysis.arms.arm_summary import ArmSummary, KernelCount
from orchestrator.analysis.arms.validity import ArmProof
from orchestrator.analysis.statistics.formatting import ABSENT, count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section, Table
from orchestrator.report.sections.noise import noise_notes
from orchestrator.report.wording.sentences import ArmNames, kernel_text

_NODES = 6
"""More are counted."""


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
    """Trials by outcome, kernels proven, what disturbed them, versions, clocks."""
    if not summary.trials:
        return None
    proofs = {proof.arm: proof for proof in summary.validity.arms}
    headers = ("arm", "complete", "failed", "wrong", "disturbed", "missing", "done again")
    counts = tuple(_counts(arm, proofs[arm.arm], name) for arm in summary.arms)
    kernels = tuple(
        (name(arm.arm), _kernels(arm), _compiled(proofs[arm.arm])) for arm in summary.arms
    )
    tables = (
        Table(headers, counts, frozenset(range(1, len(headers)))),
        Table(("arm", "kernel that ran", "compiled"), kernels),
    )
    notes = (*_standing(summary), *noise_notes(summary), *_clocks(summary, name))
    return Section("Validity", tables=tables, paragraphs=(*notes, _versions(summary)))


def _counts(arm: ArmSummary, proof: ArmProof, name: ArmNames) -> tuple[str, ...]:
    trials = arm.trials
    numbers = (
        *(trials.complete, trials.failed, trials.wrong_kernel),
        *(proof.disturbed, trials.missing, proof.again),
    )
    planned = "" if arm.planned else " (of an earlier start)"
    return (name(arm.arm) + planned, *map(str, numbers))


def _compiled(proof: ArmProof) -> str:
    if proof.jit is None:
        return ABSENT
    return f"{'by XLA' if proof.jit else 'not by XLA'}, {proof.precision}"


def _standing(summary: ReportSummary) -> list[str]:
    found = summary.validity
    again = sum(proof.again for proof in found.arms)
    nodes = sorted({node for proof in found.arms for node in proof.nodes})
    notes = [
        f"Of {count(found.trials, 'trial')} that ended, {found.used} stand in the "
        f"{count(found.rounds, 'round')} that are complete on every arm, and {found.left_out} "
        "did not complete. Every number is made from runs whose ids stand in the JSON and CSV "
        "formats."
    ]
    if again:
        notes.append(f"{count(again, 'trial')} took more than one attempt; the last one counts.")
    if nodes:
        shown = joined(nodes) if len(nodes) <= _NODES else count(len(nodes), "node")
        notes.append(f"Run on {shown}.")
    return notes


def _clocks(summary: ReportSummary, name: ArmNames) -> list[str]:
    clocks = [
        f"{name(proof.arm)} {quartiles(proof.noise['sm_clock_mhz'])}"
        for proof in summary.validity.arms
        if "sm_clock_mhz" in proof.noise
    ]
    return [f"GPU clocks in MHz: {'; '.join(clocks)}."] if clocks else []


def _versions(summary: ReportSummary) -> str:
    known = summary.validity.versions
    versions = ", ".join(f"{key} {known[key]}" for key in sorted(known))
    return f"Environment: {versions}." if versions else "Environment: not recorded."


def _kernels(arm: ArmSummary) -> str:
    told = [_kernel(kernel) for kernel in arm.kernels]
    if arm.unproven:
        told.append(f"not proven: {arm.unproven}")
    return "; ".join(told) or ABSENT


def _kernel(kernel: KernelCount) -> str:
    ran = kernel_text(kernel.asked, kernel.ran)
    return f"{ran}: {kernel.trials} ({kernel.evidence or 'no evidence'})"
