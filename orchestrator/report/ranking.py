"""Which arm is first: the fastest implementation on some hardware, the cheapest hardware for one.

A comparison answers for one arm and its baseline; who has to choose asks which of several is best.
All pairs of a group are judged together, so that the one that happens to lead is not believed for
having been chosen by its own numbers: a wrong "first" stands in at most 5 % of groups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from orchestrator.report.blocks import Matched, Round
from orchestrator.report.judgement import Judgement, judge
from orchestrator.report.regression import Numbers
from orchestrator.report.statistics import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
)
from orchestrator.selector import mathematics_of, measure_of, work_of
from orchestrator.trial import Arm

Among = Literal["implementations", "hardware", "arms"]
Standing = Literal["same", "worse", "cannot tell"]

RANKED = ("energy_per_sample_j", "train_cost_usd")
"""What arms are ranked by beside time, where it was measured; small is good."""

_BY_THE_HOUR = ("train_cost_usd",)
"""On one hardware class this is time again."""


@dataclass(frozen=True, slots=True)
class Behind:
    """An arm beside the leader of its group.

    `ratio` is how many times the leader's value its own is (geometric mean over blocks), with the
    corrected interval, or the plain one where there are too few blocks for a standing.
    """

    arm: Arm
    standing: Standing
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group of arms that may be compared, by one metric; the leader has the smallest values.

    `among` is what the reader chooses between: implementations `within` one hardware class,
    hardware `within` one implementation, or arms (`within` is empty). `sole` tells whether the
    leader is shown to be better than each of the others by more than can be chance. `disturbed`
    counts those of the `blocks` that had a disturbed round, where there were too few quiet ones.
    """

    metric: str
    among: Among
    within: str
    leader: Arm
    behind: tuple[Behind, ...]
    blocks: int
    sole: bool
    disturbed: int = 0


def rankings(
    matched: Matched,
    metric: str | None,
    margin: float,
    scopes: Mapping[Arm, str],
    error: float = 1 - CONFIDENCE,
) -> tuple[Ranking, ...]:
    """Rank the arms of each hardware class, the hardware of each implementation, and all arms.

    Only arms of equal mathematics and amount of work stand in one group, trained or timed in
    slices alike; for energy, of one scope (`scopes`, by arm).

    Args:
        matched: the complete rounds.
        metric: what time is told by; None for no ranking by it.
        margin: the share within which values are the same.
        scopes: what each arm's energy is that of.
        error: the share of groups in which one may wrongly stand before another.
    """
    found = []
    for each in filter(None, (metric, *RANKED)):
        values = _values(matched, each)
        for among, within, arms in _groups(list(values), each, scopes):
            known = _values(matched, each, torn) if (torn := matched.torn(arms)) else values
            if (ranked := _rank(arms, known, margin, error)) is not None:
                found.append(Ranking(each, among, within, *ranked))
    return tuple(found)


def _groups(
    arms: Sequence[Arm], metric: str, scopes: Mapping[Arm, str]
) -> list[tuple[Among, str, list[Arm]]]:
    groups: dict[tuple[Among, str, object], list[Arm]] = {}
    for arm in arms:
        scope = scopes.get(arm, "") if metric.startswith("energy") else ""
        alike = (mathematics_of(arm), work_of(arm), measure_of(arm), scope)
        if metric not in _BY_THE_HOUR:
            groups.setdefault(("implementations", arm.hardware, alike), []).append(arm)
        groups.setdefault(("hardware", arm.implementation, alike), []).append(arm)
        groups.setdefault(("arms", "", alike), []).append(arm)
    several = [(among, within, own) for (among, within, _), own in groups.items() if len(own) > 1]
    order = ("implementations", "hardware", "arms")
    return sorted(
        (each for each in several if each[0] != "arms" or _is_a_field(each[2])),
        key=lambda each: order.index(each[0]),
    )


def _is_a_field(arms: Sequence[Arm]) -> bool:
    """Whether they differ in both, implementation and hardware: else another group has them all."""
    return len({a.hardware for a in arms}) > 1 and len({a.implementation for a in arms}) > 1


def _values(
    matched: Matched, metric: str, left_out: Collection[Round] = ()
) -> dict[Arm, tuple[Numbers, Numbers]]:
    """Each arm's mean log by block, over its quiet rounds and over all; NaN where it has none."""
    place = {block: i for i, block in enumerate(matched.blocks)}
    noisy = {each for rounds in matched.disturbed.values() for each in rounds}
    found = {}
    for arm, rounds in matched.trials.items():
        sums = np.zeros((2, 2, len(place)))  # quiet rounds and all: sum of logs, and count
        for each, trials in rounds.items():
            for trial in trials if each not in left_out else ():
                value = trial.metrics.get(metric, math.nan)
                if math.isfinite(value) and value > 0:
                    entry = (math.log(value), 1.0)
                    sums[1, :, place[each[0]]] += entry
                    if each not in noisy:
                        sums[0, :, place[each[0]]] += entry
        if sums[1, 1].any() or left_out:
            with np.errstate(invalid="ignore"):
                found[arm] = (sums[0, 0] / sums[0, 1], sums[1, 0] / sums[1, 1])
    return found


def _rank(
    arms: Sequence[Arm],
    values: Mapping[Arm, tuple[Numbers, Numbers]],
    margin: float,
    error: float,
) -> tuple[Arm, tuple[Behind, ...], int, bool, int] | None:
    """The leader over the blocks that all have, and where the others stand; None without blocks."""
    logs = np.array([values[arm][0] for arm in arms])
    quiet = np.isfinite(logs).all(axis=0)
    shared = quiet
    if shared.sum() < MIN_BLOCKS:  # too few quiet ones
        logs = np.array([values[arm][1] for arm in arms])
        shared = np.isfinite(logs).all(axis=0)
    if not shared.any():
        return None
    kept = logs[:, shared]
    pairs = list(combinations(range(len(arms)), 2))
    logs_apart = [(kept[j] - kept[i]).tolist() for i, j in pairs]
    judged = dict(zip(pairs, judge(logs_apart, math.log1p(margin), error), strict=True))
    order = sorted(range(len(arms)), key=lambda i: float(kept[i].mean()))
    lead = order[0]
    behind = tuple(
        _behind(arms[i], kept[i] - kept[lead], *_seen(judged, lead, i)) for i in order[1:]
    )
    sole = all(each.standing == "worse" for each in behind)
    return arms[lead], behind, int(shared.sum()), sole, int((shared & ~quiet).sum())


def _seen(
    judged: Mapping[tuple[int, int], Judgement], lead: int, other: int
) -> tuple[Judgement, bool]:
    """The pair's judgement, and whether it stands the other way round."""
    return (judged[lead, other], False) if lead < other else (judged[other, lead], True)


def _behind(arm: Arm, logs: Numbers, judgement: Judgement, turned: bool) -> Behind:
    standing: Standing = "cannot tell"
    if judgement.finding == "same":
        standing = "same"
    elif judgement.finding == ("less" if turned else "more"):
        standing = "worse"
    if judgement.corrected is None:
        return Behind(arm, standing, geometric_mean(np.exp(logs).tolist()))
    found = judgement.corrected
    if turned:
        found = Estimate(found.n, -found.value, -found.high, -found.low)
    return Behind(arm, standing, exponential(found))
