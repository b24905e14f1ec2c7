"""The section on the sweep itself: its state, its configs, settings, data and search."""

from collections.abc import Iterable

from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import has_or_have, joined
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.wording import ArmNames, config_phrase, ranges_text, run_text


def sweep_section(summary: ReportSummary, name: ArmNames) -> Section:
    """Describe the sweep and its progress."""
    head = summary.sweep
    hardware = dict.fromkeys(str(row.arm.hardware) for row in summary.arms)
    rows: list[Row] = [
        ("state", head.state),
        ("trials", _trials(summary)),
        ("configs", _configs(summary)),
        ("hardware", name.hardware or "; ".join(hardware)),
        ("settings", _settings(summary)),
        *_variants(summary),
        ("data", "; ".join(map(_dataset, head.datasets)) or ABSENT),
        ("search", f"{head.sampler or ABSENT}, seed {head.seed}"),
        ("objectives", _listed(f"{metric} ({aim})" for metric, aim in head.objectives.items())),
        ("sizes tried", ranges_text(summary.configs) or ABSENT),
        ("MLflow run", run_text(head.run_id)),
    ]
    return Section("Sweep", tables=(Table(("sweep", head.label), tuple(rows)),))


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts) or ABSENT


def _trials(summary: ReportSummary) -> str:
    trials = summary.sweep.trials
    disturbed = sum(arm.disturbed for arm in summary.arms)
    text = (
        f"{trials.complete} complete of {trials.expected} expected; {trials.failed} failed, "
        f"{trials.wrong_kernel} wrong kernel, {disturbed} disturbed, {trials.missing} missing"
    )
    return f"{text}, {trials.pruned} pruned" if trials.pruned else text


def _configs(summary: ReportSummary) -> str:
    head = summary.sweep
    repeats = f" × {head.repeats} repeats" if head.repeats > 1 else ""
    text = f"{head.blocks}{repeats}; {len(summary.complete_blocks)} complete on every arm"
    if not summary.set_aside or not summary.trials:
        return text
    arms, has = joined(map(str, summary.set_aside)), has_or_have(len(summary.set_aside))
    return f"{text} but {arms}, which {has} no complete trial"


def _settings(summary: ReportSummary) -> str:
    """Return the settings that have a value, except those that variants replace."""
    variants = {arm.arm.variant for arm in summary.arms if arm.arm.variant}
    replaced = {name for variant in variants for name in variant.settings}
    return _listed(
        f"{name} {value}"
        for name, value in summary.sweep.settings.items()
        if value is not None and name not in replaced
    )


def _variants(summary: ReportSummary) -> list[Row]:
    variants = dict.fromkeys(arm.arm.variant for arm in summary.arms if arm.arm.variant)
    if not variants:
        return []
    texts = (
        f"{variant}: {config_phrase(variant.settings) or 'the settings'}" for variant in variants
    )
    return [("variants", "; ".join(texts))]


def _dataset(data: DatasetRecord) -> str:
    text = (
        f"{data.name} from {data.source}: {number(data.samples)} to train on, "
        f"{number(data.validation_samples)} to validate on"
    )
    return f"{text}, SHA-256 {data.digest[:12]}…" if data.digest else text
