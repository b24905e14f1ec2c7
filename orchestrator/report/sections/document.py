"""The sections of a report in their order: a summary becomes a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.sections.arms import arms, learning, matrix, phases, sizes, telemetry
from orchestrator.report.sections.best_configs import best_of_arm, front, fronts
from orchestrator.report.sections.crossovers import compiling, crossovers
from orchestrator.report.sections.energy_and_cost import spending
from orchestrator.report.sections.published import published
from orchestrator.report.sections.speedups import contrasts, speed
from orchestrator.report.sections.targets import attainment
from orchestrator.report.sections.validity import left_out, validity
from orchestrator.report.sections.verdict import verdicts
from orchestrator.report.wording import ArmNames, arm_names, ranges_text


def document(summary: ReportSummary) -> Document:
    """Make the report: verdicts first, then the figures behind them."""
    name = arm_names(summary)
    makers = (
        *(verdicts, sweep, speed, contrasts, matrix, sizes, crossovers, compiling, attainment),
        *(arms, best_of_arm, front, fronts, learning, phases, spending, telemetry, published),
        *(left_out, validity),
    )
    sections = (make(summary, name) for make in makers)
    title = f"Sweep {summary.sweep.label}: {summary.sweep.workload}"
    return Document(title, tuple(section for section in sections if section is not None))


def sweep(summary: ReportSummary, name: ArmNames) -> Section:
    """Describe the sweep and its progress."""
    head, trials = summary.sweep, summary.sweep.trials
    disturbed = sum(proof.disturbed for proof in summary.arms)
    rows = [
        ("state", head.state),
        ("trials", f"{trials.complete} complete of {trials.expected} expected; {trials.failed} "
         f"failed, {trials.wrong_kernel} wrong kernel, {disturbed} disturbed, "
         f"{trials.missing} missing"),
        ("blocks", f"{head.blocks} × {head.repeats} repeat(s); {len(summary.complete_blocks)} "
         "complete on every arm"),
        ("hardware", name.hardware or "several classes, named with each arm"),
        ("settings", _settings_text(head.settings)),
        ("data", "; ".join(map(_data_text, head.datasets)) or ABSENT),
        ("search", f"{head.sampler or ABSENT}, seed {head.seed}"),
        ("objectives", ", ".join(f"{m} ({d})" for m, d in head.objectives.items()) or ABSENT),
        ("configs tried", ranges_text(summary.configs) or ABSENT),
        ("MLflow run", head.run_id),
    ]  # fmt: skip
    return Section("Sweep", tables=(Table(("sweep", head.label), tuple(rows)),))


def _settings_text(settings: Mapping[str, Any]) -> str:
    """List the settings that all trials share, without those that are not set."""
    given = {name: value for name, value in settings.items() if value is not None}
    return ", ".join(f"{name} {value}" for name, value in given.items()) or ABSENT


def _data_text(data: DatasetRecord) -> str:
    digest = f", SHA-256 {data.digest[:12]}…" if data.digest else ""
    return (
        f"{data.name} from {data.source}: {data.samples} to train on, {data.validation_samples} "
        f"to validate on{digest}"
    )
