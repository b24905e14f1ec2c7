"""The sections of what went on in trials: learning, phases, and what the hardware did."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from orchestrator.analysis.arms.learning import LearningCurve
from orchestrator.analysis.arms.phases import PHASES
from orchestrator.analysis.arms.representatives import TelemetryCurves
from orchestrator.analysis.arms.trade_offs import ACCURACIES
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames

_MB_IN_MIB = 1e6 / 2**20
"""Curves are in MLflow's megabytes of decimal units."""


def learning(summary: ReportSummary, name: ArmNames) -> Section | None:
    """What each arm had learned after the first, the middle and the last epoch, and by when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((each for each in ACCURACIES if each in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    shown = _epochs(curves)
    headers = ("arm", "blocks", *(f"after epoch {epoch}" for epoch in shown))
    rows = tuple(
        (name(curve.arm), str(curve.points[0].value.n), *_at(curve, shown)) for curve in curves
    )
    notes = [
        f"Median {metric} over blocks, and the median time of training alone by then. All epochs, "
        "metrics and quartiles are in the JSON format."
    ]
    if apart := [name(curve.arm) for curve in curves if not curve.matched]:
        notes.append(f"Over all their own complete trials, not matched: {', '.join(apart)}.")
    table = Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)
    return Section("Learning", tables=(table,), paragraphs=tuple(notes))


def _epochs(curves: Sequence[LearningCurve]) -> list[int]:
    """The first, the middle and the last epoch."""
    found = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(found) - 1
    return [found[place] for place in sorted({0, last // 2, last})]


def _at(curve: LearningCurve, epochs: Sequence[int]) -> list[str]:
    points = {point.epoch: point for point in curve.points}
    return [
        f"{number(points[e].value.median)} at {_seconds(points[e].seconds)} s"
        if e in points
        else ABSENT
        for e in epochs
    ]


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
    notes = [
        "Mean seconds a trial, over all complete trials, those of fresh trainers among them: where "
        "a sweep's time went, not what is compared."
    ]
    if any("timed_s" in each.seconds for each in found):
        notes.append(
            "Of arms that took turns in slices, timed is what their own slices took: the time in "
            "which they waited for each other stands nowhere, as it is in the others' phases."
        )
    table = Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)
    return Section("Time by phase", tables=(table,), paragraphs=tuple(notes))


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
    notes = [
        "Over the whole of one trial of middling time for each arm: the median, and the highest. "
        "Its run has the curves."
    ]
    if any(one.arm.measure == "timing" for one in found):
        notes.append(
            "Arms that took turns in slices were watched together: what is shown of one is of all "
            "that were in its round."
        )
    table = Table(headers, rows, frozenset(range(1, len(headers) - 1)), divisible=True)
    return Section("In one trial of each arm", tables=(table,), paragraphs=tuple(notes))


def _curve(one: TelemetryCurves, key: str, per: float) -> str:
    values = [value * per for value in one.curves.get(key, ()) if value is not None]
    return f"{median(values):.0f}, at most {max(values):.0f}" if values else ABSENT
