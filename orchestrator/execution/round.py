"""A round: the trials of one job take turns, each in its own trainer, from the first to the last.

So they share whatever else the machine does. While one works, the others rest; each turn has
another random order. A round of whole trainings ends when each has ended. A round of timing trials
ends after planned numbers of turns if the intervals of the ratios are narrow enough, never by their
position. A trial that fails does so alone. Trials whose trainers do not fit into memory together
run one after another.
"""

import contextlib
import itertools
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from orchestrator.analysis.statistics.batch_means import batches_of, half_width, planned_looks
from orchestrator.core.criteria import DisturbanceLimits, Timing
from orchestrator.core.trial import FailureRecord
from orchestrator.execution import telemetry
from orchestrator.execution.job import Job, JobProgress, RoundTrial, TrialRun
from orchestrator.execution.telemetry.node_gauge import Taken
from orchestrator.execution.telemetry.readings import merged
from orchestrator.execution.telemetry.telemetry_summary import LEAST_WINDOW_S
from orchestrator.execution.trainer_pool import CpusTaken, TrainerKey, TrainerPool
from orchestrator.execution.watchdog import FAILURES, Watchdog, failure_of, oom_kills
from workloads import protocol
from workloads.implementations import parse_implementation
from workloads.registry import find_workload
from workloads.turns import step_seconds

_REST_S, _REST_SHARE = 0.02, 0.1
"""The pause between two slices: threads of the last one may still spin, waiting for work. It takes
at most this share of a short slice."""

_DISTURBED_PCT = DisturbanceLimits().others_cpu_pct
"""A turn in which others took more of the CPUs is set aside."""

LEAST_TURNS = 8
"""Turns are set aside as long as this many remain."""

_SHORT_S = 0.1
"""Turns are observed once a round has lasted this long: the search for processes takes time."""

_ENERGY_SLICE_S = 1.2 * LEAST_WINDOW_S
_ENERGY_S = 32 * _ENERGY_SLICE_S
"""The length of a slice where energy can be measured, if a training is long enough for that."""

_LEAST_SEEN_S = 0.5
"""What others took of the CPUs is known if it was observed for this long (CPU seconds)."""

_MANY_TURNS = 400
"""The number of turns after which those of users' own loops double: each slice is stored."""

_SIGN_S = 1.0
"""The least time between two signs of life: their receiver needs the CPU too."""

_ROOMY = 0.5
"""The used share of the node's memory up to which other trainers stay warm. It is lower than usual
where several trainers start at once."""

_PHASES = {
    "import": "loading the backend",
    "load": "loading the data",
    "check": "compiling, and comparing the mathematics",
    "compile": "compiling",
}


class TrialReportedFailure(Exception):
    """A failure that the trainer itself has reported."""


@dataclass(slots=True)
class TrialInTurns:
    """One trial of a round, with its trainer's watchdog until it has ended."""

    trial_run: TrialRun
    key: TrainerKey
    number: int
    """Its index among the trials of the job."""
    is_own_code: bool
    """Whether a user's own code trains it."""
    watchdog: Watchdog | None = None
    next_work: protocol.NextWork = "train"
    has_ended_epoch: bool = False
    """Whether the last turn ended an epoch."""
    slices: dict[int, protocol.SliceDone] = field(default_factory=dict)
    """Its slice, by turn."""
    windows: list[telemetry.TimeWindow] = field(default_factory=list)
    """When it was timed."""
    usual_steps: int = 1
    length: protocol.Ready | None = None
    """How long its training is, as far as that is known."""
    _begun_s: float = 0.0

    @property
    def name(self) -> str:
        """The implementation."""
        return self.trial_run.trial.request.implementation

    @property
    def has_begun(self) -> bool:
        """Whether the trainer has the request."""
        return self._begun_s > 0

    def watch(self) -> None:
        """Let the time limits of a trial that has begun count from now: its events are read."""
        assert self.watchdog is not None
        self.watchdog.wake()

    def begin(
        self, sampler: telemetry.TelemetrySampler, *, rests_when_imported: bool = False
    ) -> None:
        """Send the request to the trainer; its time limits count from now until it rests."""
        assert self.watchdog is not None
        self.watchdog.sampler = sampler
        self.watchdog.wake()
        self._begun_s = time.monotonic()
        self.trial_run.begin(self.watchdog.trainer, rests_when_imported=rests_when_imported)

    def command(self, command: protocol.RoundCommand) -> None:
        """Send the trainer a command; its time limits count from now until it rests again."""
        assert self.watchdog is not None
        self.has_ended_epoch = False
        self.watchdog.wake()
        self.watchdog.trainer.send(command)

    def events(self) -> Iterator[protocol.Event]:
        """Yield events until the trial rests or has ended; raise if it has failed."""
        assert self.watchdog is not None
        timed_work = self.trial_run.trial.request.timed_work
        for event in self.watchdog.events():
            self.trial_run.note_event(event)
            if not self.trial_run.trainer_trials and not self.watchdog.trainer.start_s:
                now_s = event.at_s if isinstance(event, protocol.PhaseBegan) else time.monotonic()
                self.watchdog.trainer.start_s = now_s - self._begun_s
            match event:
                case protocol.PhaseEnded(phase, at_s, seconds) if phase == timed_work:
                    self.windows.append(telemetry.TimeWindow(at_s - seconds, at_s))
                case protocol.PhaseEnded("import", _, seconds):
                    self.watchdog.trainer.start_s += seconds
                case protocol.Ready(slice_steps):
                    self.usual_steps, self.length = slice_steps, event
                case protocol.Epoch():
                    self.has_ended_epoch = True
            yield event
            if isinstance(event, protocol.Resting):
                self.next_work = event.before
                self.watchdog.rest()
                return
        if self.trial_run.failure is not None:
            raise TrialReportedFailure

    def end(self, failure: FailureRecord | None = None) -> None:
        """End the trial, with a failure if there is one."""
        output = self.watchdog.trainer.output_tail() if self.watchdog and not failure else ""
        self.trial_run.end(failure, output=output)
        self.watchdog = None


class RunningRound:
    """The trials of one job in turns; the intervals of ratios are to its first trial."""

    def __init__(
        self,
        job: Job,
        trainers: TrainerPool,
        instruments: telemetry.Instruments,
        model_path: Path | None = None,
    ) -> None:
        """Prepare a round; each trial may keep a model at `model_path` with its number added."""
        self._job, self._trainers, self._instruments = job, trainers, instruments
        self._model_path = model_path
        timing = job.timing
        self._timing: Timing = timing
        self._is_timing = job.trials[0].request.measure == "timing"
        self._looks = planned_looks(timing.least, timing.most)
        self._draw = random.Random(job.trials[0].request.seed)
        self._keys = _keys_of(job.trials)
        self._trials = self._make_trials()
        self._taken = dict[int, Taken]()
        """What others took of the CPUs, by turn."""
        self._meter: telemetry.OthersMeter | None = None
        self._slice_s = 0.0
        """The seconds of the last slice."""
        self._epochs_per_turn = 1
        """Epochs of users' own loops in a turn; they double until they take about `slice_s`."""
        self._progress = list[JobProgress]()
        self._is_pruned = self._ends_early = False
        self._killed = oom_kills()

    def _make_trials(self) -> list[TrialInTurns]:
        in_turns = True if len(self._job.trials) > 1 else None
        trials = list[TrialInTurns]()
        for number, (trial, key) in enumerate(zip(self._job.trials, self._keys, strict=True)):
            request = replace(
                trial.request,
                in_turns=True,
                slice_s=self._timing.slice_s,
                timed_work=self._timing.timed_work if self._is_timing else "train",
            )
            trial_run = TrialRun(self._job, replace(trial, request=request), in_turns)
            if self._model_path is not None:
                trial_run.model_path = Path(f"{self._model_path}-{number}")
            is_own_code = find_workload(request.workload).names_own_implementations
            trials.append(TrialInTurns(trial_run, key, number, is_own_code))
        return trials

    @property
    def trial_runs(self) -> list[TrialRun]:
        """The facts about each trial, which are complete once the round is over."""
        return [trial.trial_run for trial in self._trials]

    def end_after_turn(self) -> None:
        """End a round of timing trials after its next turn, with the turns that it then has."""
        self._ends_early = True

    def prune(self) -> None:
        """End the whole trainings of the round after their current epoch."""
        self._is_pruned = True

    def run(self) -> Generator[JobProgress, None, None]:
        """Run the round, yielding its progress now and then, as a sign of life."""
        if len(self._trials) == 1:
            yield from self._run(self._trials)
            return
        together = frozenset(self._keys)
        if together not in self._trainers.too_large_together:
            yield from self._run(self._trials)
            if not self._is_out_of_memory:
                return
            for key in self._keys:
                self._trainers.end(key)
            self._trials = self._make_trials()
            self._progress.clear()
        yield from self._run_one_by_one()
        if not self._is_out_of_memory:
            self._trainers.too_large_together.add(together)

    @property
    def _is_out_of_memory(self) -> bool:
        """Whether a trainer found no memory, and may find some without the others."""
        limit_mib, node_mib = self._job.limits.memory_mib, psutil.virtual_memory().total / 2**20
        if limit_mib is not None and limit_mib * len(self._trials) < node_mib:
            return False  # a limit of its own
        failures = [trial.trial_run.failure for trial in self._trials]
        return any(failure and failure.reason == "out_of_memory" for failure in failures)

    def _run_one_by_one(self) -> Generator[JobProgress, None, None]:
        """Run each trial alone, in random order, with no other trainer in memory."""
        for trial in self._in_random_order(self._trials):
            trial.trial_run.in_turns = False
            self._ends_early, self._epochs_per_turn, self._killed = False, 1, oom_kills()
            for key in self._trainers.warm.keys() - {trial.key}:
                self._trainers.end(key)
            self._taken.clear()
            self._meter = None
            yield from self._run([trial])

    def _run(self, trials: Sequence[TrialInTurns]) -> Generator[JobProgress, None, None]:
        """Run trials in turns from their loading to their end."""
        started = self._start_trainers(trials)
        if not started:
            return
        with self._telemetry_recorded(started) as sampler:
            fresh = [
                trial
                for trial in started
                if not trial.trial_run.trainer_trials and not trial.is_own_code
            ]
            if len(fresh) > 1:
                yield from self._import_frameworks(fresh, sampler)
            if self._is_to_run_alone(trials):
                return
            for trial in _running(started):
                with self._failing_alone(trial):
                    yield from self._prepare(trial, sampler)
            if self._is_to_run_alone(trials):
                return
            if self._is_timing:
                yield JobProgress(0, most=self._looks[-1])
            elif any(not trial.is_own_code for trial in _running(trials)):
                yield JobProgress(0, doing="training")  # a loop shows its phases itself
            yield from self._take_turns(trials, sampler)
            if self._is_to_run_alone(trials):
                return
            intervals = self._intervals(_running(trials))
            for trial in _running(trials):
                yield from self._finish(trial, intervals.get(trial.number), sampler)

    def _is_to_run_alone(self, trials: Sequence[TrialInTurns]) -> bool:
        return len(trials) > 1 and self._is_out_of_memory

    def _start_trainers(self, trials: Sequence[TrialInTurns]) -> list[TrialInTurns]:
        """Start the trainers, or take warm ones; return the trials that have one."""
        keys = [trial.key for trial in trials]
        self._trainers.renew(keys)
        if len(trials) > 1:
            self._trainers.make_room(keys, _ROOMY)
        else:
            self._trainers.make_room(keys)
        with contextlib.suppress(CpusTaken):  # the largest number first: the others take from it
            if cpus := [wanted for trial in trials if (wanted := trial.trial_run.trial.cpus)]:
                self._trainers.claims.claim(max(cpus))
        started = list[TrialInTurns]()
        for trial in self._in_random_order(trials):
            trial.trial_run.restart()
            with self._failing_alone(trial):
                trainer = self._trainers.trainer_for(
                    self._job, trial.trial_run.trial, trial.key, keys
                )
                trial.trial_run.end_setup(trainer)
                trial.watchdog = Watchdog(trainer, self._job.limits)
                started.append(trial)
        return started

    def _import_frameworks(
        self, trials: Sequence[TrialInTurns], sampler: telemetry.TelemetrySampler
    ) -> Generator[JobProgress, None, None]:
        """Let fresh trainers import their frameworks at the same time, which nothing times."""
        for trial in trials:
            with self._failing_alone(trial):
                trial.begin(sampler, rests_when_imported=True)
        for trial in _running(trials):
            yield self._begins(trial, f"loading the backends of {len(trials)} arms")
            with self._failing_alone(trial):
                trial.watch()
                for _ in self._noted(trial, sampler):
                    pass
                self._end_if_over(trial)
        yield from self._new_progress()

    def _prepare(
        self, trial: TrialInTurns, sampler: telemetry.TelemetrySampler
    ) -> Generator[JobProgress, None, None]:
        """Load, build and warm up, until the trial waits for its first turn, or has ended."""
        many = len(self._trials) > 1
        of_trial = f" {trial.name} ({trial.number + 1} of {len(self._trials)})" if many else ""
        if not trial.has_begun:
            trial.begin(sampler)
        elif trial.next_work == "load":
            trial.command(protocol.Slice())
        else:
            return  # its framework was there already, and it rests before its first turn
        if trial.is_own_code:
            yield self._begins(trial, f"running its code{of_trial}")
        elif many:
            yield self._begins(trial, f"starting{of_trial}")
        seen = set[str]()  # a loop enters a phase again and again
        for event in self._noted(trial, sampler):
            match event:
                case protocol.PhaseBegan(phase) if phase in seen:
                    continue
                case protocol.PhaseBegan(phase) if phase in _PHASES or trial.is_own_code:
                    seen.add(phase)
                    doing = _PHASES.get(phase, f"in its phase {phase}")
                    yield self._begins(trial, f"{doing}{of_trial}")
        yield from self._new_progress()
        self._end_if_over(trial)

    def _begins(self, trial: TrialInTurns, doing: str) -> JobProgress:
        most = self._looks[-1] if self._is_timing else None
        return JobProgress(0, most=most, doing=doing, trial=trial.number)

    def _noted(
        self, trial: TrialInTurns, sampler: telemetry.TelemetrySampler
    ) -> Iterator[protocol.Event]:
        """Yield a trial's events up to its next rest or its end; note them for all that need it."""
        for event in trial.events():
            sampler.note_event(event)
            if isinstance(event, protocol.Epoch):
                self._progress.append(
                    JobProgress(event.index + 1, event.metrics, trial=trial.number)
                )
            yield event

    def _end_if_over(self, trial: TrialInTurns) -> None:
        """End a trial whose trainer has sent its result."""
        if trial.trial_run.has_result:
            run = trial.trial_run
            run.metrics = {**run.metrics, **self._conditions(trial)}
            trial.end()
            self._trainers.end_if_processes_remain(trial.key)

    # Turns

    def _take_turns(
        self, trials: Sequence[TrialInTurns], sampler: telemetry.TelemetrySampler
    ) -> Generator[JobProgress, None, None]:
        """Run turns until each training has ended, or the ratios of timing trials are known."""
        began_s = signed_s = time.monotonic()
        common = self._common_steps(trials)
        for turn in itertools.count():
            training = [trial for trial in _running(trials) if trial.next_work == "train"]
            is_last = self._is_timing and turn == self._looks[-1]
            if not training or is_last or self._is_to_run_alone(trials):
                return
            if self._meter is None and time.monotonic() - began_s > _SHORT_S:
                self._meter = _meter_of(training)
            self._take_turn(turn, training, common, sampler)
            self._adapt_epochs(turn, training)
            for trial in self._in_random_order(_running(trials)):
                if trial.next_work == "validate":
                    self._continue(trial, protocol.Slice(), sampler)
            if self._is_pruned:
                self._end_pruned(trials, sampler)
            yield from self._new_progress()
            if self._ends_early or self._is_known_well_enough(turn + 1, trials):
                return
            if time.monotonic() - signed_s > _SIGN_S:
                signed_s = time.monotonic()
                if self._is_timing:
                    known = turn + 1 >= self._looks[0] and bool(_running(trials))
                    interval = self._widest_interval(trials) if known else None
                    yield JobProgress(turn + 1, most=self._looks[-1], interval=interval)
                else:
                    yield JobProgress(0, doing="training")

    def _take_turn(
        self,
        turn: int,
        trials: Sequence[TrialInTurns],
        steps: int | None,
        sampler: telemetry.TelemetrySampler,
    ) -> None:
        """Run a slice of each trial, in random order, and observe what others take meanwhile."""
        if self._meter is not None:
            self._meter.start()
        for trial in self._in_random_order(trials):
            if len(trials) > 1:
                time.sleep(min(_REST_S, _REST_SHARE * self._slice_s))
            epochs = self._epochs_per_turn if trial.is_own_code and not self._is_timing else None
            for event in self._continue(trial, protocol.Slice(epochs or steps), sampler):
                if isinstance(event, protocol.SliceDone):
                    trial.slices[turn] = event
                    self._slice_s = event.seconds
        if self._meter is not None and (taken := self._meter.taken()) is not None:
            self._taken[turn] = taken

    def _continue(
        self,
        trial: TrialInTurns,
        command: protocol.RoundCommand,
        sampler: telemetry.TelemetrySampler,
    ) -> list[protocol.Event]:
        """Let a trial go on until its next rest or its end; return its events."""
        events = list[protocol.Event]()
        with self._failing_alone(trial):
            trial.command(command)
            events.extend(self._noted(trial, sampler))
            self._end_if_over(trial)
        return events

    def _common_steps(self, trials: Sequence[TrialInTurns]) -> int | None:
        """Return the steps of a slice, equal for all whole trainings, so that they keep pace.

        It is the geometric mean of what takes about `slice_s` in each. Slices are longer where
        energy can be measured, and each training is long enough for that. A timing trial has steps
        of its own (None), and a user's own loop has epochs.
        """
        slice_s, training = self._timing.slice_s, _running(trials)
        usual = [trial.usual_steps for trial in training if not trial.is_own_code]
        if self._is_timing or not usual:
            return None
        if self._can_measure_energy and all(map(self._is_long, training)):
            return math.ceil(max(usual) * _ENERGY_SLICE_S / slice_s)
        return max(1, round(statistics.geometric_mean(usual)))

    def _is_long(self, trial: TrialInTurns) -> bool:
        """Return whether a training has enough slices in which its energy can be measured."""
        length = trial.length
        if length is None or length.pass_steps is None or length.passes is None:
            return False
        pass_s = self._timing.slice_s * length.pass_steps / length.slice_steps
        return pass_s >= _ENERGY_SLICE_S and pass_s * length.passes >= _ENERGY_S

    @property
    def _can_measure_energy(self) -> bool:
        is_on_gpu = any(trial.request.device == "gpu" for trial in self._job.trials)
        return is_on_gpu or self._instruments.rapl.is_readable

    def _adapt_epochs(self, turn: int, trials: Sequence[TrialInTurns]) -> None:
        """Let users' own loops train more epochs in a turn if these are short, or very many."""
        loops = [trial for trial in trials if trial.is_own_code]
        seconds = [trial.slices[turn].seconds for trial in loops if turn in trial.slices]
        is_short = seconds and statistics.geometric_mean(seconds) < self._timing.slice_s / 2
        if is_short or (turn + 1) % _MANY_TURNS == 0:
            self._epochs_per_turn *= 2

    def _end_pruned(
        self, trials: Sequence[TrialInTurns], sampler: telemetry.TelemetrySampler
    ) -> None:
        """End the trainings that have just ended an epoch."""
        for trial in _running(trials):
            if trial.has_ended_epoch and trial.next_work == "train":
                self._continue(trial, self._finish_command(trial), sampler)

    def _finish(
        self,
        trial: TrialInTurns,
        interval: float | None,
        sampler: telemetry.TelemetrySampler,
    ) -> Generator[JobProgress, None, None]:
        """Evaluate, prove the kernel and end a trial whose training has ended."""
        if not self._is_timing:
            yield JobProgress(0, doing="evaluating", trial=trial.number)
        self._continue(trial, self._finish_command(trial), sampler)
        if interval is not None:
            run = trial.trial_run
            run.metrics = {**run.metrics, "ratio_interval": interval}

    def _finish_command(self, trial: TrialInTurns) -> protocol.Finish:
        """Return the command to end, with the slices that do not count if enough others remain.

        Others disturbed their turns, or a callback had stopped the training of another arm before:
        the least of more turns is lower.
        """
        aside = self._set_aside(trial)
        counted = self._shared_turns(trial) - aside
        if len(counted) >= LEAST_TURNS:
            aside = trial.slices.keys() - counted
        indices = tuple(index for index, turn in enumerate(trial.slices) if turn in aside)
        trial.trial_run.set_aside(indices)
        return protocol.Finish(indices)

    def _new_progress(self) -> Iterator[JobProgress]:
        progress, self._progress = self._progress, []
        yield from progress

    # What was measured

    def _set_aside(self, *trials: TrialInTurns) -> set[int]:
        """Return the turns of these trials that do not count: others took too much of the CPUs.

        What others took decides that, never how long a slice took, so that no ratio is preferred.
        None is set aside if too few would remain, or of a loop of a user's own, which reports its
        times itself.
        """
        if any(trial.is_own_code and not self._is_timing for trial in trials):
            return set()
        turns = set.intersection(*(set(trial.slices) for trial in trials))
        aside = {
            turn
            for turn in turns & self._taken.keys()
            if self._taken[turn].certainly_exceeds(_DISTURBED_PCT)
        }
        return aside if len(turns) - len(aside) >= LEAST_TURNS else set()

    def _shared_turns(self, trial: TrialInTurns) -> set[int]:
        """Return the turns that a trial took with each other one that has not failed.

        All turns of a trial that ran alone, and of a user's own loop, which reports its times.
        """
        shared = set(trial.slices)
        if trial.trial_run.in_turns and not trial.is_own_code:
            for other in self._trials:
                if other.slices and other.trial_run.failure is None:
                    shared &= other.slices.keys()
        return shared

    def _conditions(self, trial: TrialInTurns) -> dict[str, float]:
        """Return what others and the host took of the CPUs in the turns that count, in percent."""
        counted = trial.slices.keys() - self._set_aside(trial)
        taken = [self._taken[turn] for turn in counted & self._taken.keys()]
        total_s = math.fsum(each.total_s for each in taken)
        if total_s < _LEAST_SEEN_S:
            return {}
        return {
            "others_cpu_pct": 100 * math.fsum(each.others_s for each in taken) / total_s,
            "steal_pct": 100 * math.fsum(each.steal_s for each in taken) / total_s,
        }

    def _is_known_well_enough(self, turns: int, trials: Sequence[TrialInTurns]) -> bool:
        """Return whether the round may end after this number of turns.

        Intervals decide that after planned numbers of turns only: looking after each turn would
        stop at intervals that are narrow by chance.
        """
        if not self._is_timing or not _running(trials):
            return False
        return turns in self._looks and self._widest_interval(trials) <= self._timing.interval

    def _widest_interval(self, trials: Sequence[TrialInTurns]) -> float:
        """Return the widest interval of a ratio; of a trial alone, the interval of its times."""
        running = _running(trials)
        return max(self._intervals(running).values(), default=self._half_width(running[0]))

    def _intervals(self, running: Sequence[TrialInTurns]) -> dict[int, float]:
        """Return the intervals of the ratios to the first trial, by the number of the other one."""
        return {
            trial.number: self._half_width(trial, running[0])
            for trial in running[1:]
            if len(trial.slices.keys() & running[0].slices.keys()) >= 2
        }

    def _half_width(self, trial: TrialInTurns, base: TrialInTurns | None = None) -> float:
        """Return the relative half-width of the interval of a trial's time per step.

        With a `base` it is the interval of the ratio of both. Batches of the same turns are
        compared, so that slow changes of the machine cancel out.
        """
        compared = [trial, base] if base else [trial]
        turns = set.intersection(*(set(each.slices) for each in compared))
        counted = sorted(turns - self._set_aside(*compared))
        logs = [
            math.log(step_seconds([trial.slices[turn] for turn in batch]))
            - (math.log(step_seconds([base.slices[turn] for turn in batch])) if base else 0.0)
            for batch in batches_of(counted)
        ]
        return math.expm1(half_width(logs, len(self._looks))) if len(logs) > 1 else math.inf

    def _in_random_order(self, trials: Sequence[TrialInTurns]) -> list[TrialInTurns]:
        return self._draw.sample(list(trials), len(trials))

    @contextlib.contextmanager
    def _failing_alone(self, trial: TrialInTurns) -> Iterator[None]:
        """End only this trial if it fails in the block; the others of the round go on."""
        try:
            yield
        except TrialReportedFailure:
            trial.end()
        except FAILURES as error:
            output = self._trainers.end(trial.key)
            trial.end(FailureRecord(*failure_of(error, self._killed), output))

    @contextlib.contextmanager
    def _telemetry_recorded(
        self, trials: Sequence[TrialInTurns]
    ) -> Iterator[telemetry.TelemetrySampler]:
        """Sample the node during the block, once for all trials, and give each its own windows.

        One sampler serves the round, as its trainers take turns on the same machine.
        """
        devices = [trial.trial_run.trial.request.device for trial in trials]
        device: protocol.Device = "gpu" if "gpu" in devices else "cpu"
        pids = [trial.watchdog.trainer.pid for trial in trials if trial.watchdog is not None]
        idle = self._trainers.others_on_gpu(*(trial.key for trial in trials)).values()
        sampler = telemetry.TelemetrySampler(device, pids[0], self._instruments, [*pids[1:], *idle])
        sampler.start()
        try:
            yield sampler
        finally:
            recording = sampler.stop()
            for trial in trials:
                trial.trial_run.idle_on_gpu = idle
                device = trial.trial_run.trial.request.device
                trial.trial_run.recording = recording.of(device, merged(trial.windows))


def _keys_of(trials: Sequence[RoundTrial]) -> list[TrainerKey]:
    """Return the trainer of each trial: one of its implementation, the same in each round."""
    keys, seen = list[TrainerKey](), Counter[TrainerKey]()
    for trial in trials:
        name = trial.request.implementation
        if len(trials) == 1:
            name = parse_implementation(name).process
        key: TrainerKey = name, trial.request.device, trial.cpus
        seen[key] += 1
        if seen[key] > 1:  # arms that differ in their settings alone
            key = f"{name} {seen[key]}", trial.request.device, trial.cpus
        keys.append(key)
    return keys


def _meter_of(trials: Sequence[TrialInTurns]) -> telemetry.OthersMeter | None:
    """Return a meter of what others take of the CPUs; None if a trainer has just ended."""
    pids = [trial.watchdog.trainer.pid for trial in trials if trial.watchdog]
    with contextlib.suppress(psutil.Error):
        return telemetry.OthersMeter(pids)
    return None


def _running(trials: Sequence[TrialInTurns]) -> list[TrialInTurns]:
    return [trial for trial in trials if trial.watchdog is not None]
