"""The sections of a full report in their order: a summary becomes a document.

Here are also those by which a reader judges it: the sweep, excluded trials, evidence of kernels.
"""

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.analysis.arms.arm_summary import ArmSummary, ExcludedTrials
from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import neighbours_text
from orchestrator.core.names import known_implementation
from orchestrator.report import wording
from orchestrator.report.document import PARTS, Column, Document, Section, Table, make_table
from orchestrator.report.sections import answer, arms, effects, speedups
from workloads.backends.registry import backends


def document(summary: ReportSummary) -> Document:
    """Make the full report, by the questions of its parts; how to read it comes last."""
    name = wording.arm_names(summary)
    makers = _OF_FAILURES if summary.is_without_success else _MAKERS
    sections, explained = [], [*wording.paragraphs("sections/reading.j2", summary=summary)]
    for part, own in makers.items():
        for section in filter(None, (make(summary, name) for make in own)):
            if text := _explained(section):
                explained.append(f"{section.title}: {text}")
            shown = tuple(text for text in section.paragraphs if not text.startswith(_READING))
            sections.append(replace(section, part=part, paragraphs=shown))
    last = Section(PARTS["reading"], paragraphs=tuple(explained), part="reading")
    return Document(answer.title(summary), (*sections, last))


_READING = "reading |"
"""The beginning of a paragraph that explains figures; such paragraphs are in the last section."""


def _explained(section: Section) -> str:
    texts = (text for text in section.paragraphs if text.startswith(_READING))
    return " ".join(text.removeprefix(_READING).strip() for text in texts)


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


def left_out(summary: ReportSummary, name: wording.ArmNames) -> Section | None:
    """List trials that enter no comparison."""
    columns: list[Column[ExcludedTrials]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("reason", lambda row: row.reason.replace("_", " ")),
        Column("trials", lambda row: row.trials),
        Column("first message", lambda row: row.message),
        Column("first run", lambda row: wording.run_text(row.run_id)),
    ]
    table = make_table(columns, summary.left_out)
    return Section("Excluded", tables=(table,)) if summary.left_out else None


def validity(summary: ReportSummary, name: wording.ArmNames) -> Section | None:
    """Count trials by outcome; list proven kernels, disturbances, versions and clocks."""
    if not summary.trials:
        return None
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda a: name(a.arm) + ("" if a.planned else " (no longer run)")),
        Column("complete", lambda arm: arm.trials.complete),
        Column("failed", lambda arm: arm.trials.failed),
        Column("wrong kernel", lambda arm: arm.trials.wrong_kernel),
        Column("pruned", lambda arm: arm.trials.pruned or None, optional=True),
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
    on_gpus = [known_implementation(a.arm) for a in summary.arms if a.arm.device == "gpu"]
    names = {implementation.backend for implementation in on_gpus if implementation}
    gpu_backends = [backend for name, backend in backends().items() if name in names]
    notes = wording.paragraphs(
        "sections/validity.j2",
        summary=summary,
        gpu_backends=gpu_backends,
        peculiarities=[one.gpu_peculiarity for one in gpu_backends if one.gpu_peculiarity],
        retried=sum(proof.retried for proof in summary.arms),
        nodes=sorted({node for proof in summary.arms for node in proof.nodes}),
        most_nodes=_NODES,
        complete=complete,
        disturbed=disturbed,
        disturbed_rounds=len({(trial.block, trial.repeat) for trial in disturbed}),
        rounds=len({(trial.block, trial.repeat) for trial in complete}),
        recorded=recorded,
        neighbours=[work for work in recorded if work != "none"],
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


_MAKERS: Mapping[str, tuple[wording.Maker, ...]] = {
    "fastest": (answer.fastest, speedups.ranked),
    "speed": (speedups.speed, effects.compiling),
    "accuracy": (speedups.accuracy, speedups.attainment, arms.learning),
    "sizes": (effects.effects, effects.crossovers, effects.configs, arms.front, arms.fronts),
    "cost": (arms.arms, arms.phases),
    "trust": (answer.doubtful, sweep, left_out, validity, arms.telemetry, arms.published),
}
_OF_FAILURES: Mapping[str, tuple[wording.Maker, ...]] = {
    "fastest": (answer.fastest,),
    "trust": (answer.doubtful, sweep, left_out),
}
