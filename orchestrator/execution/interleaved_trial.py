"""One of several trials that are timed in turns, and its commands."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from orchestrator.analysis.statistics.batch_means import PairedRatio
from orchestrator.core.trial import FailureRecord
from orchestrator.execution import telemetry
from orchestrator.execution.job import TrialRun
from orchestrator.execution.trainer_pool import TrainerKey
from orchestrator.execution.trainer_process import Trainer
from orchestrator.execution.watchdog import Watchdog
from workloads import protocol


class TrialReportedFailure(Exception):
    """A failure that the trainer itself has reported."""


@dataclass(slots=True)
class InterleavedTrial:
    """One trial of a round, with its trainer's watchdog while it can take slices."""

    trial_run: TrialRun
    key: TrainerKey
    watchdog: Watchdog | None = None
    logs: dict[int, float] = field(default_factory=dict)
    """The logarithm of the seconds per step of its slice, by turn."""
    windows: list[telemetry.TimeWindow] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Return whether it can take another slice."""
        return self.watchdog is not None

    def prepare(self, trainer: Trainer) -> None:
        """Load, build and warm up, until the trial waits for its first slice."""
        trial_run = self.trial_run
        trial_run.trainer_trials, trial_run.cpus = trainer.trials, trainer.cpus
        trial_run.setup_s = time.time() - trial_run.started_s
        trainer.trials += 1
        trainer.request(self.trial_run.job.request)
        self.watchdog = Watchdog(trainer, self.trial_run.job.limits)
        self._until(protocol.Ready)

    def take_slice(self, turn: int) -> None:
        """Train one slice."""
        self._ask(protocol.Slice())
        done = self._until(protocol.SliceDone)
        assert isinstance(done, protocol.SliceDone)
        self.logs[turn] = math.log(done.seconds / done.steps)

    def finish(self, ratio: PairedRatio | None) -> None:
        """Prove the kernel and end the trial; `ratio` is that to the first trial of the round."""
        self._ask(protocol.Finish())
        self._until(protocol.Result)
        if ratio is not None and ratio.interval is not None:
            self.trial_run.metrics = {**self.trial_run.metrics, "ratio_interval": ratio.interval}
        self.end()

    def end(self, failure: FailureRecord | None = None) -> None:
        """End the trial, with a failure if there is one."""
        if failure is not None:
            self.trial_run.failure = failure
        elif self.watchdog is not None:
            self.trial_run.keep_output(self.watchdog.trainer.output_tail())
        self.trial_run.ended, self.trial_run.ended_s = True, time.time()
        self.watchdog = None

    def _ask(self, command: protocol.Command) -> None:
        assert self.watchdog is not None
        self.watchdog.wake()
        self.watchdog.trainer.send(command)

    def _until(self, kind: type[protocol.Event]) -> protocol.Event:
        """Take events up to the next one of that kind, and return that.

        Raises:
            TrialReportedFailure: the trial failed.
            ProtocolError: it ended in another way.
        """
        assert self.watchdog is not None
        while True:
            event = self.watchdog.next_event()
            if event is None:
                continue
            self.trial_run.take(event)
            match event:
                case protocol.PhaseEnded("train", at_s, seconds) if kind is protocol.SliceDone:
                    self.windows.append(telemetry.TimeWindow(at_s - seconds, at_s))
                case protocol.Failure():
                    raise TrialReportedFailure
                case protocol.Result() if kind is not protocol.Result:
                    raise protocol.ProtocolError(f"expected {kind.event}; received a result")
            if isinstance(event, kind):
                self.watchdog.rest()
                return event
