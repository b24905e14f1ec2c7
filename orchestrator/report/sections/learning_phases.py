"""The sections on the course of trials: learning, time by phase, and the load of the hardware."""

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
"""MLflow records curves in decimal megabytes."""


def learning(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the accuracy of each arm after the first, the middle and the last epoch, and when."""
    metrics = {curve.metric for curve in summary.learning}
    metric = next((accuracy for accuracy in ACCURACIES if accuracy in metrics), None)
    curves = [curve for curve in summary.learning if curve.metric == metric]
    if metric is None or not any(len(curve.points) > 1 for curve in curves):
        return None
    shown = _epochs(curves)
    headers = ("arm", "blocks", *(f"after epoch {epoch}" for epoch in shown))
    rows = tuple(
        (name(curve.arm), str(curve.points[0].value.n), *_at(curve, shown)) for curve in curves
    )
    notes = [
        f"Median {metric} over blocks, at the median training time up to that epoch. The JSON "
        "format has all epochs, metrics and quartiles."
    ]
    if unmatched := [name(curve.arm) for curve in curves if not curve.matched]:
        notes.append(f"Not matched, over all complete trials of the arm: {', '.join(unmatched)}.")
    table = Table(headers, rows, frozenset(range(1, len(headers))), divisible=True)
    return Section("Learning", tables=(table,), paragraphs=tuple(notes))


def _epochs(curves: Sequence[LearningCurve]) -> list[int]:
    """Return the first, the middle and the last epoch."""
    epochs = sorted({point.epoch for curve in curves for point in curve.points})
    last = len(epochs) - 1
    return [epochs[place] for place in sorted({0, last // 2, last})]


def _at(curve: LearningCurve, epochs: Sequence[int]) -> list[str]:
    points = {point.epoch: point for point in curve.points}
    return [
        f"{number(points[e].value.median)} at {_seconds(points[e].seconds)} s"
        if e in points
        else ABSENT
        for e in epochs
    ]


def phases(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the mean seconds of each phase, by arm."""
    splits = summary.phases
    if not splits:
        return None
    shown = [phase for phase in PHASES if any(phase in split.seconds for split in splits)]
    titles = (f"{phase.removesuffix('_s')}" for phase in shown)
    headers = ("seconds of", "trials", *titles)
    rows = tuple(
        (
            name(split.arm),
            str(split.trials),
            *(_seconds(split.seconds.get(phase)) for phase in shown),
        )
        for split in splits
    )
    notes = [
        "Mean seconds per trial over all complete trials, including those of fresh trainers. This "
        "shows where the time of the sweep went; comparisons use other figures."
    ]
    if any("timed_s" in split.seconds for split in splits):
        notes.append(
            "For arms that took turns, timed is the time of their own slices. The time that they "
            "waited for each other is not counted twice: it is in the phases of the others."
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
    """List the median and the highest value of each curve, for one trial of each arm."""
    trials = summary.curves
    shown = [column for column in _CURVES if any(column[0] in trial.curves for trial in trials)]
    if not shown:
        return None
    headers = ("arm", *(title for _, title, _ in shown), "run")
    rows = tuple(
        (name(trial.arm), *(_curve(trial, key, per) for key, _, per in shown), trial.run_id)
        for trial in trials
    )
    notes = [
        "Median and highest value over one whole trial of each arm, the one with the median time. "
        "Its MLflow run has the curves."
    ]
    if any(trial.arm.measure == "timing" for trial in trials):
        notes.append(
            "Arms that took turns were recorded together: the values of one arm cover all arms of "
            "its round."
        )
    table = Table(headers, rows, frozenset(range(1, len(headers) - 1)), divisible=True)
    return Section("Telemetry", tables=(table,), paragraphs=tuple(notes))


def _curve(trial: TelemetryCurves, key: str, per: float) -> str:
    values = [value * per for value in trial.curves.get(key, ()) if value is not None]
    return f"{median(values):.0f}, at most {max(values):.0f}" if values else ABSENT
