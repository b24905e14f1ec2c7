"""The sections of what went on in trials: learning, phases, and what the hardware did."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from orchestrator.report.document import Section, Table
from orchestrator.report.learning import LearningCurve, LearningPoint
from orchestrator.report.numbers import ABSENT, number, quartiles
from orchestrator.report.phases import PHASES
from orchestrator.report.summary import ReportSummary
from orchestrator.report.telling_runs import TelemetryCurves
from orchestrator.report.trade_offs import ACCURACIES
from orchestrator.report.wording import ArmNames

_MB_IN_MIB = 1e6 / 2**20
"""Curves are in MLflow's megabytes of decimal units."""


def learning(summary: ReportSummary, name: ArmNames) -> Section | None:
    """What each arm had learned after the first, the middle and the last epoch, and by when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((each for each in ACCURACIES if each in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    headers = ("arm", "blocks", "epoch", metric, "seconds of training")
    rows = tuple(
        (
            name(curve.arm) if first else "",
            str(point.value.n),
            str(point.epoch),
            quartiles(point.value),
            number(point.seconds),
        )
        for curve in curves
        for first, point in _few(curve)
    )
    notes = [
        "Median (quartiles) over blocks, and the median time of training alone by then. All epochs "
        "and metrics are in the JSON format."
    ]
    if apart := [name(curve.arm) for curve in curves if not curve.matched]:
        notes.append(f"Over all their own complete trials, not matched: {', '.join(apart)}.")
    table = Table(headers, rows, frozenset(range(1, len(headers))))
    return Section("Learning", tables=(table,), paragraphs=tuple(notes))


def _few(curve: LearningCurve) -> list[tuple[bool, LearningPoint]]:
    """The first, the middle and the last point, and whether one is the first."""
    last = len(curve.points) - 1
    places = sorted({0, last // 2, last})
    return [(place == 0, curve.points[place]) for place in places]


def phases(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Mean seconds of each phase."""
    found = summary.phases
    if not found:
        return None
    shown = [phase for phase in PHASES if any(phase in each.seconds for each in found)]
    titles = (f"{phase.removesuffix('_s')}" for phase in shown)
    headers = ("seconds of", "trials", *titles)
    rows = tuple(
        (
            name(each.arm),
            str(each.trials),
            *(_seconds(each.seconds.get(phase)) for phase in shown),
        )
        for each in found
    )
    notes = (
        "Mean seconds a trial, over all complete trials, those of fresh trainers among them: where "
        "a sweep's time went, not what is compared.",
    )
    table = Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)
    return Section("Time by phase", tables=(table,), paragraphs=notes)


def _seconds(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


_CURVES: Sequence[tuple[str, str, float]] = (
    ("system/cpu_trainer_percentage", "trainer on CPU (%)", 1.0),
    ("system/cpu_others_percentage", "others on CPU (%)", 1.0),
    ("system/gpu_0_utilization_percentage", "GPU busy (%)", 1.0),
    ("system/trainer_memory_usage_megabytes", "memory (MiB)", _MB_IN_MIB),
    ("system/gpu_0_memory_usage_megabytes", "GPU memory (MiB)", _MB_IN_MIB),
    ("system/gpu_0_temperature_celsius", "GPU (°C)", 1.0),
    ("system/cpu_temperature_celsius", "CPU (°C)", 1.0),
)


def telemetry(summary: ReportSummary, name: ArmNames) -> Section | None:
    """One trial of each arm: the middle and the highest of each curve."""
    found = summary.curves
    shown = [each for each in _CURVES if any(each[0] in one.curves for one in found)]
    if not shown:
        return None
    headers = ("arm", *(title for _, title, _ in shown), "run")
    rows = tuple(
        (name(one.arm), *(_curve(one, key, per) for key, _, per in shown), one.run_id)
        for one in found
    )
    notes = (
        "Over the whole of one trial of middling time for each arm: the median, and the highest. "
        "Its run has the curves.",
    )
    table = Table(headers, rows, frozenset(range(1, len(headers) - 1)), divisible=True)
    return Section("In one trial of each arm", tables=(table,), paragraphs=notes)


def _curve(one: TelemetryCurves, key: str, per: float) -> str:
    values = [value * per for value in one.curves.get(key, ()) if value is not None]
    return f"{median(values):.0f}, at most {max(values):.0f}" if values else ABSENT
