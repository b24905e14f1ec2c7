"""Two clocks on Keras' own `fit`: one of epochs, in which it runs free, and one of single steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import keras

from workloads.context import Context, PhaseWindow
from workloads.models.model import WitnessedModel

_ENOUGH_FOR_A_PERCENTILE = 20


class EpochClock(keras.callbacks.Callback):
    """Times the training and the validation of each epoch, and reports them as they end.

    It is called once an epoch and never once a batch: `fit` keeps its asynchronous dispatch.
    """

    def __init__(
        self, trial: Context, synchronise: Callable[[], None], target_accuracy: float | None
    ) -> None:
        super().__init__()
        self._trial, self._synchronise, self._target = trial, synchronise, target_accuracy
        self._window: PhaseWindow | None = None
        self._cpu_began_s = self._epoch_s = 0.0
        self.cpu_s = 0.0
        self.reached_s: float | None = None
        self.last: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the training window."""
        self.model.witness.after_steps = self._steps_done
        self._synchronise()
        self._cpu_began_s = time.process_time()
        self._window = self._trial.begin("train")

    def on_test_begin(self, logs: Any = None) -> None:
        """Open the validation window; closes the training window if `fit` has not done so."""
        self._steps_done()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Close the validation window, and report."""
        self._synchronise()
        assert self._window is not None
        validate_s = self._trial.end(self._window).seconds
        self.last = {name: float(value) for name, value in (logs or {}).items()}
        self._trial.epoch(epoch, self._epoch_s, validate_s, **self.last)
        if self._target is not None and self.reached_s is None:
            self._note_target(self._target)

    def _steps_done(self) -> None:
        if self.model.witness.after_steps is None:
            return
        self.model.witness.after_steps = None
        self._synchronise()
        assert self._window is not None
        self._epoch_s = self._trial.end(self._window).seconds
        self.cpu_s += time.process_time() - self._cpu_began_s
        self._window = self._trial.begin("validate")

    def _note_target(self, target: float) -> None:
        if self.last["val_accuracy"] >= target:
            self.reached_s = self._trial.seconds["train"]


class StepClock:
    """Stands in for a model's train function: times each call of it, synchronised at both edges.

    The function is the one that `fit` traced, and no metric is fetched. On TensorFlow and JAX it
    fetches its batch itself, on PyTorch it is given one: the spread is for arms of one backend.
    The last call that counts ends the training.
    """

    def __init__(self, model: WitnessedModel, steps: int, ignored: Callable[[int], bool]) -> None:
        self._model, self._train = model, model.train_function
        self._synchronise = model.witness.framework.synchronise
        self._wanted, self._ignored = steps, ignored
        self.calls = 0
        self.seconds: list[float] = []

    def __enter__(self) -> StepClock:
        self._model.train_function = self._timed
        return self

    def __exit__(self, *raised: object) -> None:
        self._model.train_function = self._train

    def _timed(self, *arguments: Any) -> Any:
        self._synchronise()
        began_s = time.monotonic()
        outputs = self._train(*arguments)
        self._synchronise(outputs)
        seconds = time.monotonic() - began_s
        if not self._ignored(self.calls):
            self.seconds.append(seconds)
        self.calls += 1
        self._model.stop_training = len(self.seconds) >= self._wanted
        return outputs


def step_metrics(seconds: list[float]) -> dict[str, float]:
    """Median, and from enough steps the 95th percentile, in milliseconds."""
    found = {"step_ms_median": 1_000 * statistics.median(seconds)}
    if len(seconds) >= _ENOUGH_FOR_A_PERCENTILE:
        found["step_ms_p95"] = 1_000 * statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return found
