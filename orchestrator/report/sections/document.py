"""The sections of a report in their order: a summary becomes a document.

Here are also those by which a reader judges it: the sweep, excluded trials, evidence of kernels.
"""

from orchestrator.analysis.arms.arm_summary import ArmSummary, ExcludedTrials
from orchestrator.analysis.statistics.estimates import spread
from orchestrator.analysis.statistics.formatting import ABSENT, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import neighbours_text
from orchestrator.report import wording
from orchestrator.report.document import Column, Document, Section, Table, make_table
from orchestrator.report.sections import arms
from orchestrator.report.sections.effects import compiling, crossovers, effects
from orchestrator.report.sections.speedups import attainment, speed
from orchestrator.report.sections.verdict import verdicts


def document(summary: ReportSummary) -> Document:
    """Make the report: verdicts first, then the figures behind them."""
    name = wording.arm_names(summary)
    makers: tuple[wording.Maker, ...] = (
        *(verdicts, sweep, speed, arms.matrix, effects, crossovers, compiling, attainment),
        *(arms.arms, arms.front, arms.fronts, arms.learning, arms.phases, arms.spending),
        *(arms.telemetry, arms.published),
        *(left_out, validity),
    )
    if summary.is_without_success:
        makers = verdicts, sweep, left_out
    sections = (make(summary, name) for make in makers)
    title = f"Sweep {summary.sweep.label}: {summary.sweep.workload}"
    return Document(title, tuple(section for section in sections if section is not None))


def sweep(summary: ReportSummary, name: wording.ArmNames) -> Section:
    """Describe the sweep and its progress."""
    variants = dict.fromkeys(arm.arm.variant for arm in summary.arms if arm.arm.variant)
    rows = wording.bullets(
        "sections/sweep.j2",
        summary=summary,
        disturbed=sum(proof.disturbed for proof in summary.arms),
        hardware=name.hardware,
        configs=wording.ranges_text(summary.configs),
        variants=[
            f"{own}: {wording.config_text(own.settings) or 'the settings'}" for own in variants
        ],
        replaced={name for variant in variants for name in variant.settings},
    )
    return Section("Sweep", tables=(Table(("sweep", summary.sweep.label), rows),))


_NODES = 6
"""The most nodes that are named; more are counted."""

_SHARES = (
    ("others_cpu_pct", "other processes took {} % of the CPUs"),
    ("steal_pct", "the machine's host took {} %"),
    ("throttled_pct", "the device's clocks were throttled {} % of the time"),
    ("clock_drop_pct", "the clocks were {} % below their maximum"),
)
"""Disturbances are never detected from the step time itself, and affect arms unequally."""


def left_out(summary: ReportSummary, name: wording.ArmNames) -> Section | None:
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
        rows = tuple((name(row.arm), row.reason) for row in summary.impossible)
        tables.append(Table(("arm that cannot run", "reason"), rows))
    return Section("Excluded", tables=tuple(tables)) if tables else None


def validity(summary: ReportSummary, name: wording.ArmNames) -> Section | None:
    """Count trials by outcome; list proven kernels, disturbances, versions and clocks."""
    if not summary.trials:
        return None
    pruned: list[Column[ArmSummary]] = [Column("pruned", lambda arm: arm.trials.pruned)]
    pruned = pruned if summary.sweep.trials.pruned else []
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda a: name(a.arm) + ("" if a.planned else " (no longer run)")),
        Column("complete", lambda arm: arm.trials.complete),
        Column("failed", lambda arm: arm.trials.failed),
        Column("wrong kernel", lambda arm: arm.trials.wrong_kernel),
        *pruned,
        Column("disturbed", lambda arm: arm.disturbed),
        Column("missing", lambda arm: arm.trials.missing),
        Column("re-run", lambda arm: arm.retried),
    ]
    kernels = tuple((name(arm.arm), _kernels(arm), _compiled(arm)) for arm in summary.arms)
    evidence = Table(("arm", "kernel that ran", "compiled"), kernels)
    tables = (make_table(columns, summary.arms), evidence)
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    disturbed = [trial for trial in complete if trial.disturbance]
    recorded = [text for trial in complete if (text := neighbours_text(trial.telemetry))]
    notes = wording.paragraphs(
        "sections/validity.j2",
        evidence=summary.validity,
        retried=sum(proof.retried for proof in summary.arms),
        nodes=sorted({node for proof in summary.arms for node in proof.nodes}),
        most_nodes=_NODES,
        shares=[
            sentence.format(quartiles(values))
            for metric, sentence in _SHARES
            if (values := spread([t.metrics[metric] for t in complete if metric in t.metrics]))
        ],
        complete=complete,
        disturbed=disturbed,
        disturbed_rounds=len({(trial.block, trial.repeat) for trial in disturbed}),
        rounds=len({(trial.block, trial.repeat) for trial in complete}),
        recorded=recorded,
        neighbours=[work for work in recorded if work != "none"],
        clocks=[
            f"{name(proof.arm)} {quartiles(proof.noise['sm_clock_mhz'])}"
            for proof in summary.arms
            if "sm_clock_mhz" in proof.noise
        ],
    )
    return Section("Validity", tables=tables, paragraphs=notes)


def _compiled(arm: ArmSummary) -> str:
    if arm.jit is None:
        return ABSENT
    return f"{'by XLA' if arm.jit else 'not by XLA'}, {arm.precision}"


def _kernels(arm: ArmSummary) -> str:
    texts = [
        f"{wording.kernel_text(kernel.asked, kernel.ran)}: {kernel.trials} "
        f"({kernel.evidence or 'no evidence'})"
        for kernel in arm.kernels
    ]
    unproven = [f"not proven: {arm.unproven}"] if arm.unproven else []
    return "; ".join([*texts, *unproven]) or ABSENT
