"""How long the rest of a sweep may take, from the times of each arm's own trials.

The trials that an arm misses, times the median of its trials, are spread evenly over the lanes of
its hardware: arms take turns, so a round takes as long as its trials together. The nodes with the
most work decide.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.trial import FinishedTrial
from orchestrator.hardware import Node, classify
from orchestrator.planning.fleets import known_nodes, read_fleet
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.planning.pricing import AnyPrice, group_rounds, price_of, round_key, slot_s
from orchestrator.scheduling.remaining import RemainingWork, remaining_work
from orchestrator.scheduling.runnable import expect_runnable
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import JournalState

_Times: TypeAlias = NDArray[np.float64]
"""The lower quartile, the median and the upper quartile of seconds."""


@dataclass(frozen=True, slots=True)
class Quartiles:
    """A median between its lower and its upper quartile."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """How many trials of a plan are done, how many remain, and how long those may take.

    `seconds` are wall-clock time in trials: starting Ray and the trainers, and the report, come on
    top. `by_class` has the same for the nodes of each hardware class; the slowest class decides.
    `usd` is the price of all nodes for `seconds`, without the price of energy; None if a node has
    no price by the hour. `unmeasured` are the arms that miss trials and have no complete one: while
    there are any, nothing is estimated.
    """

    done: int
    remaining: int
    seconds: Quartiles | None = None
    by_class: Mapping[str, Quartiles] = field(default_factory=dict)
    usd: Quartiles | None = None
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetTimeLeft:
    """The time left on a fleet of that `name`, with the number of its `nodes` by class.

    `lacking` are the arms of the present nodes that cannot run there.
    """

    name: str
    nodes: Mapping[str, int]
    lacking: tuple[str, ...]
    time_left: TimeLeft


def estimate_time_left(work: RemainingWork, prices: Sequence[AnyPrice] = ()) -> TimeLeft:
    """Estimate how long the remaining work takes on the nodes of its plan."""
    plan = work.running
    finished = [event for event in work.history if isinstance(event, FinishedTrial)]
    missing = {
        planned.arm: replace(plan, possible=(planned,)).count_missing(finished)
        for planned in plan.possible
    }
    remaining = sum(missing.values())
    left = TimeLeft(plan.trials - remaining, remaining)
    seconds_of_trial = _seconds_by_arm(finished)
    unmeasured = [str(arm) for arm in missing if missing[arm] and arm not in seconds_of_trial]
    if unmeasured or not remaining:
        return replace(left, unmeasured=tuple(unmeasured))
    nodes = {node.id: node for planned in plan.possible for node in planned.hardware.nodes}
    by_class = defaultdict[str, list[_Times]](list)
    for id_, seconds in _seconds_by_node(plan, missing, seconds_of_trial).items():
        by_class[nodes[id_].main_class.name].append(seconds)
    slowest = {name: np.max(times, axis=0) for name, times in by_class.items()}
    longest = np.max([*slowest.values()], axis=0)
    usd_per_hour = _usd_per_hour(nodes.values(), prices)
    usd = None if usd_per_hour is None else longest / 3600 * usd_per_hour
    return replace(
        left,
        seconds=Quartiles(*longest.tolist()),
        by_class={name: Quartiles(*times.tolist()) for name, times in slowest.items()},
        usd=None if usd is None else Quartiles(*usd.tolist()),
    )


def estimate_fleets(
    spec: SweepSpec, state: JournalState, fleets: Iterable[str], present: Sequence[Node]
) -> list[FleetTimeLeft]:
    """Estimate how long the rest of a sweep takes on each of these fleets (see `read_fleet`).

    Raise `Refusal` for a fleet that cannot run the sweep.
    """
    samples = known_nodes(present, state.finished.values())
    arms_here = make_plan(spec, classify(present)).arms
    estimates = []
    for text in fleets:
        nodes = read_fleet(text, samples)
        plan = make_plan(spec, classify(nodes))
        expect_runnable(spec, plan)
        work = remaining_work(spec, plan, state, retry_failed=False)
        lacking = tuple(str(arm) for arm in arms_here if arm not in plan.arms)
        counts = dict(Counter(node.main_class.name for node in nodes))
        estimates.append(
            FleetTimeLeft(text, counts, lacking, estimate_time_left(work, spec.prices))
        )
    return estimates


def _seconds_by_arm(finished: Sequence[FinishedTrial]) -> dict[Arm, _Times]:
    """Return the quartiles of the seconds of each arm's complete trials.

    A trainer's first trial includes its start-up. It counts only for arms without other trials.
    """
    first, warm = defaultdict[Arm, list[float]](list), defaultdict[Arm, list[float]](list)
    for trial, seconds in zip(finished, seconds_in_slot(finished), strict=True):
        if trial.status == "complete":
            (warm if trial.trainer_trials else first)[trial.arm].append(seconds)
    return {arm: np.quantile(times, (0.25, 0.5, 0.75)) for arm, times in {**first, **warm}.items()}


def seconds_in_slot(finished: Sequence[FinishedTrial]) -> list[float]:
    """Return the seconds that each trial kept its slot: its share of its round."""
    rounds = group_rounds(finished)
    return [slot_s(trial.outcome, rounds[round_key(trial)]) for trial in finished]


def _seconds_by_node(
    plan: Plan, missing: Mapping[Arm, int], seconds_of_trial: Mapping[Arm, _Times]
) -> dict[str, _Times]:
    """Return how long each node works, if the missing trials of an arm are spread evenly."""
    lanes = {lane.node.id: lane for group in make_lanes(plan) for lane in group.lanes}
    by_node = {id_: np.zeros(3) for id_ in lanes}
    for planned in plan.possible:
        if missing[planned.arm]:
            ids = [node.id for node in planned.hardware.nodes]
            at_once = sum(lanes[id_].room(planned.arm.device) for id_ in ids)
            for id_ in ids:
                by_node[id_] += missing[planned.arm] * seconds_of_trial[planned.arm] / at_once
    return by_node


def _usd_per_hour(nodes: Iterable[Node], prices: Sequence[AnyPrice]) -> float | None:
    """Return what all nodes cost by the hour; None if one of them has no such price."""
    rents = []
    for node in nodes:
        price = price_of(HardwareUse(node.main_class), prices)
        if price is None or price.usd_per_hour is None:
            return None
        rents.append(price.usd_per_hour * max(1, node.gpus) / price.gpus)
    return math.fsum(rents)
