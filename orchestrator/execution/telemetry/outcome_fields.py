"""What a trial's outcome keeps of its telemetry: metrics, notes, and curves that are not long."""

from __future__ import annotations

import time
from collections.abc import Mapping

from orchestrator.core.trial import Telemetry
from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.recording import Recording
from orchestrator.execution.telemetry.summary import summarise


def record(
    recording: Recording, started_s: float, told: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    """Metrics, and the rest. Never raises: a trial must outlive its telemetry.

    Args:
        recording: what was seen.
        started_s: when the trial began, in seconds since the epoch.
        told: the workload's own metrics. Where it tells its energy itself, that counts.
    """
    try:
        return _record(recording, started_s, told)
    except Exception as error:  # noqa: BLE001  (what went wrong stands in the notes)
        said = f"telemetry failed: {type(error).__name__}: {error}"
        return {}, Telemetry({"energy_absent": said})


def _record(
    recording: Recording, started_s: float, told: Mapping[str, float]
) -> tuple[dict[str, float], Telemetry]:
    summary = summarise(recording)
    metrics, notes = summary.metrics, summary.notes
    if "energy_j" in told:
        notes = {name: text for name, text in notes.items() if not name.startswith("energy_")}
        notes["energy_method"] = "workload"
    elif "energy_j" in metrics and (samples := _samples(told)):
        metrics["energy_per_sample_j"] = metrics["energy_j"] / samples
    metrics = {name: value for name, value in metrics.items() if name not in told}
    at_s, values = curves(recording.samples)
    begin_s = started_s - (time.time() - time.monotonic())  # on the clock of the samples
    return metrics, Telemetry(
        notes,
        tuple(round(each - begin_s, 2) for each in at_s),
        {name: tuple(map(_rounded, curve)) for name, curve in values.items()},
    )


def _samples(told: Mapping[str, float]) -> float | None:
    """How many samples were trained on."""
    rate, seconds = told.get("samples_per_s"), told.get("train_s")
    return rate * seconds if rate and seconds else None


def _rounded(value: float | None) -> float | None:
    """Four digits: a curve is looked at, and the journal keeps every one."""
    return None if value is None else float(f"{value:.4g}")
