"""The trainable that Tune keeps as an actor; an exception would cost Tune the actor."""

import tempfile
import time
import uuid
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from orchestrator.core.trial import outcome_adapter, validated_json
from orchestrator.execution import telemetry
from orchestrator.execution.job import JobProgress, job_adapter
from orchestrator.execution.round import RunningRound
from orchestrator.execution.telemetry.gpu_gauge import lost_gpu
from orchestrator.execution.trainer_pool import TrainerPool


class TrialActor(tune.Trainable):
    """A runner of the rounds that Tune sends, which keeps trainers warm from one to the next."""

    _signs: Generator[JobProgress, None, None]

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first job."""
        self._round: RunningRound | None = None
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
        assert self._round is not None
        trial_runs, self._round = self._round.trial_runs, None  # each outcome is an answer once
        outcomes = [trial_run.outcome() for trial_run in trial_runs]
        return {
            "models": [trial_run.packed_model() for trial_run in trial_runs],
            "outcomes": [validated_json(outcome_adapter, outcome).decode() for outcome in outcomes],
        }

    def prune(self) -> None:
        """End the trials of the round after their current epoch; their trainers stay warm."""
        if self._round is not None:
            self._round.prune()

    def cleanup(self) -> None:
        """End the trainers."""
        self._trainers.close()

    def _begin(self, config: Mapping[str, Any]) -> None:
        """Make ready to run a round; nothing if a GPU is lost."""
        if self._round is not None:
            self._signs.close()
            self._trainers.close()  # Tune took the job away while its trainers were at work
        self._round = None
        job = job_adapter.validate_json(config["job"])
        uses_gpu = any(trial.request.device == "gpu" for trial in job.trials)
        self._lost_gpu = lost_gpu() if uses_gpu else None
        if self._lost_gpu is not None:
            self._trainers.close()
            return
        self._round = RunningRound(job, self._trainers, self._instruments, self._model_path)
        self._signs = self._round.run()
