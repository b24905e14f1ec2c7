"""Rounds: the trials of one block and repeat that ran on one node, and their re-runs.

A disturbance hits implementations unequally, so a disturbed round is re-run as a whole. The same
holds for a round whose arms should have been interleaved and were not: an arm was added to the
sweep, or the tracking store has only a part of a lost journal. The re-runs follow from the plan and
the outcomes alone, so that a resumed sweep makes the same decisions as before. If a re-run fails,
the complete outcomes from before it count again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.core.arms import HardwareRef
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.trial import FinishedTrial, Outcome, Trial


def reinstate(
    before: Sequence[FinishedTrial], after: Mapping[str, Outcome]
) -> tuple[FinishedTrial, ...]:
    """Return the outcomes of a round that count again because its re-run failed; else none.

    All of them are kept, although some arms may have completed: a round counts as a whole.

    Args:
        before: the trials of a round that were complete before its re-run.
        after: their outcomes in the re-run, by key.
    """
    if all(after[trial.key].status == "complete" for trial in before):
        return ()
    since_s = max(after[trial.key].ended_s for trial in before)
    return tuple(
        replace(trial, outcome=replace(trial.outcome, kept_since_s=since_s)) for trial in before
    )


def trials_to_rerun(finished: Iterable[FinishedTrial], limits: DisturbanceLimits) -> dict[str, int]:
    """Return the trials of disturbed rounds to re-run, by key, with the number of the re-run.

    A disturbed round is re-run at most `limits.reruns` times, and not after a failed re-run. An
    unfinished re-run is completed: a round never mixes trials of two runs.

    Args:
        finished: the trials with their latest outcomes.
        limits: the limits of disturbance, and the action.
    """
    if limits.action != "rerun":
        return {}
    rounds: dict[tuple[int, int, str], list[FinishedTrial]] = defaultdict(list)
    for trial in finished:
        rounds[trial.block, trial.repeat, trial.node].append(trial)
    reruns: dict[str, int] = {}
    for members in rounds.values():
        if any(trial.outcome.kept_since_s is not None for trial in members):
            continue
        latest = max(trial.outcome.rerun for trial in members)
        outdated = [trial for trial in members if trial.outcome.rerun < latest]
        if outdated:
            reruns |= {trial.key: latest for trial in outdated}
        elif latest < limits.reruns and any(trial.disturbance for trial in members):
            reruns |= {trial.key: latest + 1 for trial in members}
    return reruns


def trials_to_retime(
    planned: Iterable[Trial], finished: Mapping[str, FinishedTrial], *, retry_failed: bool
) -> dict[str, int]:
    """Return the complete trials of incomplete interleaved rounds, by key, with their re-run.

    Arms on one hardware class are interleaved on one node. If one of them has no outcome yet, or
    an outcome from another round on that node, all of them are timed again: slices from different
    times are not comparable. Arms that the labels of a spec keep on different nodes are never
    interleaved.

    Args:
        planned: all trials of the known blocks.
        finished: the finished trials with their latest outcomes, by key.
        retry_failed: count failed trials as missing.
    """
    rounds: dict[tuple[int, int, HardwareRef], list[Trial]] = defaultdict(list)
    for trial in planned:
        if trial.arm.measure == "timing":
            rounds[trial.block, trial.repeat, trial.arm.hardware_class].append(trial)
    reruns: dict[str, int] = {}
    for members in rounds.values():
        ended = [finished[trial.key] for trial in members if trial.key in finished]
        complete = [trial for trial in ended if trial.status == "complete"]
        lacking = len(ended) < len(members) or (
            retry_failed and any(trial.status == "failed" for trial in ended)
        )
        round_ids = {(trial.node, trial.round_id) for trial in complete}
        if lacking or len(round_ids) > len({node for node, _ in round_ids}):
            reruns |= {trial.key: trial.outcome.rerun for trial in complete}
    return reruns
