"""Two clocks for Keras' own `fit`: one for whole epochs, and one for single synchronised steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import keras

from workloads.context import Context, PhaseWindow
from workloads.models.model import WitnessedModel

_MIN_STEPS_FOR_PERCENTILE = 20


class EpochClock(keras.callbacks.Callback):
    """A callback that times the training and the validation of every epoch, and reports them.

    It is called once per epoch and never per batch: `fit` keeps its asynchronous dispatch.
    """

    def __init__(
        self, trial: Context, synchronise: Callable[[], None], target_accuracy: float | None
    ) -> None:
        super().__init__()
        self._trial, self._synchronise, self._target = trial, synchronise, target_accuracy
        self._window: PhaseWindow | None = None
        self._cpu_began_s = self._epoch_s = 0.0
        self.cpu_s = 0.0
        self.target_s: float | None = None
        """Training seconds until the target accuracy; None if it was not reached."""
        self.last_metrics: dict[str, float] = {}
        """Loss and metrics of the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the training window."""
        self.model.witness.on_steps_done = self._steps_done
        self._synchronise()
        self._cpu_began_s = time.process_time()
        self._window = self._trial.begin("train")

    def on_test_begin(self, logs: Any = None) -> None:
        """Open the validation window; close the training window if it is still open."""
        self._steps_done()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Close the validation window, and report the epoch."""
        self._synchronise()
        assert self._window is not None
        validate_s = self._trial.end(self._window).seconds
        self.last_metrics = {name: float(value) for name, value in (logs or {}).items()}
        self._trial.epoch(epoch, self._epoch_s, validate_s, **self.last_metrics)
        if self._target is not None and self.target_s is None:
            self._check_target(self._target)

    def _steps_done(self) -> None:
        if self.model.witness.on_steps_done is None:
            return
        self.model.witness.on_steps_done = None
        self._synchronise()
        assert self._window is not None
        self._epoch_s = self._trial.end(self._window).seconds
        self.cpu_s += time.process_time() - self._cpu_began_s
        self._window = self._trial.begin("validate")

    def _check_target(self, target: float) -> None:
        if self.last_metrics["val_accuracy"] >= target:
            self.target_s = self._trial.seconds["train"]


class StepClock:
    """A replacement of a model's train function that times every call, synchronised at both edges.

    The function is the one that `fit` traced, and no metric is fetched. On TensorFlow and JAX it
    reads its own batch, on PyTorch it gets one: compare the spread within one backend only. The
    training stops after `steps` calls that count; `is_ignored` gets the number of a call.
    """

    def __init__(
        self, model: WitnessedModel, steps: int, is_ignored: Callable[[int], bool]
    ) -> None:
        self._model, self._train = model, model.train_function
        self._synchronise = model.witness.framework.synchronise
        self._steps, self._is_ignored = steps, is_ignored
        self.calls = 0
        self.seconds: list[float] = []

    def __enter__(self) -> StepClock:
        self._model.train_function = self._run_timed
        return self

    def __exit__(self, *raised: object) -> None:
        self._model.train_function = self._train

    def _run_timed(self, *arguments: Any) -> Any:
        self._synchronise()
        began_s = time.monotonic()
        outputs = self._train(*arguments)
        self._synchronise(outputs)
        seconds = time.monotonic() - began_s
        if not self._is_ignored(self.calls):
            self.seconds.append(seconds)
        self.calls += 1
        self._model.stop_training = len(self.seconds) >= self._steps
        return outputs


def step_metrics(seconds: list[float]) -> dict[str, float]:
    """Return the median and, from 20 steps on, the 95th percentile, in ms.

    Args:
        seconds: time of every step.
    """
    metrics = {"step_ms_median": 1_000 * statistics.median(seconds)}
    if len(seconds) >= _MIN_STEPS_FOR_PERCENTILE:
        metrics["step_ms_p95"] = 1_000 * statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return metrics
