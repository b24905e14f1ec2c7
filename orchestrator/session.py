"""One start of a sweep: what happens to each trial between the blocks, the journal, the tracking
store and whoever watches. Everything that ends a trial passes through here once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.blocks import Blocks, Issue
from orchestrator.journal import AttemptStarted, BlockSuggested, Journal, Record, TrialFinished
from orchestrator.prices import priced
from orchestrator.selector import usage_of
from orchestrator.spec import SweepSpec
from orchestrator.stopping import Stopped
from orchestrator.trial import FailureRecord, FinishedTrial, Outcome, Trial
from workloads.protocol import Device, TrialRequest


class Watcher(Protocol):
    """Sees a sweep go by (see `progress`)."""

    def issued(self, issue: Issue) -> None:
        """A trial was handed out; it may still wait for its node."""

    def epoch(self, issue: Issue, index: int) -> None:
        """A running trial finished an epoch."""

    def finished(self, trial: Trial, outcome: Outcome) -> None:
        """A trial ended."""

    def warn(self, text: str) -> None:
        """Something that the user should know now."""

    def lost(self, issue: Issue) -> None:
        """An attempt was lost with its worker; the trial is tried again."""


@dataclass(slots=True)
class Session:
    """Hands out trials and takes their outcomes, journal first."""

    spec: SweepSpec
    blocks: Blocks
    journal: Journal
    record: Callable[[FinishedTrial], None]
    watcher: Watcher
    data_digest: str | None
    _warned: bool = False
    _preempted: Counter[str] = field(default_factory=Counter)

    def issue(self) -> Issue | None:
        """The next trial to start; None if no lane wants one now."""
        found = self.blocks.next()
        if found is None:
            return None
        issue, block = found
        now = time.time()
        if block is not None:
            self._write(BlockSuggested(block.index, block.config, now))
        trial = issue.trial
        self._write(
            AttemptStarted(trial.key, issue.attempt, now, trial.block, trial.arm, trial.repeat)
        )
        self.watcher.issued(issue)
        return issue

    def finish(self, issue: Issue, outcome: Outcome) -> None:
        """Take an outcome and price it: journal, then the tracking store, then the sampler."""
        outcome = priced(outcome, issue.trial.arm, self.spec.prices)
        finished = FinishedTrial(issue.trial, outcome)
        self._write(TrialFinished(finished))
        self.record(finished)
        self.blocks.finish(issue, outcome)
        self.watcher.finished(issue.trial, outcome)
        self._expect_objectives(outcome)

    def _expect_objectives(self, outcome: Outcome) -> None:
        """Warn, once, of an objective that a complete trial lacks: nobody learns from it."""
        missing = [name for name in self.spec.search.objectives if name not in outcome.metrics]
        if outcome.status == "complete" and missing and not self._warned:
            self._warned = True
            self.watcher.warn(
                f"search.objectives: expected {', '.join(missing)} among a trial's metrics, "
                f"received {', '.join(sorted(outcome.metrics))}. Blocks without it are told to "
                "the sampler as failed: stop, and correct the spec or the workload"
            )

    def give_back(self, issue: Issue) -> None:
        """Take back a trial that had not started."""
        self.blocks.give_back(issue, charged=False)

    def lose(self, issue: Issue, *, preempted: bool = False) -> None:
        """An attempt was lost with its worker: another one, within the spec's limits.

        Args:
            issue: the attempt.
            preempted: the worker went with its node, which is not the trial's doing.
        """
        key, limits = issue.trial.key, self.spec.limits
        self._preempted[key] += preempted
        gone = self._preempted[key]
        if issue.attempt - gone < limits.attempts and gone <= limits.preemptions:
            self.blocks.give_back(issue)
            self.watcher.lost(issue)
            return
        now = time.time()
        message = f"the worker was lost in each of {issue.attempt} attempts (limits.attempts)"
        if gone:
            message = (
                f"the worker was lost in each of {issue.attempt} attempts, in {gone} of them with"
                " its node (limits.attempts, limits.preemptions)"
            )
        failure = FailureRecord("lost", message)
        self.finish(issue, Outcome("failed", now, now, attempt=issue.attempt, failure=failure))

    def request(self, trial: Trial, device: Device) -> TrialRequest:
        """What the trainer is asked for."""
        settings: Mapping[str, Any] = {
            **self.spec.written_settings(),
            **trial.config,
            **usage_of(trial.arm.hardware).settings,
        }
        return TrialRequest(
            self.spec.workload,
            trial.arm.implementation,
            settings,
            device,
            trial.seed,
            self.data_digest,
        )

    def _write(self, record: Record) -> None:
        """Write to the journal; a sweep that cannot (a full disk) stops and can go on later."""
        try:
            self.journal.append(record)
        except OSError as error:
            raise Stopped(f"its journal cannot be written: {error}") from error
