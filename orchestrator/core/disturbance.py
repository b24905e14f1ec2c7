"""Detect disturbed trials from observations of the node.

The trial's own step time is never used: it is what arms are compared by, and excluding slow trials
would make any implementation look faster. A disturbance hits implementations unequally (a busy
core: JAX × 0.98, TensorFlow × 1.8, PyTorch × 3.7), so it does not cancel within a block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from orchestrator.core.arms import HardwareUse
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.trial import FinishedTrial, Telemetry

OTHER_PROCESSES = "other_processes"
HOST_STEAL = "host_steal"
THROTTLING = "throttling"
LOW_CLOCKS = "low_clocks"
SLOW_CANARY = "slow_canary"
SHARED_GPU = "shared_gpu"

_SHARES = (
    (OTHER_PROCESSES, "others_cpu_pct"),
    (HOST_STEAL, "steal_pct"),
    (THROTTLING, "throttled_pct"),
    (LOW_CLOCKS, "clock_drop_pct"),
)
"""Causes whose figure is a percentage, with the metric and the limit of that name."""

_OF_CPUS = ("others_cpu_pct", "steal_pct")
_SAMPLING_S = 1.0
"""The interval between samples of a node's CPU time. In shorter trials the shares include work
from before and after the trial, such as recording the previous one."""

_POWER_LIMIT = "sw_power_cap"
"""A GPU that runs at its own power limit does so in every trial, undisturbed."""

_MIN_CANARIES = 5
"""The number of canary times from which the expected one is derived."""

_MAX_CANARIES = 99
"""Older canary times are forgotten: the expected time changes, as with a node's temperature."""


def detect_disturbance(
    metrics: Mapping[str, float],
    telemetry: Telemetry,
    limits: DisturbanceLimits,
    expected_canary_ms: float | None,
) -> dict[str, float]:
    """Return the figure of each cause that exceeds its limit; none for an undisturbed trial.

    Figures are percentages; of `slow_canary` the ratio to its expected time, and of `shared_gpu`
    the number of other processes. Causes that were not measured are absent. Other trainers of the
    sweep are no disturbance: they have CPUs of their own, which `others_cpu_pct` leaves out.

    Args:
        metrics: the metrics of the trial, including those of its telemetry.
        telemetry: the other measurements.
        limits: the limits of the spec.
        expected_canary_ms: the canary time that `CanaryBaseline` expected before this trial.
    """
    causes: dict[str, float] = {}
    for cause, name in _SHARES:
        share = metrics.get(name, 0.0)
        if cause == THROTTLING and set(telemetry.throttle_reasons or ()) == {_POWER_LIMIT}:
            continue
        if share > getattr(limits, name) * _short_trial_factor(name, metrics):
            causes[cause] = share
    canary_ms = metrics.get("canary_ms")
    if canary_ms is not None and expected_canary_ms:
        ratio = canary_ms / expected_canary_ms
        if ratio > limits.canary:
            causes[SLOW_CANARY] = ratio
    if telemetry.other_gpu_processes:
        causes[SHARED_GPU] = telemetry.other_gpu_processes
    return causes


def _short_trial_factor(name: str, metrics: Mapping[str, float]) -> float:
    """Return the factor by which a limit is wider for a trial shorter than a sample."""
    timed_s = metrics.get("timed_s", metrics.get("train_s", _SAMPLING_S))
    return max(1.0, _SAMPLING_S / timed_s) if name in _OF_CPUS and timed_s > 0 else 1.0


_Place = tuple[str, HardwareUse, str]


@dataclass(slots=True)
class CanaryBaseline:
    """The expected time of the canary in each place, learned from a sweep's trials in order.

    A place is a node, a hardware class and a backend, since the idle threads of a framework slow
    the canary down in their own way. The expected time is the upper quartile, not the median:
    virtual CPUs that share a core with another machine's alternate between two speeds, and the
    slower one is normal there. Disturbed trials count too, so that a node that has become slower
    for good is normal after a while.
    """

    _times: dict[_Place, list[float]] = field(default_factory=lambda: defaultdict(list))

    def expected_ms(self, finished: FinishedTrial) -> float | None:
        """Return the expected time in the place of a trial; None before there are enough times."""
        times = self._times.get(_place(finished), ())
        return quantiles(times, n=4)[2] if len(times) >= _MIN_CANARIES else None

    def add(self, finished: FinishedTrial) -> None:
        """Learn from a finished trial, if it has a canary time."""
        canary_ms = finished.metrics.get("canary_ms")
        if canary_ms is not None:
            times = self._times[_place(finished)]
            times.append(canary_ms)
            del times[:-_MAX_CANARIES]

    def learn(self, finished: Sequence[FinishedTrial]) -> CanaryBaseline:
        """Learn from trials in their order, and return the baseline itself."""
        for trial in finished:
            self.add(trial)
        return self


def _place(finished: FinishedTrial) -> _Place:
    arm = finished.arm
    return finished.node, arm.hardware, arm.implementation.partition("/")[0]
