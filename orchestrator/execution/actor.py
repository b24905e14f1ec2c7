"""The trainable that Tune keeps as an actor; an exception would cost Tune the actor."""

import tempfile
import time
import uuid
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from orchestrator.core.trial import FailureRecord, outcome_adapter, validated_json
from orchestrator.execution import telemetry
from orchestrator.execution.interleaved_round import InterleavedRound
from orchestrator.execution.job import JobProgress, TrialRun, job_adapter
from orchestrator.execution.telemetry.gpu_gauge import lost_gpu
from orchestrator.execution.trainer_pool import TrainerPool, key_of
from orchestrator.execution.watchdog import FAILURES, Watchdog, failure_of, oom_kills
from workloads import protocol
from workloads.registry import find_workload

_PHASES = {"import": "loading the backend", "compile": "compiling"}


class TrialActor(tune.Trainable):
    """A runner of the trials that Tune sends, which keeps trainers warm from one to the next."""

    _signs: Generator[JobProgress, None, None]

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first job."""
        self._trial_runs: list[TrialRun] = []
        self._trainers = TrainerPool()
        # made by a trial that keeps a model only: Ray may kill this process at any time
        self._model_path = Path(tempfile.gettempdir(), f"rnnsweep-model-{uuid.uuid4().hex}")
        self._instruments = telemetry.Instruments()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next job, of the same Tune trial or another; the trainers stay warm."""
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Continue to the next progress (a sign of life) or the end of the job."""
        if self._lost_gpu is not None:  # keep it, so that Ray gives it to nobody else
            time.sleep(1.0)
            return {"lost_gpu": self._lost_gpu, "done": False}
        for progress in self._signs:
            return {"progress": progress}
        trial_runs, self._trial_runs = self._trial_runs, []  # each outcome is an answer once
        outcomes = [trial_run.outcome() for trial_run in trial_runs]
        return {
            "models": [trial_runs[0].packed_model()],
            "outcomes": [validated_json(outcome_adapter, outcome).decode() for outcome in outcomes],
        }

    def prune(self) -> None:
        """Ask the trial to end after its current epoch, and its trainer to stay warm."""
        for trial_run in self._trial_runs:
            trial_run.prune()

    def cleanup(self) -> None:
        """End the trainers."""
        self._trainers.close()

    def _begin(self, config: Mapping[str, Any]) -> None:
        """Make ready to run a job: one trial, or an interleaved round; nothing if a GPU is lost."""
        if not all(trial_run.ended for trial_run in self._trial_runs):
            self._signs.close()
            self._trainers.close()  # Tune took the job away while its trainers were at work
        job = job_adapter.validate_json(config["job"])
        devices = {job.request.device, *(partner.request.device for partner in job.partners)}
        self._lost_gpu = lost_gpu() if "gpu" in devices else None
        if self._lost_gpu is not None:
            self._trainers.close()
            self._trial_runs = []
            return
        if job.timing is not None:
            interleaved = InterleavedRound(job, job.timing, self._trainers, self._instruments)
            self._trial_runs, self._signs = interleaved.trial_runs, interleaved.run()
        else:
            trial_run = TrialRun(job, model_path=self._model_path)
            self._trial_runs = [trial_run]
            self._signs = run_trial(trial_run, self._trainers, self._instruments)


def run_trial(
    trial_run: TrialRun, trainers: TrainerPool, instruments: telemetry.Instruments
) -> Generator[JobProgress, None, None]:
    """Run one trial, yielding its phases and epochs; `trial_run` then holds its outcome."""
    # A trainer that reported a failure itself stays warm; after any other failure it is ended.
    job = trial_run.job
    key, killed = key_of(job), oom_kills()
    trainers.make_room({key})
    try:
        trainer = trainers.trainer_for(job, key)
        trial_run.idle_on_gpu = idle = trainers.others_on_gpu(key).values()
        trial_run.begin(trainer)
        is_own_code = find_workload(job.request.workload).names_own_implementations
        seen = set[str]()  # a loop enters a phase again and again
        if is_own_code:
            yield JobProgress(0, doing="running its code")
        sampler = telemetry.TelemetrySampler(job.request.device, trainer.pid, instruments, idle)
        sampler.start()
        try:
            for event in Watchdog(trainer, job.limits, sampler).events():
                sampler.note_event(event)
                trial_run.note_event(event)
                match event:
                    case protocol.PhaseBegan(phase) if phase in _PHASES:
                        yield JobProgress(0, doing=_PHASES[phase])
                    case protocol.PhaseBegan(phase) if is_own_code and phase not in seen:
                        seen.add(phase)
                        yield JobProgress(0, doing=f"in its phase {phase}")
                    case protocol.PhaseEnded("compile"):
                        yield JobProgress(0, doing="training")
                    case protocol.Epoch():
                        yield JobProgress(event.index + 1, event.metrics)
        finally:
            trial_run.recording = sampler.stop()
        trial_run.end(output=trainer.output_tail())
        trainers.end_if_processes_remain(key)
    except FAILURES as error:
        trial_run.end(FailureRecord(*failure_of(error, killed), trainers.end(key)))
