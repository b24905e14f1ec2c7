"""Disturbed trials: detection from observations of the node, and texts for people.

The trial's own step time is never used: it is what arms are compared by, and excluding slow trials
would make any implementation look faster. A disturbance hits implementations unequally (see
`analysis.statistics.verdicts`), so it does not cancel within a block.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Self

from orchestrator.core.arms import HardwareUse
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial, Telemetry

Disturbance = Mapping[str, float]
"""A figure for each cause of a trial's disturbance; empty for an undisturbed trial."""

_SHARES = {
    "other_processes": "others_cpu_pct",
    "host_steal": "steal_pct",
    "throttling": "throttled_pct",
    "low_clocks": "clock_drop_pct",
}
"""Causes whose figure is a percentage: the metric, and the field of `DisturbanceLimits`."""

_LOADS = ("other_processes", "host_steal")
"""Causes whose figure is a share of the CPUs that the trainer could not have."""

_CANARIES = {"slow_canary": "canary_ms", "slow_gpu": "canary_gpu_ms"}
"""Causes whose figure is the ratio of a canary's time to its expected time: the metric."""

_SENTENCES = {
    "other_processes": "other processes took {:.0f} % of the CPUs",
    "host_steal": "the machine's host took {:.0f} % of the CPUs",
    "throttling": "clocks were throttled {:.0f} % of the time",
    "low_clocks": "clocks were {:.0f} % below their maximum",
    "slow_canary": "the calibration probe took {:.2f} times its expected time",
    "slow_gpu": "the calibration probe of the GPU took {:.2f} times its expected time",
}
_POWER_LIMIT = "sw_power_cap"  # a GPU that reaches it does so in every trial, undisturbed
_MIN_CANARIES = 5  # the number of canary times from which the expected one is derived
_MAX_CANARIES = 99  # older ones are forgotten: they change, as with a node's temperature


def detect_disturbance(
    metrics: Mapping[str, float],
    telemetry: Telemetry,
    limits: DisturbanceLimits,
    expected_ms: Mapping[str, float],
) -> dict[str, float]:
    """Return the figure of each cause that exceeds its limit; none for an undisturbed trial.

    Figures are percentages; of a canary the ratio to its time in `expected_ms`, and of `shared_gpu`
    the number of other processes. Other trainers of the sweep are no disturbance: they have CPUs of
    their own. `metrics` include the metrics of telemetry; an absent one is unknown, and no cause.
    """
    causes: dict[str, float] = {}
    for cause, name in _SHARES.items():
        share = metrics.get(name, 0.0)
        if cause == "throttling" and set(telemetry.throttle_reasons or ()) == {_POWER_LIMIT}:
            continue
        if share > getattr(limits, name):
            causes[cause] = share
    for cause, name in _CANARIES.items():
        ratio = metrics.get(name, 0.0) / (expected_ms.get(name) or math.inf)
        if ratio > limits.canary:
            causes[cause] = ratio
    if telemetry.other_gpu_processes:
        causes["shared_gpu"] = telemetry.other_gpu_processes
    return causes


def load_pct(disturbance: Disturbance) -> float | None:
    """Return what others took of the CPUs, their host included; None for a cause of another kind.

    A slow calibration probe is a consequence of such a load, and adds nothing to it.
    """
    figures = [disturbance[cause] for cause in _LOADS if cause in disturbance]
    is_explained = figures and disturbance.keys() <= {*_LOADS, "slow_canary"}
    return min(100.0, math.fsum(figures)) if is_explained else None


_Place = tuple[str, str, HardwareUse, str]


@dataclass(slots=True)
class CanaryBaseline:
    """The expected times of the canaries in each place, learned from a sweep's trials in order.

    A place is a node, a hardware class and a backend, whose idle threads slow the canary down. The
    expected time is the upper quartile: virtual CPUs alternate between two speeds, and the slower
    one is normal. Disturbed trials count: a node that is slower for good is normal after a while.
    """

    _times: dict[_Place, list[float]] = field(default_factory=lambda: defaultdict(list))

    def expected_ms(self, finished: FinishedTrial) -> dict[str, float]:
        """Return the expected times by metric in a trial's place, of which there are enough."""
        times = {name: self._times.get(_place(name, finished), ()) for name in _CANARIES.values()}
        return {
            name: quantiles(canaries, n=4)[2]
            for name, canaries in times.items()
            if len(canaries) >= _MIN_CANARIES
        }

    def learn(self, finished: Iterable[FinishedTrial]) -> Self:
        """Learn from trials in their order, if they have canary times; return the baseline."""
        for trial, name in itertools.product(finished, _CANARIES.values()):
            canary_ms = trial.metrics.get(name)
            if canary_ms is not None:
                times = self._times[_place(name, trial)]
                times.append(canary_ms)
                del times[:-_MAX_CANARIES]
        return self


def _place(canary: str, finished: FinishedTrial) -> _Place:
    arm = finished.arm
    return canary, finished.node, arm.hardware, arm.implementation.partition("/")[0]


def disturbance_text(disturbance: Mapping[str, float]) -> str | None:
    """Return all causes with their figures; None for an undisturbed trial."""
    return "; ".join(_cause_text(*item) for item in disturbance.items()) or None


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
    if cause == "shared_gpu":
        return _gpu_processes(round(figure))
    return _SENTENCES[cause].format(figure) if cause in _SENTENCES else f"{cause} {figure:g}"


def _gpu_processes(number: int) -> str:
    return f"{number} other {'process' if number == 1 else 'processes'} on the GPU"
