"""The times of a trial's epochs: windows of training and validation, and what ends the training."""

import time
from collections.abc import Callable, Mapping

from workloads.context import Context, PhaseWindow
from workloads.measuring.step_times import rates
from workloads.settings import TrainingPlan


class TimedEpochs:
    """The epochs of a whole training so far; a training loop reports their windows to it.

    `synchronise` waits until all steps so far are computed.
    """

    def __init__(
        self, trial: Context, plan: TrainingPlan, synchronise: Callable[[], object]
    ) -> None:
        self._trial, self._plan, self._synchronise = trial, plan, synchronise
        self._window: PhaseWindow | None = None
        self._cpu_began_s = self._epoch_s = 0.0
        self.cpu_s = 0.0
        self.goal_s: float | None = None
        """Training seconds until the plan's goal; None if it was not reached."""
        self.epochs = 0
        """The epochs that have ended."""
        self.last_metrics: Mapping[str, float] = {}
        """Loss and metrics of the last epoch."""

    def begin_training(self) -> None:
        """Open the training window of an epoch."""
        self._synchronise()
        self._cpu_began_s = time.process_time()
        self._window = self._trial.begin("train")

    def begin_validation(self) -> None:
        """Close the training window, and open the validation window."""
        self._synchronise()
        assert self._window is not None
        self._epoch_s = self._trial.end(self._window).seconds
        self.cpu_s += time.process_time() - self._cpu_began_s
        self._window = self._trial.begin("validate")

    def end_epoch(self, metrics: Mapping[str, float]) -> bool:
        """Close the validation window, and report the epoch; return True if a pruner ends it here.

        Raise `NonFinite` if a metric is NaN or infinite.
        """
        self._synchronise()
        assert self._window is not None
        validate_s = self._trial.end(self._window).seconds
        self.last_metrics = metrics if self._plan.learns else {}
        self._trial.epoch(self.epochs, self._epoch_s, validate_s, **self.last_metrics)
        goal = self._plan.goal
        if goal and self.goal_s is None and self.last_metrics[goal.metric] >= goal.at_least:
            self.goal_s = self._trial.seconds["train"]
        self.epochs += 1
        return self.epochs < self._plan.epochs and self._trial.should_prune()

    def training_metrics(
        self, steps: int, samples: int, flops_per_sample: float
    ) -> dict[str, float]:
        """Return the metrics of the training; an epoch has so many steps and samples."""
        train_s = self._trial.seconds["train"]
        step_s = train_s / (steps * self.epochs)
        metrics = {
            **self.last_metrics,
            "train_s": train_s,
            "step_ms": 1_000 * step_s,
            **rates(step_s, samples / steps, flops_per_sample),
            "cpu_over_wall": self.cpu_s / train_s,
        }
        if self._plan.goal is not None and self.goal_s is not None:
            metrics[self._plan.goal.reported_as] = self.goal_s
        return metrics
