"""Which arm is first: the fastest implementation on some hardware, the cheapest hardware for one.

A comparison answers for one arm and its baseline; who has to choose asks which of several is best.
All pairs of a group are judged together, so that the one that happens to lead is not believed for
having been chosen by its own numbers: a wrong "first" stands in at most 5 % of groups.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from orchestrator.analysis.metrics.derived import finite
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.pairing.groups import Among, Group, groups
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
)
from orchestrator.analysis.statistics.quiet_blocks import disturbance_reason
from orchestrator.analysis.statistics.regression import Numbers
from orchestrator.analysis.statistics.verdicts import Judgement, judge
from orchestrator.core.trial import Arm

Standing = Literal["same", "worse", "inconclusive"]

RANKED = ("energy_per_sample_j", "train_cost_usd")
"""What arms are ranked by beside time, where it was measured; small is good."""

_Logs = Mapping[Arm, Mapping[Round, float]]
"""Each arm's mean log of a metric by complete round, where it has any."""


@dataclass(frozen=True, slots=True)
class Behind:
    """An arm beside the leader of its group.

    `ratio` is how many times the leader's value its own is (geometric mean over blocks), with the
    corrected interval, or the plain one where the blocks are too few, or too disturbed, for a
    standing.
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
    counts those of the `blocks` in which one of these arms was disturbed, where there were too few
    quiet ones. `reason` says why the blocks tell nothing of any arm, and is empty where they may.
    `left_out` are arms of an earlier start that belong here, and are not ranked for want of rounds.
    """

    metric: str
    among: Among
    within: str
    leader: Arm
    behind: tuple[Behind, ...]
    blocks: int
    sole: bool
    disturbed: int = 0
    reason: str = ""
    left_out: tuple[Arm, ...] = ()


def rankings(
    matched: CompleteRounds,
    metric: str | None,
    margin: float,
    scopes: Mapping[Arm, str],
    error: float = 1 - CONFIDENCE,
) -> tuple[Ranking, ...]:
    """Rank the arms of each hardware class, the hardware of each implementation, and all arms.

    See `groups` for which of them may be compared.

    Args:
        matched: the complete rounds.
        metric: what time is told by; None for no ranking by it.
        margin: the share within which values are the same.
        scopes: what each arm's energy is that of; empty where it is of several things, or unknown.
        error: the share of groups in which one may wrongly stand before another.
    """
    found = []
    for each in filter(None, (metric, *RANKED)):
        logs = _logs(matched, each)
        for group in groups(matched, list(logs), each, scopes):
            if (shared := _shared(matched, group.arms, logs)) is not None:
                found.append(_rank(each, group, shared, margin, error))
    return tuple(found)


def _logs(matched: CompleteRounds, metric: str) -> _Logs:
    found: dict[Arm, dict[Round, float]] = {}
    for arm, rounds in matched.trials.items():
        for each, trials in rounds.items():
            told = [math.log(value) for value in finite(trials, metric) if value > 0]
            if told:
                found.setdefault(arm, {})[each] = math.fsum(told) / len(told)
    return found


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the arms of a group have in common: their mean logs, an arm a row and a block a column.

    `disturbed` and `reason` are those of a ranking.
    """

    logs: Numbers
    disturbed: int = 0
    reason: str = ""


def _shared(matched: CompleteRounds, arms: Sequence[Arm], logs: _Logs) -> _Shared | None:
    """The group's own rounds: the quiet ones where they are enough, else all; None without any."""
    rounds = set.intersection(*(set(logs[arm]) for arm in arms)) - matched.not_interleaved(arms)
    noisy = {each for arm in arms for each in matched.disturbances.get(arm, ())} & rounds
    used, quiet, disturbed = (_blocks(some) for some in (rounds, rounds - noisy, noisy))
    if not rounds:
        return None
    if len(quiet) >= MIN_BLOCKS:
        return _Shared(_means(rounds - noisy, arms, logs))
    few = f"at least {MIN_BLOCKS} are needed" if len(used) < MIN_BLOCKS else ""
    reason = few or disturbance_reason(len(used), len(quiet), len(disturbed)) or ""
    return _Shared(_means(rounds, arms, logs), len(disturbed), reason)


def _blocks(rounds: set[Round]) -> set[int]:
    return {block for block, _ in rounds}


def _means(rounds: set[Round], arms: Sequence[Arm], logs: _Logs) -> Numbers:
    blocks: dict[int, list[Round]] = defaultdict(list)
    for each in sorted(rounds):
        blocks[each[0]].append(each)
    return np.array(
        [
            [math.fsum(logs[arm][each] for each in own) / len(own) for own in blocks.values()]
            for arm in arms
        ]
    )


def _rank(metric: str, group: Group, shared: _Shared, margin: float, error: float) -> Ranking:
    """The leader, and where the others stand."""
    arms, kept = group.arms, shared.logs
    pairs = list(combinations(range(len(arms)), 2))
    logs_apart = [(kept[j] - kept[i]).tolist() if not shared.reason else [] for i, j in pairs]
    judged = dict(zip(pairs, judge(logs_apart, math.log1p(margin), error), strict=True))
    order = sorted(range(len(arms)), key=lambda i: float(kept[i].mean()))
    lead = order[0]
    behind = tuple(
        _behind(arms[i], kept[i] - kept[lead], *_seen(judged, lead, i)) for i in order[1:]
    )
    return Ranking(
        metric,
        group.among,
        group.within,
        leader=arms[lead],
        behind=behind,
        blocks=kept.shape[1],
        sole=all(each.standing == "worse" for each in behind),
        disturbed=shared.disturbed,
        reason=shared.reason,
        left_out=group.left_out,
    )


def _seen(
    judged: Mapping[tuple[int, int], Judgement], lead: int, other: int
) -> tuple[Judgement, bool]:
    """The pair's judgement, and whether it stands the other way round."""
    return (judged[lead, other], False) if lead < other else (judged[other, lead], True)


def _behind(arm: Arm, logs: Numbers, judgement: Judgement, turned: bool) -> Behind:
    standing: Standing = "inconclusive"
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
