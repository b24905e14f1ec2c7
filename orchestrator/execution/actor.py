"""The trainable that Tune keeps as an actor: one job at a time, in trainer processes.

A failure of any kind is a result with its reason, never an exception: an exception would cost
Tune the actor, and with it every warm trainer.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from ray import tune

from orchestrator.core.trial import FailureRecord, outcome_adapter, to_json
from orchestrator.execution import telemetry
from orchestrator.execution.cpu_claims import CpuClaims
from orchestrator.execution.interleaved_round import InterleavedRound
from orchestrator.execution.job import Job, TrialRun, job_adapter
from orchestrator.execution.trainer_pool import TrainerPool, key_of, make_room, trainer_for
from orchestrator.execution.watchdog import FAILURES, Watchdog, failure_of, oom_kills
from workloads import protocol


class TrialActor(tune.Trainable):
    """A runner of the trials that Tune sends, which keeps trainers warm from one to the next."""

    _run: Generator[protocol.Epoch, None, None]

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first job."""
        self._work: TrialRun | InterleavedRound | None = None
        self._trainers: TrainerPool = {}
        self._claims = CpuClaims()
        self._instruments = telemetry.Instruments()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next job; the trainers stay warm."""
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Continue to the next epoch (a sign of life) or the end of the job."""
        for epoch in self._run:
            return {"epoch": epoch.index, "done": False}
        assert self._work is not None
        work = self._work
        outcomes = [work.outcome()] if isinstance(work, TrialRun) else work.outcomes()
        return {
            "outcomes": [to_json(outcome_adapter, outcome).decode() for outcome in outcomes],
            "done": True,
        }

    def cleanup(self) -> None:
        """End the trainers."""
        for trainer in self._trainers.values():
            trainer.close()
        self._trainers.clear()
        self._claims.release()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Keep nothing: a stopped sweep resumes from the journal."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load nothing: see `save_checkpoint`."""

    def _begin(self, config: Mapping[str, Any]) -> None:
        if self._work is not None and not self._work.ended:
            self._run.close()
            self.cleanup()  # Tune took the trial away while its trainer was at work
        if self._work is not None and self._work.sampler_hangs:
            self._instruments = telemetry.Instruments()
        job = job_adapter.validate_json(config["job"])
        if job.timing is not None:
            self._work = InterleavedRound(
                job, job.timing, self._trainers, self._claims, self._instruments
            )
            self._run = self._work.run()
            return
        self._work = TrialRun(job, instruments=self._instruments)
        self._run = run_trial(job, self._work, self._trainers, self._claims)


def run_trial(
    job: Job,
    trial_run: TrialRun,
    trainers: TrainerPool,
    claims: CpuClaims | None = None,
) -> Generator[protocol.Epoch, None, None]:
    """Run one trial, yielding its epochs as they happen; `trial_run` then holds its outcome.

    A trainer that reported a failure itself stays warm. Any other failure leaves its state in
    doubt, so that it is ended.
    """
    key, killed = key_of(job), oom_kills()
    make_room(trainers, {key})
    try:
        trainer = trainer_for(job, trainers, key, claims or CpuClaims())
        trial_run.trainer_trials = trainer.trials
        trial_run.cpus = trainer.cpus
        trial_run.setup_s = time.time() - trial_run.started_s
        trainer.trials += 1
        trainer.request(job.request)
        trial_run.start_sampler(trainer)
        for event in _until_the_end(Watchdog(trainer, job.limits)):
            trial_run.take(event)
            if isinstance(event, protocol.Epoch):
                yield event
        trial_run.keep_output(trainer.output_tail())
        trial_run.ended = True
        return
    except FAILURES as error:
        reason, message = failure_of(error, killed)
    finally:
        trial_run.stop_sampler()
    dead = trainers.pop(key, None)
    trial_run.failure = FailureRecord(reason, message, dead.output_tail() if dead else "")
    trial_run.ended = True
    if dead:
        dead.close()


def _until_the_end(watchdog: Watchdog) -> Iterator[protocol.Event]:
    """Yield the trainer's events up to its result or failure."""
    while True:
        event = watchdog.next_event()
        if event is not None:
            yield event
            if isinstance(event, protocol.Result | protocol.Failure):
                return
