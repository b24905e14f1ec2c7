"""Readable texts of an outcome's fields, for MLflow tags, reports and warnings.

Nothing reads a fact back from these texts.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.disturbance import (
    HOST_STEAL,
    LOW_CLOCKS,
    OTHER_PROCESSES,
    SHARED_GPU,
    SLOW_CANARY,
    THROTTLING,
)
from orchestrator.core.text import counted
from orchestrator.core.trial import Telemetry

_SENTENCES = {
    OTHER_PROCESSES: "other processes took {:.0f} % of the CPUs",
    HOST_STEAL: "the machine's host took {:.0f} % of the CPUs",
    THROTTLING: "clocks were throttled {:.0f} % of the time",
    LOW_CLOCKS: "clocks were {:.0f} % below their maximum",
    SLOW_CANARY: "the calibration probe took {:.2f} times its expected time",
}

_NAMES = {
    OTHER_PROCESSES: "other processes",
    HOST_STEAL: "the machine's host",
    THROTTLING: "throttling",
    LOW_CLOCKS: "low clocks",
    SLOW_CANARY: "a slow calibration probe",
    SHARED_GPU: "a shared GPU",
}


def cause_name(cause: str) -> str:
    """Return the readable name of a cause of disturbance."""
    return _NAMES.get(cause, cause)


def disturbance_text(disturbance: Mapping[str, float]) -> str | None:
    """Return all causes with their figures; None for an undisturbed trial."""
    if not disturbance:
        return None
    return "; ".join(_cause_text(cause, figure) for cause, figure in disturbance.items())


def neighbours_text(telemetry: Telemetry) -> str | None:
    """Return the other work on the node and its GPUs; None where it was not observed."""
    trainers, processes = telemetry.other_trainers, telemetry.other_gpu_processes
    if trainers is None and processes is None:
        return None
    parts = [f"{counted(trainers, 'other trainer')} on the node"] if trainers else []
    parts += [_gpu_processes(processes)] if processes else []
    return ", ".join(parts) or "none"


def throttle_text(reasons: Mapping[str, float] | None) -> str | None:
    """Return `sw_power_cap 80 %, sync_boost 2 %`."""
    if reasons is None:
        return None
    return ", ".join(f"{reason} {share:.0f} %" for reason, share in reasons.items()) or "none"


def _cause_text(cause: str, figure: float) -> str:
    if cause == SHARED_GPU:
        return _gpu_processes(round(figure))
    sentence = _SENTENCES.get(cause)
    return sentence.format(figure) if sentence else f"{cause} {figure:g}"


def _gpu_processes(number: int) -> str:
    return f"{number} other {'process' if number == 1 else 'processes'} on the GPU"
