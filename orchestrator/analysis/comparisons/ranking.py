"""Rankings: the fastest implementation on some hardware, the cheapest hardware for one, …

A comparison has one arm and its baseline; a choice is between several arms. All pairs of a group
are one family, which accounts for the leader being chosen by its own numbers: a wrong leader occurs
in at most 5 % of groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np

from orchestrator.analysis.measures import FRESH_ONLY, SCOPED, scopes_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.pairing.pairs import positive_values
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    t_interval,
)
from orchestrator.analysis.statistics.verdicts import Finding, judge
from orchestrator.core.arms import Arm, HardwareUse

Among = Literal["implementations", "hardware", "arms"]
Standing = Literal["same", "worse", "inconclusive"]

RANKED = ("energy_per_sample_j", "train_cost_usd", *FRESH_ONLY)
"""Metrics of rankings in addition to time, if they were measured; small is good.

Memory counts only if every trainer was fresh.
"""

_STANDINGS: Mapping[Finding, Standing] = {"same": "same", "more": "worse"}


@dataclass(frozen=True, slots=True)
class Behind:
    """An arm compared with the leader of its group.

    `ratio` is its value over the leader's (geometric mean over blocks), with the corrected
    interval, or the plain one if the blocks are too few for a standing.
    """

    arm: Arm
    standing: Standing
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group of comparable arms, ranked by one metric; the leader has the smallest values.

    `among` is the kind of choice: implementations (in all variants) `within` one hardware class,
    hardware `within` one implementation (and variant), or arms (`within` is empty). `sole` is true
    if the leader is significantly better than each of the others. `disturbed` counts the `blocks`
    in which one of these arms was disturbed, if there were too few quiet ones; a `provisional`
    ranking is of so many that a ratio must exceed the largest bias. `reason` explains why no
    standing is possible; None if it is. `left_out` are arms of an earlier start that lack the
    rounds for a rank.
    """

    metric: str
    among: Among
    within: str
    leader: Arm
    behind: tuple[Behind, ...]
    blocks: int
    sole: bool
    disturbed: int
    reason: str | None
    left_out: tuple[Arm, ...]
    provisional: bool


def rankings(
    matched: CompleteRounds, metric: str | None, margin: float, error: float = 1 - CONFIDENCE
) -> tuple[Ranking, ...]:
    """Rank the arms of each hardware class, the hardware of each implementation, and all arms.

    The arms of a group have equal amounts of work and measuring modes, and for energy the same
    scope. Without a `metric` of time there is no ranking by time. Values within the margin
    (a share) are the same; `error` is the share of groups in which a standing may be wrong.
    """
    results = []
    every = (trial for arm in matched.trials for trial in matched.all_trials(arm))
    is_fresh = all(trial.trainer_trials == 0 for trial in every)
    for ranked_by in filter(None, (metric, *RANKED)):
        if ranked_by in FRESH_ONLY and not is_fresh:
            continue
        times = {arm: positive_values(own, ranked_by) for arm, own in matched.trials.items()}
        logs = {
            arm: {place: math.log(item.value) for place, item in own.items()}
            for arm, own in times.items()
            if own
        }
        for among, within, arms in _groups(matched, ranked_by, list(logs)):
            values = {arm: logs[arm] for arm in arms}
            ranking = _rank(matched, ranked_by, among, within, values, margin, error)
            results += [ranking] if ranking else []
    return tuple(results)


def _groups(
    matched: CompleteRounds, metric: str, measured: Sequence[Arm]
) -> Iterator[tuple[Among, str, list[Arm]]]:
    """Return the groups of the arms that have the metric, by the kind of choice."""
    members: dict[Among, dict[tuple[str | HardwareUse, object], list[Arm]]] = {
        "implementations": {}, "hardware": {}, "arms": {},
    }  # fmt: skip
    for arm in measured:
        scopes = scopes_of(matched.all_trials(arm)) if metric in SCOPED else frozenset()
        is_host_of_gpu = metric == "peak_rss_mib" and arm.device == "gpu"
        if len(scopes) > 1 or "" in scopes or is_host_of_gpu:
            continue
        alike = (arm.work, arm.measure, scopes)
        if metric != "train_cost_usd":  # on one hardware class it is proportional to time
            members["implementations"].setdefault((arm.hardware, alike), []).append(arm)
        members["hardware"].setdefault((arm.short_name, alike), []).append(arm)
        members["arms"].setdefault(("", alike), []).append(arm)
    for among, groups in members.items():
        for (within, _), arms in groups.items():
            hardware, names = {arm.hardware for arm in arms}, {arm.short_name for arm in arms}
            if among != "arms" or (len(hardware) > 1 and len(names) > 1):  # else it is another one
                yield among, str(within), arms


def _rank(
    matched: CompleteRounds,
    metric: str,
    among: Among,
    within: str,
    logs_of: Mapping[Arm, Mapping[Round, float]],
    margin: float,
    error: float,
) -> Ranking | None:
    """Return the leader and the standings of the others; None without two arms or common rounds."""
    # Arms of an earlier start that lack rounds would exclude these rounds.
    whole = [arm for arm in logs_of if len(matched.trials[arm]) == len(matched.rounds)]
    ranked = whole if len(whole) > 1 else list(logs_of)
    shared = set.intersection(*(set(logs_of[arm]) for arm in ranked))
    selection = matched.select(shared, ranked)
    blocks = selection.by_block.values()
    if len(ranked) < 2 or not blocks:
        return None
    logs = {
        arm: np.array([fmean(logs_of[arm][place] for place in places) for places in blocks])
        for arm in ranked
    }
    order = sorted(ranked, key=lambda arm: float(logs[arm].mean()))
    differences = [(logs[two] - logs[one]).tolist() for one, two in combinations(order, 2)]
    biases = [matched.bias(selection, pair) for pair in combinations(order, 2)]
    judged = judge(differences, math.log1p(margin), error, biases)
    behind = []  # the first pairs are those of the leader
    for arm, own, judgement in zip(order[1:], differences, judged, strict=False):
        ratio = exponential(judgement.corrected or t_interval(own))
        behind.append(Behind(arm, _STANDINGS.get(judgement.finding, "inconclusive"), ratio))
    return Ranking(
        metric,
        among,
        within,
        leader=order[0],
        behind=tuple(behind),
        blocks=len(blocks),
        sole=all(rival.standing == "worse" for rival in behind),
        disturbed=0 if selection.quiet_only else len(selection.disturbed),
        reason=f"at least {MIN_BLOCKS} are needed" if len(blocks) < MIN_BLOCKS else None,
        left_out=tuple(arm for arm in logs_of if arm not in ranked),
        provisional=selection.is_busy,
    )
