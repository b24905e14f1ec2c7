"""The part on trust: how trials ended, which kernels ran, and what disturbed the measurements."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from orchestrator.analysis.arms.arm_summary import ArmSummary, ExcludedTrials
from orchestrator.analysis.arms.mathematics import Mathematics
from orchestrator.analysis.measures import CONDITIONS
from orchestrator.analysis.statistics.formatting import ABSENT, number, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.disturbance import disturbance_text, neighbours_text
from orchestrator.core.selectors import known_implementation
from orchestrator.core.text import counted, joined
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.document import PARTS, Column, Fact, Section, Table, make_table
from orchestrator.report.names import (
    ArmNames,
    config_phrase,
    kernel_text,
    ranges_text,
    run_text,
    step_noun,
)
from orchestrator.report.parts.doubts import doubts
from workloads.backends.registry import backends
from workloads.model_facts import COMPILED_GRAPHS, GRAPH_BREAKS

_DAY_S = 86_400.0

_VERSION = re.compile(r"\d+\.\d+")
"""How the version of a package begins, among the facts of the environment."""


def trust_part(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Count trials by outcome; list kernels, mathematics, conditions, versions and doubts."""
    tables = (
        *_outcomes(summary, name),
        *_kernels(summary, name),
        *_mathematics(summary, name),
        *_conditions(summary, name),
        *_excluded(summary, name),
    )
    return Section(
        PARTS["trust"],
        facts=tuple(_sweep(summary, name)),
        tables=tables if summary.trials else (),
        doubts=(*doubts(summary, name), *_unlike(summary)),
        notes=tuple(_notes(summary)),
        part="trust",
    )


def _sweep(summary: ReportSummary, name: ArmNames) -> Iterator[Fact]:
    """Yield what the sweep ran, and on what."""
    head, validity = summary.sweep, summary.validity
    hardware = dict.fromkeys(str(row.arm.hardware) for row in summary.arms)
    variants = dict.fromkeys(row.arm.variant for row in summary.arms if row.arm.variant)
    replaced = {key for variant in variants for key in variant.settings}
    nodes = sorted({node for row in summary.arms for node in row.nodes})
    facts = {
        "state": f"{head.state}, MLflow run {run_text(head.run_id)}",
        "trials": f"{validity.used} of {validity.trials} ended trials are compared",
        "hardware": name.hardware or "; ".join(hardware),
        "nodes": joined(nodes),
        "packages": ", ".join(
            f"{name} {version}"
            for name, version in sorted(validity.versions.items())
            if _VERSION.match(str(version))
        ),
        "data": "; ".join(map(_dataset, head.datasets)),
        "settings": config_phrase(
            {k: v for k, v in head.settings.items() if v is not None and k not in replaced}
        ),
        "variants": "; ".join(f"{v}: {config_phrase(v.settings) or 'settings'}" for v in variants),
        "measured": _measured(summary),
        "search": f"{head.sampler or ABSENT}, seed {head.seed}",
        "sizes": ranges_text(summary.configs),
    }
    for label, text in facts.items():
        if text:
            yield Fact(label, text)


def _measured(summary: ReportSummary) -> str:
    """Return what was timed instead of whole trainings, which alone have results."""
    if step_noun(summary) == "prediction":
        return "predictions of batches on the device by the compiled predict function, in turns"
    is_timed = any(row.arm.measure == "timing" for row in summary.arms)
    return "times per step, in turns; only whole trainings have results" if is_timed else ""


def _dataset(data: DatasetRecord) -> str:
    text = (
        f"{data.name} from {data.source}: {number(data.samples)} to train on, "
        f"{number(data.validation_samples)} to validate on"
    )
    return f"{text}, SHA-256 {data.digest[:12]}…" if data.digest else text


def _outcomes(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: name(row.arm) + ("" if row.planned else " (former)")),
        Column("complete", lambda row: row.trials.complete),
        Column("failed", lambda row: row.trials.failed),
        Column("wrong kernel", lambda row: row.trials.wrong_kernel),
        Column("pruned", lambda row: row.trials.pruned or None, optional=True),
        Column("missing", lambda row: row.trials.missing),
        Column("disturbed", lambda row: row.disturbed),
        Column("not in turns", lambda row: row.not_in_turns or None, optional=True),
        Column("re-run", lambda row: row.retried or None, optional=True),
    ]
    yield make_table(columns, summary.arms)


def _kernels(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: name(row.arm)),
        Column("kernel that ran", _kernel_cell),
        Column("XLA", lambda row: None if row.jit is None else ("yes" if row.jit else "no")),
        Column("precision", lambda row: row.precision),
        Column("graphs", partial(_most, summary, COMPILED_GRAPHS), optional=True),
        Column("graph breaks", partial(_most, summary, GRAPH_BREAKS), optional=True),
    ]
    yield make_table(columns, summary.arms)


def _most(summary: ReportSummary, fact: str, row: ArmSummary) -> int | None:
    """Return the largest number that a fact has in the complete trials of an arm."""
    facts = [
        trial.outcome.environment.get(fact)
        for trial in summary.trials
        if trial.arm == row.arm and trial.status == "complete"
    ]
    return max((int(number) for number in facts if number is not None), default=None)


def _kernel_cell(row: ArmSummary) -> str | None:
    """Write the kernels that ran, in how many trials, and by which evidence."""
    texts = [
        f"{kernel_text(kernel.asked, kernel.ran)}: {kernel.trials} "
        f"({kernel.evidence or 'no evidence'})"
        for kernel in row.kernels
    ]
    texts += [f"not proven: {row.unproven}"] if row.unproven else []
    return "; ".join(texts) or None


def _mathematics(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    rows = [(row, row.mathematics) for row in summary.arms if row.mathematics]
    columns: list[Column[tuple[ArmSummary, Mathematics]]] = [
        Column("equal mathematics", lambda row: name(row[0].arm)),
        Column("compared with", lambda row: name(row[1].reference)),
        Column("max Δ output", lambda row: _percent(row[1].max_output_share), numeric=True),
        Column("tolerance", lambda row: share(row[1].output_tolerance), numeric=True),
        Column("max Δ gradient", lambda row: row[1].max_gradient_difference, show=_percent),
        Column("tolerance", lambda row: share(row[1].gradient_tolerance), numeric=True),
        Column("rounds", lambda row: row[1].rounds),
        Column("equal", lambda row: "no" if row[1].is_different else "yes"),
    ]
    if rows:
        yield make_table(columns, rows)


def _percent(part: float) -> str:
    return share(float(f"{part:.2g}"))


def _conditions(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    columns: list[Column[ArmSummary]] = [
        Column("conditions", lambda row: name(row.arm)),
        *(Column(m.title, partial(_median, m.metric), optional=True) for m in CONDITIONS),
    ]
    table = make_table(columns, summary.arms)
    if table.headers[1:]:
        yield table


def _median(metric: str, row: ArmSummary) -> float | None:
    figure = row.noise.get(metric) or row.measures.get(metric)
    return figure.median if figure else None


def _excluded(summary: ReportSummary, name: ArmNames) -> Iterator[Table]:
    columns: list[Column[ExcludedTrials]] = [
        Column("excluded", lambda row: name(row.arm)),
        Column("reason", lambda row: row.reason.replace("_", " ")),
        Column("trials", lambda row: row.trials),
        Column("first message", lambda row: row.message),
        Column("first run", lambda row: run_text(row.run_id)),
    ]
    if summary.excluded:
        yield make_table(columns, summary.excluded)


def _unlike(summary: ReportSummary) -> Iterator[Fact]:
    """Yield how the trials of a round differed: processes, nodes, days, and backends."""
    complete = [trial for trial in summary.trials if trial.status == "complete"]
    disturbed = [trial for trial in complete if trial.disturbance]
    if disturbed:
        first = disturbed[0]
        yield Fact(
            "disturbed",
            f"{len(disturbed)} of {counted(len(complete), 'trial')}, first {run_text(first.run_id)}"
            f": {disturbance_text(first.disturbance)}",
        )
    observed = [text for trial in complete if (text := neighbours_text(trial.telemetry))]
    neighbours = [text for text in observed if text != "none"]
    if neighbours:
        trials = f"{len(neighbours)} of {counted(len(observed), 'trial')}"
        yield Fact("neighbours", f"{trials}, the first: {neighbours[0]}")
    validity = summary.validity
    if validity.split_rounds:
        rounds = f"{validity.split_rounds} of {counted(validity.rounds, 'round')}"
        yield Fact("other nodes", f"{rounds}: arms of one hardware class ran on different nodes")
    days = _days_apart(summary)
    if days:
        configs = f"{len(days)} of {counted(len(summary.complete_blocks), 'config')}"
        yield Fact("other days", f"{configs}: trials up to {number(max(days))} days apart")
    on_gpus = [known_implementation(row.arm) for row in summary.arms if row.arm.device == "gpu"]
    names = {implementation.backend for implementation in on_gpus if implementation}
    compared = [backend for backend_name, backend in backends().items() if backend_name in names]
    unlike = [backend.gpu_peculiarity for backend in compared if backend.gpu_peculiarity]
    if len(compared) > 1 and unlike:
        yield Fact("cuDNN use differs", "; ".join(unlike))


def _days_apart(summary: ReportSummary) -> list[float]:
    """Return the days between trials of a block, for each block that took more than a day."""
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [
        max(starts[block]) - min(starts[block])
        for block in summary.complete_blocks
        if block in starts
    ]
    return [span / _DAY_S for span in spans if span > _DAY_S]


def _notes(summary: ReportSummary) -> Iterator[str]:
    if any(row.mathematics for row in summary.arms):
        yield (
            "Equal mathematics: the largest difference of outputs and gradients at equal weights, "
            "relative to their size. Beyond the tolerance of its precision, an arm has no verdict."
        )
    if any(row.noise for row in summary.arms):
        yield "Conditions: medians of the complete trials, during their timed epochs."
