"""Rankings: the fastest implementation on some hardware, the cheapest hardware for one, …

A comparison has one arm and its baseline; a choice is between several arms. All pairs of a group
are one family, which accounts for the leader being chosen by its own numbers: a wrong leader occurs
in at most 5 % of groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.metrics.derived import finite
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.pairing.groups import Among, Group, groups
from orchestrator.analysis.pairing.pairs import select_rounds
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    geometric_mean,
)
from orchestrator.analysis.statistics.verdicts import Judgement, judge
from orchestrator.core.arms import Arm

Standing = Literal["same", "worse", "inconclusive"]

RANKED = ("energy_per_sample_j", "train_cost_usd")
"""Metrics of rankings in addition to time, if they were measured; small is good."""

_Logs = Mapping[Arm, Mapping[Round, float]]
"""Each arm's mean log of a metric, by complete round."""


@dataclass(frozen=True, slots=True)
class Behind:
    """An arm compared with the leader of its group.

    `ratio` is its value over the leader's (geometric mean over blocks), with the corrected
    interval, or the plain one if the blocks are too few or too disturbed for a standing.
    """

    arm: Arm
    standing: Standing
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group of comparable arms, ranked by one metric; the leader has the smallest values.

    `among` is the kind of choice: implementations `within` one hardware class, hardware `within`
    one implementation, or arms (`within` is empty). `sole` is true if the leader is significantly
    better than each of the others. `disturbed` counts the `blocks` in which one of these arms was
    disturbed, if there were too few quiet ones. `reason` explains why no standing is possible; None
    if it is. `left_out` are arms of an earlier start that lack the rounds for a rank.
    """

    metric: str
    among: Among
    within: str
    leader: Arm
    behind: tuple[Behind, ...]
    blocks: int
    sole: bool
    disturbed: int = 0
    reason: str | None = None
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
        metric: the metric of time; None for no ranking by time.
        margin: the share within which values are the same.
        scopes: the scope of each arm's energy; empty if it is mixed or unknown.
        error: the share of groups in which a standing may be wrong.
    """
    results = []
    for ranked_by in filter(None, (metric, *RANKED)):
        logs = _logs(matched, ranked_by)
        for group in groups(matched, list(logs), ranked_by, scopes):
            if (shared := _shared(matched, group.arms, logs)) is not None:
                results.append(_rank(ranked_by, group, shared, margin, error))
    return tuple(results)


def _logs(matched: CompleteRounds, metric: str) -> _Logs:
    means: dict[Arm, dict[Round, float]] = {}
    for arm, rounds in matched.trials.items():
        for key, trials in rounds.items():
            logs = [math.log(value) for value in finite(trials, metric) if value > 0]
            if logs:
                means.setdefault(arm, {})[key] = fmean(logs)
    return means


@dataclass(frozen=True, slots=True)
class _Shared:
    """The mean logs of a group in its common blocks: a row for each arm, a column for each block.

    `disturbed` and `reason` are those of a ranking.
    """

    logs: NDArray[np.float64]
    disturbed: int = 0
    reason: str | None = None


def _shared(matched: CompleteRounds, arms: Sequence[Arm], logs: _Logs) -> _Shared | None:
    """Return the group's common rounds: quiet ones if they are enough, else all; None if none."""
    rounds = set.intersection(*(set(logs[arm]) for arm in arms)) - matched.not_interleaved(arms)
    if not rounds:
        return None
    selection = select_rounds(rounds, [matched.disturbances.get(arm, {}) for arm in arms])
    blocks = selection.by_block.values()
    means = np.array([[fmean(logs[arm][key] for key in keys) for keys in blocks] for arm in arms])
    reason = selection.reason
    if len(blocks) < MIN_BLOCKS:
        reason = f"at least {MIN_BLOCKS} are needed"
    return _Shared(means, 0 if selection.quiet_only else len(selection.disturbed), reason)


def _rank(metric: str, group: Group, shared: _Shared, margin: float, error: float) -> Ranking:
    """Return the leader, and the standings of the others."""
    arms, logs = group.arms, shared.logs
    pairs = list(combinations(range(len(arms)), 2))
    differences = [(logs[j] - logs[i]).tolist() if not shared.reason else [] for i, j in pairs]
    judged = dict(zip(pairs, judge(differences, math.log1p(margin), error), strict=True))
    order = sorted(range(len(arms)), key=lambda i: float(logs[i].mean()))
    lead = order[0]
    behind = tuple(
        _behind(arms[i], logs[i] - logs[lead], *_judgement_of(judged, lead, i)) for i in order[1:]
    )
    return Ranking(
        metric,
        group.among,
        group.within,
        leader=arms[lead],
        behind=behind,
        blocks=logs.shape[1],
        sole=all(rival.standing == "worse" for rival in behind),
        disturbed=shared.disturbed,
        reason=shared.reason,
        left_out=group.left_out,
    )


def _judgement_of(
    judged: Mapping[tuple[int, int], Judgement], lead: int, other: int
) -> tuple[Judgement, bool]:
    """Return the pair's judgement, and true if its direction is reversed."""
    return (judged[lead, other], False) if lead < other else (judged[other, lead], True)


def _behind(
    arm: Arm, logs: NDArray[np.float64], judgement: Judgement, reversed_pair: bool
) -> Behind:
    standing: Standing = "inconclusive"
    if judgement.finding == "same":
        standing = "same"
    elif judgement.finding == ("less" if reversed_pair else "more"):
        standing = "worse"
    if judgement.corrected is None:
        return Behind(arm, standing, geometric_mean(np.exp(logs).tolist()))
    estimate = judgement.corrected
    if reversed_pair:
        estimate = Estimate(estimate.n, -estimate.value, -estimate.high, -estimate.low)
    return Behind(arm, standing, exponential(estimate))
