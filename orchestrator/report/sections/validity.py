"""The sections by which a reader judges a report: excluded trials, and evidence of kernels."""

from __future__ import annotations

from orchestrator.analysis.arms.arm_summary import ArmSummary, KernelCount
from orchestrator.analysis.arms.validity import ArmValidity
from orchestrator.analysis.statistics.formatting import ABSENT, count, joined, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section, Table
from orchestrator.report.sections.noise import noise_notes
from orchestrator.report.wording.sentences import ArmNames, kernel_text

_NODES = 6
"""The most nodes that are named; more are counted."""


def left_out(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List trials that enter no comparison, and arms that cannot run."""
    tables = []
    if summary.left_out:
        rows = tuple(
            (name(row.arm), row.reason.replace("_", " "), str(row.trials), row.message, row.run_id)
            for row in summary.left_out
        )
        headers = ("arm", "reason", "trials", "first message", "first run")
        tables.append(Table(headers, rows, frozenset({2})))
    if summary.impossible:
        impossible = tuple((name(i.arm), i.reason) for i in summary.impossible)
        tables.append(Table(("arm that cannot run", "reason"), impossible))
    return Section("Excluded", tables=tuple(tables)) if tables else None


def validity(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Count trials by outcome; list proven kernels, disturbances, versions and clocks."""
    if not summary.trials:
        return None
    proofs = {proof.arm: proof for proof in summary.validity.arms}
    headers = ("arm", "complete", "failed", "wrong kernel", "disturbed", "missing", "re-run")
    counts = tuple(_counts(arm, proofs[arm.arm], name) for arm in summary.arms)
    kernels = tuple(
        (name(arm.arm), _kernels(arm), _compiled(proofs[arm.arm])) for arm in summary.arms
    )
    tables = (
        Table(headers, counts, frozenset(range(1, len(headers)))),
        Table(("arm", "kernel that ran", "compiled"), kernels),
    )
    notes = (*_usage(summary), *noise_notes(summary), *_clocks(summary, name))
    return Section("Validity", tables=tables, paragraphs=(*notes, _versions(summary)))


def _counts(arm: ArmSummary, proof: ArmValidity, name: ArmNames) -> tuple[str, ...]:
    trials = arm.trials
    numbers = (
        *(trials.complete, trials.failed, trials.wrong_kernel),
        *(proof.disturbed, trials.missing, proof.retried),
    )
    planned = "" if arm.planned else " (of an earlier start)"
    return (name(arm.arm) + planned, *map(str, numbers))


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
