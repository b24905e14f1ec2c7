"""Rounds: the trials of one block and repeat that ran on one node, and when they run once more.

A disturbance hits implementations unequally, so that a disturbed round is done again whole. So is
one whose arms should have taken turns in slices and did not: where a sweep has one arm more than
before, or the tracking store only a part of what a lost journal had. What is to be done again
follows from the plan and the outcomes alone: a start that goes on from a journal, or from the
tracking store, knows it as the one before it did. What was complete is not given up where doing it
again fails: then the outcomes from before stand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.core.arms import HardwareRef
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.trial import FinishedTrial, Outcome, Telemetry, Trial

RERUN = "rerun"
"""The fact of an outcome's environment that says how often its round had been done before."""

STANDS = "stands_since_s"
"""The fact that an outcome stands, as its round failed when it was done again, and since when."""

OWN_FACTS = frozenset({RERUN, STANDS})
"""The facts of an environment that are of the trial, and not of what it ran in."""


def rerun_of(outcome: Outcome) -> int:
    """How often the outcome's round had been done before it; 0 the first time."""
    found = outcome.environment.get(RERUN, 0)
    return found if isinstance(found, int) else 0


def stands(outcome: Outcome) -> bool:
    """Whether it was kept because doing its round again failed: that is not tried once more."""
    return STANDS in outcome.environment


def edition(outcome: Outcome) -> tuple[float, bool]:
    """What orders the outcomes of one trial: the later one counts."""
    since_s = outcome.environment.get(STANDS)
    return (since_s, True) if isinstance(since_s, float) else (outcome.ended_s, False)


def reinstate(
    before: Sequence[FinishedTrial], now: Mapping[str, Outcome]
) -> tuple[FinishedTrial, ...]:
    """The outcomes of a round that stand, where doing it again failed; none where it did not.

    All of them stand, though some arms may have ended well: a round's trials count together.

    Args:
        before: the trials of a round that were complete when it was done again, as they were.
        now: how they have ended since, by key.
    """
    if all(now[each.trial.key].status == "complete" for each in before):
        return ()
    since_s = max(now[each.trial.key].ended_s for each in before)
    return tuple(
        replace(
            each,
            outcome=replace(
                each.outcome, environment={**each.outcome.environment, STANDS: since_s}
            ),
        )
        for each in before
    )


def disturbance_of(outcome: Outcome) -> str:
    """By what a trial was disturbed; empty for a quiet one."""
    return outcome.telemetry.notes.get("disturbed", "") if outcome.telemetry else ""


def race_of(outcome: Outcome) -> str:
    """In which race a trial took its slices; empty for one that was trained whole."""
    return outcome.telemetry.notes.get("round", "") if outcome.telemetry else ""


def noted(outcome: Outcome, notes: Mapping[str, str]) -> Outcome:
    """The outcome with these notes beside those of its telemetry."""
    told = outcome.telemetry or Telemetry()
    return replace(outcome, telemetry=replace(told, notes={**told.notes, **notes}))


def trials_to_rerun(finished: Iterable[FinishedTrial], limits: DisturbanceLimits) -> dict[str, int]:
    """The trials that are to be done again, by key, and the how-manieth rerun that is.

    A round of which some trial was disturbed is due, as long as it was not done again
    `limits.reruns` times and no rerun failed. One whose rerun was begun and not finished is due
    where that stopped: its trials count together, never some of one round and some of another.

    Args:
        finished: each trial with its last outcome.
        limits: what a sweep does with disturbed rounds.
    """
    if limits.action != "rerun":
        return {}
    rounds: dict[tuple[int, int, str], list[FinishedTrial]] = defaultdict(list)
    for each in finished:
        rounds[each.trial.block, each.trial.repeat, each.outcome.node].append(each)
    due: dict[str, int] = {}
    for members in rounds.values():
        if any(stands(each.outcome) for each in members):
            continue
        latest = max(rerun_of(each.outcome) for each in members)
        behind = [each for each in members if rerun_of(each.outcome) < latest]
        if behind:
            due |= {each.trial.key: latest for each in behind}
        elif latest < limits.reruns and any(disturbance_of(each.outcome) for each in members):
            due |= {each.trial.key: latest + 1 for each in members}
    return due


def trials_to_retime(
    planned: Iterable[Trial], finished: Mapping[str, FinishedTrial], *, retry_failed: bool
) -> dict[str, int]:
    """The trials that are to take their slices again, by key, and their round's rerun so far.

    Arms on one hardware class take turns on one node. Where one of them has no outcome yet, or
    that of another race on that node, all that are complete race again with it: ratios to what ran
    at another time would say nothing. Arms that a spec's labels keep on unlike nodes never meet.

    Args:
        planned: all trials of the blocks that are known.
        finished: those that ended, each with its last outcome, by key.
        retry_failed: whether failed trials are to be done again.
    """
    rounds: dict[tuple[int, int, HardwareRef], list[Trial]] = defaultdict(list)
    for trial in planned:
        if trial.arm.measure == "timing":
            rounds[trial.block, trial.repeat, trial.arm.hardware_class].append(trial)
    reruns: dict[str, int] = {}
    for members in rounds.values():
        ended = [finished[each.key] for each in members if each.key in finished]
        complete = [each for each in ended if each.outcome.status == "complete"]
        lacking = len(ended) < len(members) or (
            retry_failed and any(each.outcome.status == "failed" for each in ended)
        )
        races = {(each.outcome.node, race_of(each.outcome)) for each in complete}
        if lacking or len(races) > len({node for node, _ in races}):
            reruns |= {each.trial.key: rerun_of(each.outcome) for each in complete}
    return reruns
