"""The sections by which a reader judges a report: excluded trials, and evidence of kernels."""

from __future__ import annotations

from orchestrator.analysis.arms.arm_summary import ArmSummary, KernelCount
from orchestrator.analysis.arms.validity import ArmValidity
from orchestrator.analysis.metrics.failures import ExcludedTrials
from orchestrator.analysis.statistics.formatting import ABSENT, count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import ImpossibleArm
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.sections.noise import noise_notes
from orchestrator.report.wording.sentences import ArmNames, kernel_text

_NODES = 6
"""The most nodes that are named; more are counted."""


def left_out(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List trials that enter no comparison, and arms that cannot run."""
    tables = []
    if summary.left_out:
        excluded: list[Column[ExcludedTrials]] = [
            Column("arm", lambda row: name(row.arm)),
            Column("reason", lambda row: row.reason.replace("_", " ")),
            Column("trials", lambda row: row.trials),
            Column("first message", lambda row: row.message),
            Column("first run", lambda row: row.run_id),
        ]
        tables.append(make_table(excluded, summary.left_out))
    if summary.impossible:
        arms: list[Column[ImpossibleArm]] = [
            Column("arm that cannot run", lambda row: name(row.arm)),
            Column("reason", lambda row: row.reason),
        ]
        tables.append(make_table(arms, summary.impossible))
    return Section("Excluded", tables=tuple(tables)) if tables else None


def validity(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Count trials by outcome; list proven kernels, disturbances, versions and clocks."""
    if not summary.trials:
        return None
    proofs = {proof.arm: proof for proof in summary.validity.arms}
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda arm: _started(arm, name)),
        Column("complete", lambda arm: arm.trials.complete),
        Column("failed", lambda arm: arm.trials.failed),
        Column("wrong kernel", lambda arm: arm.trials.wrong_kernel),
        Column("disturbed", lambda arm: proofs[arm.arm].disturbed),
        Column("missing", lambda arm: arm.trials.missing),
        Column("re-run", lambda arm: proofs[arm.arm].retried),
    ]
    kernels: list[Column[ArmSummary]] = [
        Column("arm", lambda arm: name(arm.arm)),
        Column("kernel that ran", _kernels),
        Column("compiled", lambda arm: _compiled(proofs[arm.arm])),
    ]
    tables = (make_table(columns, summary.arms), make_table(kernels, summary.arms))
    notes = (*_usage(summary), *noise_notes(summary), *_clocks(summary, name))
    return Section("Validity", tables=tables, paragraphs=(*notes, _versions(summary)))


def _started(arm: ArmSummary, name: ArmNames) -> str:
    return name(arm.arm) + ("" if arm.planned else " (of an earlier start)")


def _compiled(proof: ArmValidity) -> str:
    if proof.jit is None:
        return ABSENT
    return f"{'by XLA' if proof.jit else 'not by XLA'}, {proof.precision}"


def _usage(summary: ReportSummary) -> list[str]:
    evidence = summary.validity
    retried = sum(proof.retried for proof in evidence.arms)
    nodes = sorted({node for proof in evidence.arms for node in proof.nodes})
    notes = [
        f"Of {count(evidence.trials, 'trial')} that ended, {evidence.used} belong to the "
        f"{count(evidence.rounds, 'round')} that are complete on every arm, and "
        f"{evidence.left_out} did not complete. The JSON and CSV formats have the run ids behind "
        "every number."
    ]
    if retried:
        notes.append(f"{count(retried, 'trial')} took more than one attempt; the last one counts.")
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
    recorded = summary.validity.versions
    versions = ", ".join(f"{key} {recorded[key]}" for key in sorted(recorded))
    return f"Environment: {versions}." if versions else "Environment: not recorded."


def _kernels(arm: ArmSummary) -> str:
    texts = [_kernel(kernel) for kernel in arm.kernels]
    if arm.unproven:
        texts.append(f"not proven: {arm.unproven}")
    return "; ".join(texts) or ABSENT


def _kernel(kernel: KernelCount) -> str:
    ran = kernel_text(kernel.asked, kernel.ran)
    return f"{ran}: {kernel.trials} ({kernel.evidence or 'no evidence'})"
