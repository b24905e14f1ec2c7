"""Disturbed trials: detection from observations of the node, and texts for people.

The trial's own step time is never used: it is what arms are compared by, and excluding slow trials
would make any implementation look faster. A disturbance hits implementations unequally (see
`analysis.statistics.verdicts`), so it does not cancel within a block.
"""

import math
from collections.abc import Mapping

from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.text import counted
from orchestrator.core.trial import Telemetry

Disturbance = Mapping[str, float]
"""What disturbed a trial, each cause with its figure; empty for an undisturbed trial."""

_LOADS = {"other_processes": "others_cpu_pct", "host_steal": "steal_pct"}
"""Causes whose figure is a share of the CPUs that the trainer could not have: the metric.

The limit is the field of `DisturbanceLimits` that is named as the metric.
"""

_MOST_THROTTLED_PCT = 5.0
"""Of the time. More than this, and the trial is disturbed."""

_MOST_CLOCK_DROP_PCT = 10.0
"""Of the device's highest clock."""

_SENTENCES = {
    "other_processes": "other processes took {:.0f} % of the CPUs",
    "host_steal": "the machine's host took {:.0f} % of the CPUs",
    "throttling": "clocks were throttled {:.0f} % of the time",
    "low_clocks": "clocks were {:.0f} % below their maximum",
}
_POWER_LIMIT = "sw_power_cap"  # a GPU that reaches it does so in every trial, undisturbed


def detect_disturbance(
    metrics: Mapping[str, float], telemetry: Telemetry, limits: DisturbanceLimits
) -> dict[str, float]:
    """Return the figure of each cause that exceeds its limit; none for an undisturbed trial.

    Figures are percentages; of `shared_gpu` the number of other processes. Other trainers of the
    sweep are no disturbance: they have CPUs of their own. `metrics` include the metrics of
    telemetry; an absent one is unknown, and no cause.
    """
    causes = {
        cause: metrics[name]
        for cause, name in _LOADS.items()
        if metrics.get(name, 0.0) > getattr(limits, name)
    }
    throttled_pct = metrics.get("throttled_pct", 0.0)
    is_throttled_by_its_own_power = set(telemetry.throttle_reasons or ()) == {_POWER_LIMIT}
    if throttled_pct > _MOST_THROTTLED_PCT and not is_throttled_by_its_own_power:
        causes["throttling"] = throttled_pct
    clock_drop_pct = metrics.get("clock_drop_pct", 0.0)
    if clock_drop_pct > _MOST_CLOCK_DROP_PCT:
        causes["low_clocks"] = clock_drop_pct
    if telemetry.other_gpu_processes:
        causes["shared_gpu"] = telemetry.other_gpu_processes
    return causes


def load_pct(disturbance: Disturbance) -> float | None:
    """Return what others and the host took of the CPUs; None for a cause of another kind."""
    if not disturbance or not disturbance.keys() <= _LOADS.keys():
        return None
    return min(100.0, math.fsum(disturbance.values()))


def disturbance_text(disturbance: Mapping[str, float]) -> str | None:
    """Return all causes with their figures; None for an undisturbed trial."""
    return "; ".join(_cause_text(*item) for item in disturbance.items()) or None


def neighbours_text(telemetry: Telemetry) -> str | None:
    """Return other trainers on the node and processes on its GPUs; None if it was not observed."""
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
    if cause == "shared_gpu":
        return _gpu_processes(round(figure))
    return _SENTENCES[cause].format(figure) if cause in _SENTENCES else f"{cause} {figure:g}"


def _gpu_processes(number: int) -> str:
    return f"{number} other {'process' if number == 1 else 'processes'} on the GPU"
