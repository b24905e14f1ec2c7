"""The bias of a ratio of times by other work on the machine, as it was measured.

Other work slows implementations down unequally, so it does not cancel in their ratio. `make
benchmark-bias` measures by how much, under loads of several sizes, and `make bias-curve` writes
`bias.json` from its result. Here the bound follows that a verdict on a busy machine must exceed.
"""

import functools
import importlib.resources
import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import MeasureMode
from orchestrator.core.disturbance import Disturbance, load_pct
from orchestrator.hardware import OtherWork
from orchestrator.planning.plan import PlannedArm
from workloads.backends.registry import backends

BiasKind = Literal["within", "between", "alone", "between barriers", "alone barriers"]
"""The arms had the same other work, `within` one backend or `between` two, or `alone` had it.

With `barriers` one backend has the trait `Backend.threads_wait_for_each_other`.
"""

_UNMEASURED = "shared_gpu"

_SAME_PCT = 10.0
"""Loads of two arms that differ by more percentage points are not the same other work."""


@dataclass(frozen=True, slots=True)
class BiasPoint:
    """The bias under one load.

    Processes that ask for `dose_pct` of a core took `others_pct` of the CPUs beside a trainer, and
    moved ratios by `factor` at most: the largest upper end of a 95 % interval.
    """

    dose_pct: int
    others_pct: float
    factor: float


@dataclass(frozen=True, slots=True)
class BiasCurve:
    """The bias of one kind of ratio, by the load on `where`: `one core`, or `each core`."""

    measure: MeasureMode
    kind: str
    where: str
    points: tuple[BiasPoint, ...]

    def at(self, others_pct: float) -> float:
        """Return the logarithm of the bound under a load; beyond the ends the last point's.

        It is interpolated between the measured loads, and never falls as the load grows.
        """
        loads = np.maximum.accumulate([point.others_pct for point in self.points])
        logs = np.maximum.accumulate([math.log(point.factor) for point in self.points])
        return float(np.interp(others_pct, loads, logs))


@dataclass(frozen=True, slots=True)
class MeasuredBias:
    """All curves, where and when they were measured, and the largest load that was tried."""

    source: str
    up_to_pct: float
    curves: tuple[BiasCurve, ...]

    def at(self, measure: MeasureMode, kind: BiasKind, others_pct: float) -> float:
        """Return the logarithm of the bound, the larger of the loads on one core and on each.

        It is infinite above the loads that were measured.
        """
        if others_pct > self.up_to_pct:
            return math.inf
        fitting = (c for c in self.curves if (c.measure, c.kind) == (measure, kind))
        return max((curve.at(others_pct) for curve in fitting), default=math.inf)


@functools.cache
def measured_bias() -> MeasuredBias:
    """Return what the package knows of the bias."""
    path = importlib.resources.files(__package__) / "bias.json"
    return bias_from_json(json.loads(path.read_text(encoding="utf-8")))


def bias_from_json(data: Any) -> MeasuredBias:
    """Return curves from the content of `bias.json`."""
    curves = (
        BiasCurve(
            curve["measure"],
            curve["kind"],
            curve["where"],
            tuple(BiasPoint(**point) for point in curve["points"]),
        )
        for curve in data["curves"]
    )
    return MeasuredBias(data["source"], data["up_to_pct"], tuple(curves))


def largest_bias(arms: tuple[Arm, Arm], rounds: Sequence[tuple[Disturbance, Disturbance]]) -> float:
    """Return the largest bias of the mean log-ratio of two arms' times; infinite if unmeasured.

    `rounds` have the disturbance of each arm, empty for an undisturbed trial. The bias of a mean is
    at most the mean of the rounds' bounds, each for the load that was there (`load_pct`): so much
    is `exp(largest_bias(...))` times. Rounds without any disturbance count as 0; loads are rounded
    up to whole percents.
    """
    mode: MeasureMode = "timing" if {arm.measure for arm in arms} == {"timing"} else "full"
    measured = measured_bias()
    bound = functools.cache(functools.partial(measured.at, mode))  # there may be 10,000 rounds
    total = 0.0
    for disturbances in rounds:
        disturbed = [disturbance for disturbance in disturbances if disturbance]
        if any(_UNMEASURED in disturbance for disturbance in disturbed):
            return math.inf
        if disturbed:
            total += bound(*_kind_and_load(arms, mode, disturbed, measured.up_to_pct))
    return total / len(rounds) if rounds else 0.0


class LargestEffect(NamedTuple):
    """The largest `ratio` of times of two arms that other work alone can cause, and these arms.

    The ratio is 1 where no two arms are compared, and infinite where the effect of so much was not
    measured.
    """

    ratio: float
    arms: tuple[Arm, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, with their hardware only where it tells them apart."""
        short = tuple(arm.short_name for arm in self.arms)
        return short if len({*short}) == len(short) else tuple(map(str, self.arms))


def effect_of_other_work(
    planned: Sequence[PlannedArm], seen: Mapping[str, OtherWork], limit_pct: float
) -> LargestEffect:
    """Return the largest effect on two of these arms of other work as it was seen, by host name."""
    loads = {arm.arm: _load_of(arm, seen, limit_pct) for arm in planned}
    effects = (
        LargestEffect(math.exp(largest_bias(pair, [(loads[pair[0]], loads[pair[1]])])), pair)
        for pair in itertools.combinations(loads, 2)
    )
    return max(effects, key=lambda effect: effect.ratio, default=LargestEffect(1.0, ()))


def _load_of(arm: PlannedArm, seen: Mapping[str, OtherWork], limit_pct: float) -> Disturbance:
    """Return how other work as it was seen disturbs trials of an arm, on its busiest node."""
    hosts = (node.profile.hostname for node in arm.hardware.nodes)
    most = max((seen[host].others_pct for host in hosts if host in seen), default=0.0)
    return {"other_processes": most} if most > limit_pct else {}


def _kind_and_load(
    arms: tuple[Arm, Arm],
    mode: MeasureMode,
    disturbed: Sequence[Disturbance],
    unknown_pct: float,
) -> tuple[BiasKind, int]:
    """Return the kind of one round's ratio, and the load of its disturbed trials, one or two."""
    names = [arm.implementation for arm in arms]
    loads = [load for disturbance in disturbed if (load := load_pct(disturbance)) is not None]
    if len(loads) < len(disturbed):  # nobody knows which load a cause of another kind is worth
        loads = [unknown_pct] * len(disturbed)
    # Arms that take turns share the other work, even where only one was marked.
    is_same = len(loads) == len(arms) and max(loads) - min(loads) <= _SAME_PCT
    if arms[0].hardware_class == arms[1].hardware_class and (mode == "timing" or is_same):
        return bias_kind(names, alike=True), math.ceil(math.fsum(loads) / len(loads))
    return bias_kind(names, alike=False), math.ceil(max(loads))


def bias_kind(implementations: Collection[str], *, alike: bool) -> BiasKind:
    """Return the kind of a ratio of implementations that had the same other work, if `alike`."""
    names = {implementation.partition("/")[0] for implementation in implementations}
    if alike and len(names) == 1:
        return "within"
    if any(map(_has_barriers, names)):
        return "between barriers" if alike else "alone barriers"
    return "between" if alike else "alone"


def _has_barriers(name: str) -> bool:
    """Return True if a backend's threads wait for each other, and for an unknown backend."""
    backend = backends().get(name)
    return backend is None or backend.threads_wait_for_each_other
