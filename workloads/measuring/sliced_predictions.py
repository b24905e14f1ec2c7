"""Predictions in slices on request (`docs/trust.md`). Imports Keras.

The batches are where the device reads them before a slice begins: what is timed is the model's own
compiled predict function, without a data pipeline, callbacks, or copies of the predictions.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import keras
import numpy as np

from workloads.backends.feeding import Batches
from workloads.backends.framework import Framework
from workloads.context import Context, expect_finite
from workloads.data.samples import Samples
from workloads.measuring.device_state import peak_memory
from workloads.measuring.keras_clocks import expect_nothing_compiled, time_warm_up
from workloads.measuring.slices_of_calls import time_slices
from workloads.models.layers import is_stateful, reset_states
from workloads.models.training_run import TrainingRun

_MOST_BATCHES, _MOST_BYTES = 64, 64 * 2**20
"""The number of batches that take turns in a slice, or fewer if they are larger."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions of a trial: batches on the device, and the function that predicts them.

    `predict` predicts batches in their order, and returns the last outputs. `nothing_compiled`
    returns a context that raises `CompiledWhileTimed` if something is compiled inside it.
    """

    trial: Context
    framework: Framework
    batches: list[Any]
    batch_size: int
    predict: Callable[[Iterable[Any]], Any]
    nothing_compiled: Callable[[], AbstractContextManager[object]]
    flops_per_sample: float | None

    def warm_up(self) -> float:
        """Predict the first batch twice; return the compile seconds.

        Raise `NonFinite` for predictions that are NaN or infinite.
        """
        compile_s = time_warm_up(lambda: self.framework.synchronise(self._predict(1)))
        outputs = [value for value in keras.tree.flatten(self._predict(1)) if value is not None]
        for number, array in enumerate(map(keras.ops.convert_to_numpy, outputs)):
            total = float(np.sum(array, dtype=np.float64))
            expect_finite({f"sum of output {number}": total}, "predictions")
        return compile_s

    def time_slices(self) -> dict[str, float]:
        """Run the requested slices; return the metrics of the trial."""
        self.framework.reset_peak_memory()
        with self.nothing_compiled():
            metrics = time_slices(
                self.trial,
                self.framework,
                self._predict,
                batch_size=self.batch_size,
                flops_per_sample=self.flops_per_sample,
            )
        return metrics | peak_memory(self.trial, self.framework)

    def _predict(self, count: int) -> Any:
        return self.predict(islice(cycle(self.batches), count))


def predictions_of(run: TrainingRun, trial: Context) -> Predictions:
    """Return the predictions of a Keras model.

    A stateful model starts each slice from zero states, and keeps them from batch to batch.
    """
    model, framework = run.model, run.model.witness.framework
    model.witness.timed_work = "predict"
    predict = framework.make_predict(model)

    def predict_from_zero_states(batches: Iterable[Any]) -> Any:
        reset_states(model)
        return predict(batches)

    return Predictions(
        trial,
        framework,
        place_batches(framework, run.train, run.batch_size),
        min(run.batch_size, len(run.train)),
        predict_from_zero_states if is_stateful(model) else predict,
        lambda: expect_nothing_compiled(model),
        run.flops_per_sample,
    )


def place_batches(framework: Framework, samples: Samples, batch_size: int) -> list[Any]:
    """Copy the inputs of the first batches to the device."""
    batches = Batches(samples, batch_size)
    placed, size = list[Any](), 0
    for index in range(min(len(batches), _MOST_BATCHES)):
        inputs = batches[index][0]
        size += sum(array.nbytes for array in keras.tree.flatten(inputs))
        if placed and size > _MOST_BYTES:
            break
        placed.append(framework.place(inputs))
    framework.synchronise(placed)
    return placed
