"""One of several trials that are timed in turns, and what it is asked for."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from orchestrator.analysis.statistics.batch_means import Paired
from orchestrator.core.trial import FailureRecord
from orchestrator.execution import telemetry
from orchestrator.execution.job import Watched
from orchestrator.execution.trainer_pool import TrainerKey
from orchestrator.execution.trainer_process import Trainer
from orchestrator.execution.watchdog import Guard
from workloads import protocol


class Told(Exception):
    """The trainer itself has reported the failure of its trial."""


@dataclass(slots=True)
class Racer:
    """One trial of a round, and its trainer's guard while it can take slices."""

    watched: Watched
    key: TrainerKey
    guard: Guard | None = None
    logs: dict[int, float] = field(default_factory=dict)
    """By turn, the logarithm of the seconds that a step of its slice took."""
    windows: list[telemetry.Window] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether it can take another slice."""
        return self.guard is not None

    def prepare(self, trainer: Trainer) -> None:
        """Load, build and warm up, until the trial waits for its first slice."""
        watched = self.watched
        watched.trainer_trials, watched.cpus = trainer.trials, trainer.cpus
        watched.setup_s = time.time() - watched.started_s
        trainer.trials += 1
        trainer.request(self.watched.job.request)
        self.guard = Guard(trainer, self.watched.job.limits)
        self._until(protocol.Ready)

    def take_slice(self, turn: int) -> None:
        """Train one slice."""
        self._ask(protocol.Slice())
        done = self._until(protocol.SliceDone)
        assert isinstance(done, protocol.SliceDone)
        self.logs[turn] = math.log(done.seconds / done.steps)

    def finish(self, ratio: Paired | None) -> None:
        """Prove the kernel and end the trial; `ratio` is what was found of it beside the first."""
        self._ask(protocol.Finish())
        self._until(protocol.Result)
        if ratio is not None and ratio.interval is not None:
            self.watched.metrics = {**self.watched.metrics, "ratio_interval": ratio.interval}
        self.end()

    def end(self, failure: FailureRecord | None = None) -> None:
        """The trial is over."""
        if failure is not None:
            self.watched.failure = failure
        elif self.guard is not None:
            self.watched.keep_output(self.guard.trainer.output_tail())
        self.watched.ended, self.watched.ended_s = True, time.time()
        self.guard = None

    def _ask(self, command: protocol.Command) -> None:
        assert self.guard is not None
        self.guard.wake()
        self.guard.trainer.tell(command)

    def _until(self, kind: type[protocol.Event]) -> protocol.Event:
        """The next event of that kind, with all that come before it taken.

        Raises:
            Told: the trial failed.
            ProtocolError: it ended in another way.
        """
        assert self.guard is not None
        while True:
            event = self.guard.next_event()
            if event is None:
                continue
            self.watched.take(event)
            match event:
                case protocol.PhaseEnded("train", at_s, seconds) if kind is protocol.SliceDone:
                    self.windows.append(telemetry.Window(at_s - seconds, at_s))
                case protocol.Failure():
                    raise Told
                case protocol.Result() if kind is not protocol.Result:
                    raise protocol.ProtocolError(f"expected {kind.event}; received a result")
            if isinstance(event, kind):
                self.guard.rest()
                return event
