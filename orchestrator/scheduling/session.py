"""The running part of a start: everything that ends a trial passes through here once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.core.arms import Arm
from orchestrator.core.disturbance import CanaryBaseline, detect_disturbance
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, FinishedTrial, Outcome, Trial, shared
from orchestrator.planning.objectives import LEARNING
from orchestrator.planning.pricing import priced
from orchestrator.scheduling.best_models import BestModels
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import (
    BlocksEnough,
    BlockSuggested,
    Journal,
    Record,
    RoundFinished,
    TrialFinished,
)
from workloads.protocol import TrialRequest

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision
    from orchestrator.execution.job import JobProgress


@dataclass(slots=True)
class Session:
    """A start at work: it hands out trials and takes their outcomes, journal first."""

    spec: SweepSpec
    blocks: Blocks
    journal: Journal
    record: Callable[[FinishedTrial], None]
    watcher: Watcher
    models: BestModels | None = None
    _canary_baseline: CanaryBaseline = field(default_factory=CanaryBaseline)
    _warned: bool = False
    _lost: Counter[str] = field(default_factory=Counter)
    _preempted: Counter[str] = field(default_factory=Counter)
    _since_s: dict[str, float] = field(default_factory=dict)
    _stopped: set[Arm] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._report_stopped()
        self._report_decision()
        if self.journal.state is not None:
            self._canary_baseline.learn(self.journal.state.finished.values())

    def assign(self) -> Assignment | None:
        """Return the next trial to start; None if no lane needs one now."""
        handed_out = self.blocks.next()
        if handed_out is None:
            return None
        assignment, blocks = handed_out
        for block in blocks:
            self._write(BlockSuggested(block.index, block.config, time.time()))
        self.watcher.trial_assigned(assignment)
        return assignment

    def finish(self, assignment: Assignment, *outcomes: Outcome, model: bytes = b"") -> None:
        """Take the outcomes of an assignment's trials, in their order: first into the journal.

        Each gets its cost and its disturbances. A round is one record: a killed driver leaves all
        of it, or nothing. The `model` that a trial kept is stored before its record.
        """
        ended = [
            self._completed(FinishedTrial(trial, outcome), outcomes)
            for trial, outcome in zip(assignment.trials, outcomes, strict=True)
        ]
        for finished in ended:
            self._keep_model(finished, model)
        self._write(TrialFinished(ended[0]) if len(ended) == 1 else RoundFinished(ended))
        for finished in ended:
            if self.models is not None:
                self.models.add(finished)
            self.record(finished)
        self._canary_baseline.learn(ended)
        self.blocks.finish(assignment, *(finished.outcome for finished in ended))
        self._report_decision()
        for finished in ended:
            self.watcher.trial_finished(finished.trial, finished.outcome)
            self._expect_objectives(finished)
        self._report_stopped()

    def _report_decision(self) -> None:
        """Record that no more blocks are needed, once; a killed start may not have come to it."""
        decision, state = self.blocks.suggestions.stop_decision, self.journal.state
        if decision is not None and state is not None and state.stop_decision is None:
            self._write(stop_record(decision))
            self.watcher.blocks_decided(decision.blocks, decision.reason)

    def _report_stopped(self) -> None:
        failures, search = self.blocks.suggestions.failures, self.spec.search
        new = failures.stopped.keys() - self._stopped
        for arm in new:
            self._stopped.add(arm)
            self.watcher.arm_stopped(arm, failures.describe(arm))
        is_learning = search.sampler in LEARNING or search.pruner is not None
        for metric in self.blocks.suggestions.unread if new and is_learning else ():
            self.watcher.warn(
                f"search.objectives: each arm that {metric} reads is stopped (over: "
                f"{search.objectives[metric].over}). The other arms continue, but the sampler "
                "learns nothing from their blocks, and prunes none: stop, and resume after a fix"
            )

    def take_progress(self, assignment: Assignment, progress: JobProgress) -> bool:
        """Show a job's progress; return whether its trial is to end, since its block is pruned."""
        self.watcher.job_progressed(assignment, progress)
        is_epoch = not progress.doing and assignment.trial.arm.measure == "full"
        if self.spec.search.pruner is None or not is_epoch:
            return False
        return self.blocks.take_epoch(assignment.trial, progress.done - 1, progress.metrics)

    def _keep_model(self, finished: FinishedTrial, model: bytes) -> None:
        """Keep the model of an arm's best trial; if it cannot be written, only that is lost."""
        try:
            if self.models is not None:
                self.models.write(finished, model)
        except OSError as error:
            self.watcher.warn(f"block {finished.block}, {finished.arm}: model not kept: {error}")

    def _completed(self, finished: FinishedTrial, together: Sequence[Outcome]) -> FinishedTrial:
        """Return a trial's outcome with the facts that are known only here: cost, disturbance."""
        trial, outcome = finished.trial, finished.outcome
        outcome = priced(outcome, trial.arm, self.spec.prices, together)
        disturbance = detect_disturbance(
            outcome.metrics,
            outcome.telemetry,
            self.spec.disturbance_limits,
            self._canary_baseline.expected_ms(finished),
        )
        round_id = None
        if trial.arm.measure == "timing":  # the start identifies a round: it is its own
            round_id = f"{min(outcome.started_s for outcome in together):.3f}"
        environment = shared({**outcome.environment, **self.blocks.identity.code_facts})
        outcome = replace(
            outcome, disturbance=disturbance, round_id=round_id, environment=environment
        )
        return FinishedTrial(trial, outcome)

    def _expect_objectives(self, finished: FinishedTrial) -> None:
        """Warn, once, of an objective that a complete trial, or its pruner, has no metric for."""
        outcome = finished.outcome
        read = self.blocks.suggestions.objectives_of(finished.trial.arm)
        seen, place = set(outcome.metrics), "a trial's metrics"
        if self.spec.search.pruner:
            seen.intersection_update(*([one.metrics for one in outcome.epochs] or [{}]))
            place += " and those of its epochs, for the pruner"
        missing = [name for name in read if name not in seen]
        if outcome.status == "complete" and missing and not self._warned:
            self._warned = True
            self.watcher.warn(
                f"search.objectives: expected {', '.join(missing)} among {place}, "
                f"received {', '.join(sorted(seen)) or 'none'}. The sampler sees blocks "
                "without it as failed: stop, and correct the spec or the workload"
            )

    def lose(self, assignment: Assignment, *, preempted: bool = False) -> None:
        """Retry an attempt lost with its worker, or preempted with its node, within limits."""
        limits = self.spec.limits
        keys = [trial.key for trial in assignment.trials]
        self._lost.update(keys)
        self._preempted.update(keys if preempted else ())
        lost = max(self._lost[key] for key in keys)
        preempted_count = max(self._preempted[key] for key in keys)
        if lost - preempted_count < limits.attempts and preempted_count <= limits.preemptions:
            self.blocks.give_back(assignment)
            self.watcher.attempt_lost(assignment)
            return
        now = time.time()
        preempted_too = f", in {preempted_count} of them with its node" if preempted_count else ""
        message = f"the worker was lost in each of {lost} attempts{preempted_too}"
        failure = FailureRecord("lost", f"{message} (limits.attempts, limits.preemptions)")
        outcome = Outcome("failed", now, now, attempt=assignment.attempt, failure=failure)
        self.finish(assignment, *(outcome for _ in assignment.trials))

    def request(self, trial: Trial) -> TrialRequest:
        """Return the request for the trainer."""
        return TrialRequest(
            self.spec.workload,
            trial.arm.implementation,
            {**self.spec.written_settings(), **trial.config, **trial.arm.settings},
            trial.arm.device,
            trial.seed,
            self.blocks.identity.data_digest,
            trial.arm.measure,
            self.spec.timing.slice_s,
            code=self.blocks.identity.code,
        )

    def show_running(self) -> None:
        """Keep what runs on each lane in a file, where it changed; it takes a while."""
        running = {one.trial.key: one for one in self.blocks.running}
        if running.keys() != self._since_s.keys():
            now_s = time.time()
            self._since_s = {key: self._since_s.get(key, now_s) for key in running}
            texts = [f"{one} on node {one.lane.node.profile.hostname}" for one in running.values()]
            self.watcher.jobs_changed([*running.values()])
            since_s = self._since_s.values()
            self.journal.show_running([*zip(since_s, texts, strict=True)])

    def _write(self, record: Record) -> None:
        """Write to the journal; if it cannot be written (a full disk), stop: resume later."""
        try:
            self.journal.append(record)
        except OSError as error:
            raise Stopped(f"its journal cannot be written: {error}") from error


def stop_record(decision: StopDecision) -> BlocksEnough:
    """Return the journal's record of a stop decision made now."""
    return BlocksEnough(time.time(), decision.blocks, decision.half_width, decision.reason)
