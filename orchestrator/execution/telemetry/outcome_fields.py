"""The telemetry that a trial's outcome keeps: metrics, their qualifiers, and short curves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.readings import Recording
from orchestrator.execution.telemetry.summary import summarise


def record(
    recording: Recording, started_s: float, reported: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    """Return metrics, and the rest. Never raise: a trial must outlive its telemetry.

    Args:
        recording: all samples of the trial.
        started_s: when the trial began, in seconds since the epoch.
        reported: the workload's own metrics. An energy that it reports itself wins.
    """
    try:
        return _record(recording, started_s, reported)
    except Exception as error:  # noqa: BLE001  (the outcome has the reason)
        reason = f"telemetry failed: {type(error).__name__}: {error}"
        return {}, Telemetry(energy_absent=reason)


def _record(
    recording: Recording, started_s: float, reported: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    summary = summarise(recording)
    metrics, telemetry = summary.metrics, summary.telemetry
    if "energy_j" in reported:
        telemetry = replace(
            telemetry, energy_method="workload", energy_scope=None, energy_absent=None
        )
    elif "energy_j" in metrics and (samples := _samples(reported)):
        metrics["energy_per_sample_j"] = metrics["energy_j"] / samples
    metrics = {name: value for name, value in metrics.items() if name not in reported}
    at_s, values = curves(recording.samples)
    begin_s = started_s - (time.time() - time.monotonic())  # on the clock of the samples
    return metrics, replace(
        telemetry,
        at_s=tuple(round(time_s - begin_s, 2) for time_s in at_s),
        curves={name: tuple(map(_rounded, curve)) for name, curve in values.items()},
    )


def _samples(reported: Mapping[str, float]) -> float | None:
    """Return how many samples were trained on."""
    rate, seconds = reported.get("samples_per_s"), reported.get("train_s")
    return rate * seconds if rate and seconds else None


def _rounded(value: float | None) -> float | None:
    """Round to four digits: curves are only drawn, and the journal keeps every one."""
    return None if value is None else float(f"{value:.4g}")
