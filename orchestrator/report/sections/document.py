"""The sections of a report in their order: a summary becomes a document."""

from __future__ import annotations

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.prose import bullets
from orchestrator.report.sections.arms import arms, learning, matrix, phases, spending, telemetry
from orchestrator.report.sections.best_configs import front, fronts, published
from orchestrator.report.sections.crossovers import compiling, crossovers
from orchestrator.report.sections.effects import effects
from orchestrator.report.sections.speedups import speed
from orchestrator.report.sections.targets import attainment
from orchestrator.report.sections.validity import left_out, validity
from orchestrator.report.sections.verdict import verdicts
from orchestrator.report.wording import ArmNames, Maker, arm_names, config_text, ranges_text


def document(summary: ReportSummary) -> Document:
    """Make the report: verdicts first, then the figures behind them."""
    name = arm_names(summary)
    makers: tuple[Maker, ...] = (
        *(verdicts, sweep, speed, matrix, effects, crossovers, compiling, attainment),
        *(arms, front, fronts, learning, phases, spending, telemetry, published),
        *(left_out, validity),
    )
    if summary.is_without_success:
        makers = verdicts, sweep, left_out
    sections = (make(summary, name) for make in makers)
    title = f"Sweep {summary.sweep.label}: {summary.sweep.workload}"
    return Document(title, tuple(section for section in sections if section is not None))


def sweep(summary: ReportSummary, name: ArmNames) -> Section:
    """Describe the sweep and its progress."""
    variants = dict.fromkeys(arm.arm.variant for arm in summary.arms if arm.arm.variant)
    rows = bullets(
        "sections/sweep.j2",
        summary=summary,
        disturbed=sum(proof.disturbed for proof in summary.arms),
        hardware=name.hardware,
        configs=ranges_text(summary.configs),
        variants=[f"{own}: {config_text(own.settings) or 'the settings'}" for own in variants],
        replaced={name for variant in variants for name in variant.settings},
    )
    return Section("Sweep", tables=(Table(("sweep", summary.sweep.label), rows),))
