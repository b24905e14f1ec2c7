"""The outcomes of trials: which of them count, and which trials run once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.rounds import reinstate, trials_to_rerun
from orchestrator.core.trial import FinishedTrial, Outcome, Trial
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.lane_queue import Assignment, FollowUp
from orchestrator.scheduling.suggestions import Suggestions


class Ledger:
    """The outcomes of a sweep's trials.

    `trials` are those of each block that has begun, in the order to run them. `sharing` is the
    hardware whose trials of a round may be re-run together (see `lanes.sharing`).

    Args:
        plan: decides which blocks count.
        suggestions: takes the outcomes that count.
        limits: decide which rounds are disturbed, and how often these are re-run.
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

    def resume(self, reruns: Mapping[str, int], before: Mapping[str, FinishedTrial]) -> None:
        """Take over the trials to run once more, and the outcomes that count if that fails.

        Both are by key. `reruns` has the number of the rerun.
        """
        self._before |= before
        self._reruns |= reruns
        self._attempts |= reruns

    def recall(self, finished: FinishedTrial) -> None:
        """Take over an outcome of an earlier start."""
        self._outcomes[finished.trial.key] = finished.outcome
        if self._plan.has_block(finished.trial.block):
            self.count([finished.trial])
        else:
            self._suggestions.observe(finished)

    def has(self, trial: Trial) -> bool:
        """Return whether a trial has an outcome and is not re-run."""
        return trial.key in self._outcomes

    def is_kept(self, trial: Trial) -> bool:
        """Return whether an earlier complete outcome is kept until the rerun of its round ends."""
        return trial.key in self._before

    def begin(self, members: Sequence[Trial], node: str) -> tuple[int, int]:
        """Count an attempt of a round on a node; return the attempt number and the rerun."""
        rerun = self._rerun(members, node)
        attempt = 1 + max(rerun, *(self._attempts.get(member.key, 0) for member in members))
        self._attempts |= dict.fromkeys((member.key for member in members), attempt)
        return attempt, rerun

    def uncharge(self, assignment: Assignment) -> None:
        """Take back an attempt that never began."""
        self._attempts |= dict.fromkeys(
            (trial.key for trial in assignment.trials), assignment.attempt - 1
        )

    def settle(
        self, assignment: Assignment, outcomes: Sequence[Outcome], to_come: Collection[str]
    ) -> FollowUp:
        """Take the outcomes of an assignment's trials.

        Args:
            assignment: what ran.
            outcomes: one for each of its trials.
            to_come: the keys of trials that its lane has, or has handed out.
        """
        ended = [
            FinishedTrial(trial, outcome)
            for trial, outcome in zip(assignment.trials, outcomes, strict=True)
        ]
        self._outcomes |= {finished.trial.key: finished.outcome for finished in ended}
        reinstated = self._reinstate(assignment)
        node = (
            ended[0].outcome.node or assignment.lane.node.profile.hostname
        )  # a lost trial has none
        reruns = self._trials_to_rerun(assignment.trial, node, to_come)
        self._reruns |= reruns
        members = tuple(t for t in self.trials[assignment.trial.block] if t.key in reruns)
        for trial in members:
            self._keep(FinishedTrial(trial, self._outcomes.pop(trial.key)))
        replaced = [finished.trial for finished in reinstated]
        self._counted.difference_update(member.key for member in (*members, *replaced))
        self.count([*assignment.trials, *replaced])
        return FollowUp(members, reinstated)

    def count(self, trials: Iterable[Trial]) -> None:
        """Count the final outcomes: report to the sampler, and decide whether more are needed.

        A disturbed round is re-run with all trials that its node has of it. If that may happen,
        no trial of a round counts before the others: a later start, which goes through the same
        trials, must report the same.
        """
        for trial in trials:
            bound = self._bound(trial)
            if any(member.key not in self._outcomes for member in bound):
                continue
            for member in bound:
                if member.key not in self._counted:
                    self._suggestions.observe(FinishedTrial(member, self._outcomes[member.key]))
                self._counted.add(member.key)
            if self._suggestions.is_open(trial.block):
                self._suggestions.report(trial.block, self._counted_of(trial.block))

    def _counted_of(self, index: int) -> dict[Arm, list[Outcome]]:
        """Return the outcomes of a block that count, by arm."""
        outcomes: dict[Arm, list[Outcome]] = {}
        for trial in self.trials[index]:
            if trial.key in self._counted:
                outcomes.setdefault(trial.arm, []).append(self._outcomes[trial.key])
        return outcomes

    def _bound(self, trial: Trial) -> tuple[Trial, ...]:
        """Return the trials that may be re-run together with this one, itself included."""
        if self._limits.action != "rerun":
            return (trial,)
        shared = next(
            (names for names in self.sharing if trial.arm.hardware in names),
            frozenset[HardwareUse](),
        )
        of_round = (t for t in self.trials.get(trial.block, ()) if t.repeat == trial.repeat)
        return tuple(member for member in of_round if member.arm.hardware in shared)

    def _rerun(self, members: Sequence[Trial], node: str) -> int:
        """Return how often the round was done before: an arm that joins it is not behind."""
        of_round = self._round(members[0])
        outcomes = (self._outcomes.get(member.key) for member in of_round)
        counts = (outcome.rerun for outcome in outcomes if outcome and outcome.node == node)
        return max([*counts, *(self._reruns.get(member.key, 0) for member in members)])

    def _trials_to_rerun(self, trial: Trial, node: str, to_come: Collection[str]) -> dict[str, int]:
        """Return the trials of a round to run once more; none while some of it is still to run.

        The round is the lane's part of it, which is what ran on the lane's node.
        """
        members = self._round(trial)
        if any(member.key in to_come for member in members):
            return {}
        outcomes = [(member, self._outcomes.get(member.key)) for member in members]
        return trials_to_rerun(
            (
                FinishedTrial(member, outcome)
                for member, outcome in outcomes
                if outcome and outcome.node == node
            ),
            self._limits,
        )

    def _round(self, trial: Trial) -> list[Trial]:
        """Return the trials of its block and repeat, itself included."""
        return [member for member in self.trials[trial.block] if member.repeat == trial.repeat]

    def _keep(self, finished: FinishedTrial) -> None:
        if finished.outcome.status == "complete":
            self._before[finished.trial.key] = finished

    def _reinstate(self, assignment: Assignment) -> tuple[FinishedTrial, ...]:
        """Return the earlier outcomes of a round that count again, because its rerun failed."""
        held = [self._before[trial.key] for trial in assignment.trials if trial.key in self._before]
        nodes = {finished.outcome.node for finished in held}
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
        reinstated = reinstate(before, self._outcomes) if before else ()
        self._outcomes |= {finished.trial.key: finished.outcome for finished in reinstated}
        return reinstated
