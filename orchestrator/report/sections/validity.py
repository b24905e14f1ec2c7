"""The section on validity: trials by outcome, kernels with their proofs, and disturbances."""

from collections.abc import Iterator

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import disturbance_text, neighbours_text
from orchestrator.core.selectors import known_implementation
from orchestrator.core.text import counted, joined
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.sections.mathematics import (
    MATHEMATICS_EXPLANATION,
    mathematics_columns,
    mathematics_sentence,
)
from orchestrator.report.wording import ArmNames, config_or_repeat, kernel_text, run_text
from workloads.backends.registry import backends

_MOST_NODES = 6
"""The most nodes that are named; more are counted."""


def validity_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Count trials by outcome; list proven kernels, disturbances, versions and clocks."""
    if not summary.trials:
        return None
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda arm: name(arm.arm) + ("" if arm.planned else " (no longer run)")),
        Column("complete", lambda arm: arm.trials.complete),
        Column("failed", lambda arm: arm.trials.failed),
        Column("wrong kernel", lambda arm: arm.trials.wrong_kernel),
        Column("pruned", lambda arm: arm.trials.pruned or None, optional=True),
        Column("disturbed", lambda arm: arm.disturbed),
        Column("not in turns", lambda arm: arm.not_in_turns or None, optional=True),
        Column("missing", lambda arm: arm.trials.missing),
        Column("re-run", lambda arm: arm.retried),
        *mathematics_columns(),
    ]
    kernels = tuple((name(arm.arm), _kernels(arm), _compiled(arm)) for arm in summary.arms)
    evidence = Table(("arm", "kernel that ran", "compiled"), kernels)
    tables = (make_table(columns, summary.arms), evidence)
    is_compared = any(row.mathematics for row in summary.arms)
    return Section(
        "Validity",
        tables=tables,
        paragraphs=tuple(_notes(summary)),
        explanations=(MATHEMATICS_EXPLANATION,) if is_compared else (),
    )


def _notes(summary: ReportSummary) -> Iterator[str]:
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    yield _used(summary)
    if sentence := mathematics_sentence(summary):
        yield sentence
    retried = sum(arm.retried for arm in summary.arms)
    if retried:
        yield f"{counted(retried, 'trial')} took more than one attempt; the last one counts."
    nodes = sorted({node for arm in summary.arms for node in arm.nodes})
    if nodes:
        shown = joined(nodes) if len(nodes) <= _MOST_NODES else counted(len(nodes), "node")
        yield f"Run on {shown}."
    yield from _disturbed(complete, config_or_repeat(summary))
    yield from _neighbours(complete)
    yield from _unlike_on_gpus(summary)
    versions = sorted(summary.validity.versions.items())
    packages = ", ".join(f"{package} {version}" for package, version in versions)
    yield f"Environment: {packages or 'not recorded'}."


def _used(summary: ReportSummary) -> str:
    """Write how many trials are compared."""
    counts = summary.validity
    arms = "every arm that has a complete trial" if summary.set_aside else "every arm"
    return (
        f"Of {counted(counts.trials, 'trial')} that ended, {counts.used} are compared: the "
        f"trials of configs that are complete on {arms}. {counts.left_out} did not complete. The "
        "JSON format has the run ids behind every number."
    )


def _disturbed(complete: list[FinishedTrial], unit: str) -> Iterator[str]:
    disturbed = [trial for trial in complete if trial.disturbance]
    if not disturbed:
        return
    disturbed_rounds = len({(trial.block, trial.repeat) for trial in disturbed})
    rounds = len({(trial.block, trial.repeat) for trial in complete})
    first = disturbed[0]
    yield (
        f"{len(disturbed)} of {counted(len(complete), 'trial')} were disturbed, in "
        f"{disturbed_rounds} of {counted(rounds, unit)}. First: run {run_text(first.run_id)}, "
        f"{disturbance_text(first.disturbance)}."
    )


def _neighbours(complete: list[FinishedTrial]) -> Iterator[str]:
    """Write during how many trials other work was seen on their nodes."""
    observed = [text for trial in complete if (text := neighbours_text(trial.telemetry))]
    neighbours = [work for work in observed if work != "none"]
    if neighbours:
        trials = counted(len(observed), "trial")
        yield f"Other work ran during {len(neighbours)} of {trials}, first: {neighbours[0]}."


def _unlike_on_gpus(summary: ReportSummary) -> Iterator[str]:
    """Write in what backends differ on a GPU, if several were compared there."""
    on_gpus = [known_implementation(row.arm) for row in summary.arms if row.arm.device == "gpu"]
    names = {implementation.backend for implementation in on_gpus if implementation}
    compared = [backend for name, backend in backends().items() if name in names]
    if len(compared) < 2:
        return
    peculiarities = [backend.gpu_peculiarity for backend in compared if backend.gpu_peculiarity]
    unlike = '"cuDNN" is not one kernel'
    if peculiarities:
        unlike += f" ({'; '.join(peculiarities)})"
    yield (
        "On a GPU, all backends copy each batch from the host ahead of its use, round float32 only "
        "if the arm says so, and warm the clocks before each window. What stays unlike: "
        f"{unlike}."
    )


def _compiled(arm: ArmSummary) -> str:
    if arm.jit is None:
        return ABSENT
    return f"{'by XLA' if arm.jit else 'not by XLA'}, {arm.precision}"


def _kernels(arm: ArmSummary) -> str:
    """Return the kernels that ran, in how many trials, and by which evidence."""
    texts = [
        f"{kernel_text(kernel.asked, kernel.ran)}: {kernel.trials} "
        f"({kernel.evidence or 'no evidence'})"
        for kernel in arm.kernels
    ]
    if arm.unproven:
        texts.append(f"not proven: {arm.unproven}")
    return "; ".join(texts) or ABSENT
