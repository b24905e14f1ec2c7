"""Interleaved timing: the trials of a round take turns by slices, each in its own trainer.

So they share what else the machine does. While one works, the others rest; each turn has another
random order. After planned numbers of turns the round ends if the intervals of the ratios are
narrow enough, never by their position. A trial that fails does so alone.
"""

import contextlib
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import psutil

from orchestrator.analysis.statistics.batch_means import half_width, planned_looks
from orchestrator.core.criteria import DisturbanceLimits, Timing
from orchestrator.core.trial import FailureRecord
from orchestrator.execution import telemetry
from orchestrator.execution.job import Job, JobProgress, RoundPartner, TrialRun
from orchestrator.execution.trainer_pool import CpusTaken, TrainerKey, TrainerPool
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.execution.watchdog import FAILURES, Watchdog, failure_of, oom_kills
from workloads import protocol

E = TypeVar("E", bound=protocol.Event)

_REST_S = 0.02
"""The pause between two slices: threads of the last one may still spin, waiting for work."""

_DISTURBED_PCT = DisturbanceLimits().others_cpu_pct
"""A turn in which others took more of the CPUs is repeated."""

_REPEATS = 2
"""So many turns may be repeated, and for each two quiet ones another."""

_SIGN_S = 1.0
"""The least time between two signs of life: their receiver needs the CPU too."""

_ROOMY = 0.5
"""The used share of the node's memory up to which other trainers stay warm. It is lower than usual,
since several trainers start at once."""


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
    windows: dict[int, list[telemetry.TimeWindow]] = field(default_factory=dict)
    """When its slice was timed, by turn."""
    _windows: list[telemetry.TimeWindow] = field(default_factory=list)

    def prepare(self, trainer: TrainerProcess) -> None:
        """Load, build and warm up, until the trial waits for its first slice."""
        self.trial_run.begin(trainer)
        self.watchdog = Watchdog(trainer, self.trial_run.job.limits)
        self._until(protocol.Ready)

    def run_slice(self, turn: int) -> None:
        """Train or predict for one slice; a slice of the same turn, the last one, is replaced."""
        replaces = turn in self.logs
        self._command(protocol.Slice(replaces_last=replaces))
        if replaces:
            self.trial_run.slices.pop()
        self._windows = self.windows[turn] = []
        done = self._until(protocol.SliceDone)
        self.logs[turn] = math.log(done.seconds / done.steps)

    def finish(self, interval: float | None) -> None:
        """Prove the kernel and end the trial; the interval is of its ratio to the round's first."""
        self._command(protocol.Finish())
        self._until(protocol.Result)
        if interval is not None:
            self.trial_run.metrics = {**self.trial_run.metrics, "ratio_interval": interval}
        self.end()

    def end(self, failure: FailureRecord | None = None) -> None:
        """End the trial, with a failure if there is one."""
        output = self.watchdog.trainer.output_tail() if self.watchdog and not failure else ""
        self.trial_run.end(failure, output=output)
        self.watchdog = None

    def _command(self, command: protocol.RoundCommand) -> None:
        """Send the trainer a command; its time limits count from now until it rests again."""
        assert self.watchdog is not None
        self.watchdog.wake()
        self.watchdog.trainer.send(command)

    def _until(self, kind: type[E]) -> E:
        """Take events up to the next one of that kind, and return that; raise if the trial ends."""
        assert self.watchdog is not None
        timed_work = self.trial_run.job.request.timed_work
        for event in self.watchdog.events():
            self.trial_run.note_event(event)
            match event:
                case protocol.PhaseEnded(phase, at_s, seconds):
                    if phase == timed_work and kind is protocol.SliceDone:
                        self._windows.append(telemetry.TimeWindow(at_s - seconds, at_s))
            if isinstance(event, kind):
                self.watchdog.rest()
                return event
        if self.trial_run.failure is not None:
            raise TrialReportedFailure
        raise protocol.ProtocolError(f"expected {kind.event}; received a result")


class InterleavedRound:
    """The trials of one job, timed in turns: its own first, then its partners' in their order."""

    def __init__(
        self,
        job: Job,
        timing: Timing,
        trainers: TrainerPool,
        instruments: telemetry.Instruments,
    ) -> None:
        self._timing, self._trainers, self._instruments = timing, trainers, instruments
        self._trials: list[InterleavedTrial] = []
        seen: Counter[TrainerKey] = Counter()
        for partner in (RoundPartner(job.request, job.cpus), *job.partners):
            request = replace(
                partner.request,
                measure="timing",
                slice_s=timing.slice_s,
                timed_work=timing.timed_work,
            )
            trial_job = replace(job, request=request, cpus=partner.cpus, partners=())
            # a trainer of this implementation only, and the same one in the next round
            key: TrainerKey = f"{request.implementation} [timing]", request.device, partner.cpus
            seen[key] += 1
            if seen[key] > 1:  # arms that differ in their settings alone
                key = f"{key[0]} {seen[key]}", request.device, partner.cpus
            self._trials.append(InterleavedTrial(TrialRun(trial_job), key))
        self._looks = planned_looks(timing.least, timing.most)
        self.repeated_turns = self._quiet_turns = 0
        self._draw = random.Random(job.request.seed)
        self._killed = oom_kills()
        self._ends_early = False

    def end_after_turn(self) -> None:
        """End the round after its next turn, with the two or more turns that it then has."""
        self._ends_early = True

    @property
    def trial_runs(self) -> list[TrialRun]:
        """The facts about each trial, which are complete once the round is over."""
        return [trial.trial_run for trial in self._trials]

    def run(self) -> Generator[JobProgress, None, None]:
        """Run the round, yielding its progress now and then, as a sign of life."""
        keys = [trial.key for trial in self._trials]
        self._trainers.make_room(keys, _ROOMY)
        with contextlib.suppress(CpusTaken):  # the largest number first: the others take from it
            if cpus := [trial_run.job.cpus for trial_run in self.trial_runs if trial_run.job.cpus]:
                self._trainers.claims.claim(max(cpus))
        for number, trial in enumerate(self._in_random_order(self._trials), 1):
            name = f"{trial.trial_run.job.request.implementation} ({number} of {len(keys)})"
            yield JobProgress(0, most=self._looks[-1], doing=f"loading and compiling {name}")
            trial.trial_run.restart()
            with self._failing_alone(trial):
                trial.prepare(self._trainers.trainer_for(trial.trial_run.job, trial.key, keys))
        yield JobProgress(0, most=self._looks[-1])
        with self._telemetry_recorded():
            yield from self._take_turns()
        for trial, interval in self._intervals():
            with self._failing_alone(trial):
                trial.finish(interval)
                self._trainers.end_if_processes_remain(trial.key)

    def _take_turns(self) -> Generator[JobProgress, None, None]:
        """Run turns of one slice per trial until the intervals are narrow, or the turns used up.

        Intervals end a round after planned numbers of turns only: looking after each turn would
        stop at intervals that are narrow by chance.
        """
        signed_s, meter = time.monotonic(), self._meter()
        for turn in range(self._looks[-1]):
            self._take_turn(turn, meter)
            is_look = turn + 1 in self._looks
            if not self._running() or (
                is_look and self._widest_interval() <= self._timing.interval
            ):
                return
            if self._ends_early:
                return
            if time.monotonic() - signed_s > _SIGN_S:
                interval = self._widest_interval() if turn + 1 >= self._looks[0] else None
                yield JobProgress(turn + 1, most=self._looks[-1], interval=interval)
                signed_s = time.monotonic()

    def _take_turn(self, turn: int, meter: telemetry.OthersMeter | None) -> None:
        """Run a slice of each trial, and all of them again if other work disturbed them.

        What others took of the CPUs decides that, never how long a slice took, so that no ratio is
        preferred. Where the machine is busy all the time, only a few turns are repeated in vain.
        """
        while True:
            if meter is not None:
                meter.start()
            for trial in self._in_random_order(self._running()):
                time.sleep(_REST_S)
                with self._failing_alone(trial):
                    trial.run_slice(turn)
            if meter is None or not meter.is_disturbed(_DISTURBED_PCT):
                self._quiet_turns += 1
                return
            if self.repeated_turns >= _REPEATS + self._quiet_turns // 2:
                return
            self.repeated_turns += 1

    def _meter(self) -> telemetry.OthersMeter | None:
        """Return a meter of what others take of the CPUs; None if no trainer is left to ask for."""
        pids = [trial.watchdog.trainer.pid for trial in self._running() if trial.watchdog]
        with contextlib.suppress(psutil.Error):
            return telemetry.OthersMeter(pids) if pids else None
        return None

    def _widest_interval(self) -> float:
        """Return the widest interval of a ratio; of a trial alone, the interval of its times."""
        intervals = [width for _, width in self._intervals() if width is not None]
        return max(intervals or map(self._half_width, self._running()))

    def _intervals(self) -> list[tuple[InterleavedTrial, float | None]]:
        """Return each running trial with the interval of its ratio to the first, which has none."""
        running = self._running()
        return [
            (trial, None if trial is running[0] else self._half_width(trial, running[0]))
            for trial in running
        ]

    def _half_width(self, trial: InterleavedTrial, base: InterleavedTrial | None = None) -> float:
        """Return the relative half-width of the interval of a trial's time per step.

        With a `base` it is the interval of the ratio of both.
        Slices of the same turn are compared, so that slow changes of the machine cancel out.
        """
        logs = [log - (base.logs[turn] if base else 0.0) for turn, log in trial.logs.items()]
        return math.expm1(half_width(logs, len(self._looks)))

    def _running(self) -> list[InterleavedTrial]:
        return [trial for trial in self._trials if trial.watchdog is not None]

    def _in_random_order(self, trials: Sequence[InterleavedTrial]) -> list[InterleavedTrial]:
        return self._draw.sample(list(trials), len(trials))

    @contextlib.contextmanager
    def _failing_alone(self, trial: InterleavedTrial) -> Iterator[None]:
        """End only this trial if it fails in the block; the others of the round go on."""
        try:
            yield
        except TrialReportedFailure:
            trial.end()
        except FAILURES as error:
            output = self._trainers.end(trial.key)
            trial.end(FailureRecord(*failure_of(error, self._killed), output))

    @contextlib.contextmanager
    def _telemetry_recorded(self) -> Iterator[None]:
        """Sample the node during the block, once for all trials, and give each its own windows.

        One sampler serves the round, as its trainers take turns on the same machine.
        """
        devices = [trial.trial_run.job.request.device for trial in self._running()]
        pids = [trial.watchdog.trainer.pid for trial in self._trials if trial.watchdog is not None]
        if not pids:
            yield
            return
        device: protocol.Device = "gpu" if "gpu" in devices else "cpu"
        pids += self._trainers.others_on_gpu(*(trial.key for trial in self._trials)).values()
        sampler = telemetry.TelemetrySampler(device, pids[0], self._instruments, pids[1:])
        sampler.start()
        try:
            yield
        finally:
            recording = sampler.stop()
            for trial in self._trials:
                device = trial.trial_run.job.request.device
                windows = list(itertools.chain(*trial.windows.values()))
                trial.trial_run.recording = recording.of(device, windows)
