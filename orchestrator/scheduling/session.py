"""The running part of a start: everything that begins or ends a trial passes through here once.

What happens when a worker or a node is lost is in `recovery.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.core.arms import Arm
from orchestrator.core.disturbance import detect_disturbance
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FinishedTrial, Outcome, Trial, share_environment
from orchestrator.planning.fleets import NODE_GPUS
from orchestrator.planning.lanes import Lane
from orchestrator.planning.pricing import priced
from orchestrator.scheduling.best_models import BestModels
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import (
    AttemptLost,
    BlockSuggested,
    Journal,
    Record,
    RoundFinished,
    StopDecided,
    TrialFinished,
)
from workloads.protocol import TrialRequest

if TYPE_CHECKING:
    from orchestrator.execution.job import JobProgress


@dataclass(slots=True)
class Session:
    """A start at work: it hands out trials and takes their outcomes.

    For each outcome, in this order: the journal on disk, the tracking store's queue (`record`), the
    dispatcher with its sampler, and the view. So nobody ever has what the journal has not.
    """

    spec: SweepSpec
    dispatcher: Dispatcher
    journal: Journal
    record: Callable[[FinishedTrial], None]
    watcher: Watcher
    models: BestModels | None = None
    _has_warned_of_objectives: bool = False
    _running_since_s: dict[str, float] = field(default_factory=dict)
    _reported_arms: set[Arm] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._report_stopped_arms()

    def assign(self) -> Assignment | None:
        """Return the next round to start; None if no lane needs one now."""
        handed_out = self.dispatcher.next()
        if handed_out is None:
            return None
        assignment, blocks = handed_out
        for block in blocks:
            self._write_to_journal(BlockSuggested(block.index, block.config, time.time()))
        self.watcher.round_assigned(assignment)
        return assignment

    def finish(
        self, assignment: Assignment, *outcomes: Outcome, models: Sequence[bytes] = ()
    ) -> None:
        """Take the outcomes of a round's trials, in their order: first into the journal.

        Each gets its cost and its disturbances. A round is one record: a killed driver leaves all
        of it, or nothing. The `models` that trials kept (empty bytes for none), in the same order,
        are stored before the record.
        """
        ended = [
            self._with_facts_of_the_driver(FinishedTrial(trial, outcome), assignment.lane, outcomes)
            for trial, outcome in zip(assignment.trials, outcomes, strict=True)
        ]
        for finished, model in zip(ended, models or [b""] * len(ended), strict=True):
            self._write_model(finished, model)
        self._write_to_journal(TrialFinished(ended[0]) if len(ended) == 1 else RoundFinished(ended))
        for finished in ended:
            if self.models is not None:
                self.models.add(finished)
            self.record(finished)
        self.dispatcher.finish(assignment, *(finished.outcome for finished in ended))
        self._report_decision()
        self.watcher.round_finished(ended)
        for finished in ended:
            self._warn_of_missing_objectives(finished)
        self._report_stopped_arms()

    def retry(self, assignment: Assignment, slot_s: float) -> None:
        """Try the round of a lost attempt again, after it had its slot for `slot_s` seconds."""
        self._write_to_journal(AttemptLost(time.time(), [*assignment.keys], slot_s))
        self.dispatcher.give_back(assignment)
        self.watcher.attempt_lost(assignment)

    def _report_decision(self) -> None:
        """Record, once, that no more blocks are needed."""
        decision, state = self.dispatcher.ledger.stop_decision, self.journal.state
        if decision is not None and state is not None and state.stop_decision is None:
            self._write_to_journal(StopDecided(time.time(), decision))
            self.watcher.blocks_decided(decision.blocks, decision.reason)

    def _report_stopped_arms(self) -> None:
        """Show each stopped arm once, and that the sampler learns nothing more if none is read."""
        failures, search = self.dispatcher.ledger.failures, self.spec.search
        new = failures.stopped.keys() - self._reported_arms
        for arm in new:
            self._reported_arms.add(arm)
            self.watcher.arm_stopped(arm, failures.describe(arm))
        is_learning = search.sampler.learns or search.pruner is not None
        if not new or not is_learning:
            return
        for metric in self.dispatcher.suggestions.unread:
            self.watcher.warn(
                f"search.objectives: every arm that {metric} reads has stopped (over: "
                f"{search.objectives[metric].over}). The other arms continue, but nothing is "
                "learned or pruned any more. To avoid that, stop, and resume after a fix"
            )

    def take_progress(self, assignment: Assignment, progress: JobProgress) -> bool:
        """Show a job's progress; return whether its round is to end: its block is pruned."""
        self.watcher.job_progressed(assignment, progress)
        is_epoch = not progress.doing and assignment.measure == "full"
        if self.spec.search.pruner is None or not is_epoch:
            return False
        trial = assignment.trials[progress.trial]
        return self.dispatcher.take_epoch(assignment, trial, progress.done - 1, progress.metrics)

    def _write_model(self, finished: FinishedTrial, model: bytes) -> None:
        """Keep the model of an arm's best trial; if it cannot be written, only that is lost."""
        try:
            if self.models is not None:
                self.models.write(finished, model)
        except OSError as error:
            self.watcher.warn(f"block {finished.block}, {finished.arm}: model not kept: {error}")

    def _with_facts_of_the_driver(
        self, finished: FinishedTrial, lane: Lane, together: Sequence[Outcome]
    ) -> FinishedTrial:
        """Return a trial with the facts that only the driver knows, such as its cost."""
        trial, outcome = finished.trial, finished.outcome
        state = self.journal.state
        lost_s = state.lost_s.get(trial.key, 0.0) if state is not None else 0.0
        outcome = priced(outcome, trial.arm, self.spec.prices, together, lost_s=lost_s)
        disturbance = detect_disturbance(
            outcome.metrics, outcome.telemetry, self.spec.disturbance_limits
        )
        # no two rounds of an arm start at the same time
        round_id = f"{min(outcome.started_s for outcome in together):.3f}"
        gpus = {NODE_GPUS: lane.node.gpus} if trial.arm.device == "gpu" else {}
        code = self.dispatcher.ledger.identity.code_facts
        environment = share_environment({**outcome.environment, **gpus, **code})
        outcome = replace(
            outcome, disturbance=disturbance, round_id=round_id, environment=environment
        )
        return FinishedTrial(trial, outcome)

    def _warn_of_missing_objectives(self, finished: FinishedTrial) -> None:
        """Warn, once, of an objective that a complete trial, or its pruner, has no metric for."""
        outcome = finished.outcome
        read = self.dispatcher.suggestions.objectives_of(finished.trial.arm)
        seen, searched = set(outcome.metrics), "metrics"
        if self.spec.search.pruner:
            seen.intersection_update(*([epoch.metrics for epoch in outcome.epochs] or [{}]))
            searched += " that the pruner can use"
        missing = [name for name in read if name not in seen]
        if outcome.status == "complete" and missing and not self._has_warned_of_objectives:
            self._has_warned_of_objectives = True
            self.watcher.warn(
                f"search.objectives: a trial did not report {', '.join(missing)} ({searched}: "
                f"{', '.join(sorted(seen)) or 'none'}). For the sampler, its block has failed: "
                "stop, and correct the spec or the workload"
            )

    def request(self, trial: Trial) -> TrialRequest:
        """Return the request for the trainer."""
        return TrialRequest(
            self.spec.workload_name,
            trial.arm.implementation,
            {**self.spec.written_settings(), **trial.config, **trial.arm.settings},
            trial.arm.device,
            trial.seed,
            self.dispatcher.ledger.identity.data_digest,
            trial.arm.measure,
            self.spec.timing.slice_s,
            fingerprint=trial.repeat == 0,
            code=self.dispatcher.ledger.identity.code,
        )

    def show_running(self) -> None:
        """Write what runs on each lane, and since when, to a file, if that has changed."""
        running = {assignment.key: assignment for assignment in self.dispatcher.running}
        if running.keys() != self._running_since_s.keys():
            now_s = time.time()
            self._running_since_s = {key: self._running_since_s.get(key, now_s) for key in running}
            texts = [
                f"{assignment} on node {assignment.lane.node.profile.hostname}"
                for assignment in running.values()
            ]
            self.watcher.jobs_changed([*running.values()])
            since_s = self._running_since_s.values()
            self.journal.show_running([*zip(since_s, texts, strict=True)])

    def _write_to_journal(self, record: Record) -> None:
        """Write to the journal; if it cannot be written (a full disk), stop: resume later."""
        try:
            self.journal.append(record)
        except OSError as error:
            raise Stopped(f"its journal cannot be written: {error}") from error
