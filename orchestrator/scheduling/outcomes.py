"""What has come of trials: their outcomes, which of these count, and what is done again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from orchestrator.core.arms import HardwareUse
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.rounds import reinstate, rerun_of, trials_to_rerun
from orchestrator.core.trial import Arm, FinishedTrial, Outcome, Trial
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.assignment import Assignment, FollowUp
from orchestrator.scheduling.suggestions import Suggestions


class Ledger:
    """The outcomes of a sweep's trials.

    `trials` are those of each block that has begun, in the order to run them; `sharing` is the
    hardware whose trials of a round may be done again together (see `placement.sharing`).

    Args:
        plan: which blocks count.
        suggestions: hears of outcomes that count.
        limits: what becomes of disturbed rounds.
    """

    def __init__(self, plan: Plan, suggestions: Suggestions, limits: DisturbanceLimits) -> None:
        self.trials: dict[int, tuple[Trial, ...]] = {}
        self.sharing: tuple[frozenset[HardwareUse], ...] = ()
        self._plan = plan
        self._suggestions = suggestions
        self._limits = limits
        self._outcomes: dict[str, Outcome] = {}
        self._before: dict[str, FinishedTrial] = {}
        self._counted: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._reruns: dict[str, int] = {}

    def resume(self, again: Mapping[str, int], before: Mapping[str, FinishedTrial]) -> None:
        """Take over what is to be done again, and what is to stand should that fail.

        Both are by key; `again` says the how-manieth rerun it is.
        """
        self._before |= before
        self._reruns |= again
        self._attempts |= again

    def recall(self, finished: FinishedTrial) -> None:
        """Take over an outcome of an earlier start."""
        self._outcomes[finished.trial.key] = finished.outcome
        if self._plan.has_block(finished.trial.block):
            self.count([finished.trial])
        else:
            self._suggestions.hear(finished)

    def has(self, trial: Trial) -> bool:
        """Whether a trial has an outcome, and is not done again."""
        return trial.key in self._outcomes

    def is_kept(self, trial: Trial) -> bool:
        """Whether a complete outcome of it is kept until its round, done again, has ended."""
        return trial.key in self._before

    def begin(self, members: Sequence[Trial], node: str) -> tuple[int, int]:
        """Trials of a round are handed out to a node: which attempt this is, and which rerun."""
        rerun = self._rerun(members, node)
        attempt = 1 + max(rerun, *(self._attempts.get(member.key, 0) for member in members))
        self._attempts |= dict.fromkeys((member.key for member in members), attempt)
        return attempt, rerun

    def uncharge(self, assignment: Assignment) -> None:
        """An attempt never began."""
        self._attempts |= dict.fromkeys(
            (trial.key for trial in assignment.trials), assignment.attempt - 1
        )

    def settle(
        self, assignment: Assignment, outcomes: Sequence[Outcome], to_come: Collection[str]
    ) -> FollowUp:
        """Take the outcomes of an issue's trials.

        Args:
            issue: what ran.
            outcomes: one for each of its trials.
            to_come: the keys of trials that its lane has, or has handed out.
        """
        ended = [
            FinishedTrial(trial, outcome)
            for trial, outcome in zip(assignment.trials, outcomes, strict=True)
        ]
        self._outcomes |= {finished.trial.key: finished.outcome for finished in ended}
        standing = self._reinstate(assignment)
        node = ended[0].outcome.node or assignment.lane.node.profile.hostname  # of a lost one: none
        again = self._trials_to_rerun(assignment.trial, node, to_come)
        self._reruns |= again
        members = tuple(t for t in self.trials[assignment.trial.block] if t.key in again)
        for trial in members:
            self._keep(FinishedTrial(trial, self._outcomes.pop(trial.key)))
        replaced = [finished.trial for finished in standing]
        self._counted.difference_update(member.key for member in (*members, *replaced))
        self.count([*assignment.trials, *replaced])
        return FollowUp(members, standing)

    def count(self, trials: Iterable[Trial]) -> None:
        """Count the outcomes that are settled: the sampler is told, there may be blocks enough.

        A disturbed round is done again with all that its node has of it. Where that may come,
        nothing of a round counts before the rest of it: what would be told now, and what a later
        start tells in going over the same trials, would not be the same.
        """
        for trial in trials:
            bound = self._bound(trial)
            if any(member.key not in self._outcomes for member in bound):
                continue
            for member in bound:
                if member.key not in self._counted:
                    self._suggestions.hear(FinishedTrial(member, self._outcomes[member.key]))
                self._counted.add(member.key)
            if self._suggestions.is_untold(trial.block):
                self._suggestions.tell(trial.block, self._counted_of(trial.block))

    def _counted_of(self, index: int) -> dict[Arm, list[Outcome]]:
        """The outcomes of a block that count, by arm."""
        outcomes: dict[Arm, list[Outcome]] = {}
        for trial in self.trials[index]:
            if trial.key in self._counted:
                outcomes.setdefault(trial.arm, []).append(self._outcomes[trial.key])
        return outcomes

    def _bound(self, trial: Trial) -> tuple[Trial, ...]:
        """The trials that may be done again together with one of them, that one too."""
        if self._limits.action != "rerun":
            return (trial,)
        beside = next(
            (names for names in self.sharing if trial.arm.hardware in names),
            frozenset[HardwareUse](),
        )
        of_round = (t for t in self.trials.get(trial.block, ()) if t.repeat == trial.repeat)
        return tuple(member for member in of_round if member.arm.hardware in beside)

    def _rerun(self, members: Sequence[Trial], node: str) -> int:
        """How often their round was done before: an arm that joins it is not behind the others."""
        of_round = self._round(members[0])
        known = (self._outcomes.get(member.key) for member in of_round)
        there = (rerun_of(outcome) for outcome in known if outcome and outcome.node == node)
        return max([*there, *(self._reruns.get(member.key, 0) for member in members)])

    def _trials_to_rerun(self, trial: Trial, node: str, to_come: Collection[str]) -> dict[str, int]:
        """The trials of a round that are due once more; none while some of it is to run.

        The round is what the lane has of it, which is what ran on its node.
        """
        trials = self._round(trial)
        if any(trial.key in to_come for trial in trials):
            return {}
        ended = [(trial, self._outcomes.get(trial.key)) for trial in trials]
        return trials_to_rerun(
            (
                FinishedTrial(finished, found)
                for finished, found in ended
                if found and found.node == node
            ),
            self._limits,
        )

    def _round(self, trial: Trial) -> list[Trial]:
        """The trials of its block and repeat, that one too."""
        return [member for member in self.trials[trial.block] if member.repeat == trial.repeat]

    def _keep(self, finished: FinishedTrial) -> None:
        if finished.outcome.status == "complete":
            self._before[finished.trial.key] = finished

    def _reinstate(self, assignment: Assignment) -> tuple[FinishedTrial, ...]:
        """What stands of an issue's round from before it was done again, where that failed."""
        held = [self._before[trial.key] for trial in assignment.trials if trial.key in self._before]
        nodes = {each.outcome.node for each in held}
        trial = assignment.trial
        before = [
            finished
            for finished in self._before.values()
            if (finished.trial.block, finished.trial.repeat) == (trial.block, trial.repeat)
            and finished.outcome.node in nodes
        ]
        if not all(finished.trial.key in self._outcomes for finished in before):
            return ()
        for finished in before:
            del self._before[finished.trial.key]
        standing = reinstate(before, self._outcomes) if before else ()
        self._outcomes |= {finished.trial.key: finished.outcome for finished in standing}
        return standing
