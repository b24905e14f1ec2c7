"""Predictions in slices on request (`docs/methodology.md`). Imports Keras.

The batches are where the device reads them before a slice begins: what is timed is the model's own
compiled predict function, without a data pipeline, callbacks, or copies of the predictions.
"""

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import keras
import numpy as np

from workloads.backends.feeding import Batches
from workloads.context import Context, expect_finite
from workloads.measuring.canary import peak_memory, run_with_canary
from workloads.measuring.keras_clocks import expect_nothing_compiled, time_warm_up
from workloads.measuring.slices_of_calls import time_slices
from workloads.models.layers import is_stateful
from workloads.models.run import TrainingRun, reset_states

_MOST_BATCHES, _MOST_BYTES = 64, 64 * 2**20
"""So many batches take turns in a slice, or fewer if they are larger."""


class Predictions:
    """The predictions of a trial: batches on the device, and the function that predicts them.

    A stateful model starts each slice from zero states, and keeps them from batch to batch.
    """

    def __init__(self, run: TrainingRun, trial: Context) -> None:
        run.model.witness.timed_work = "predict"
        self._run, self._trial = run, trial
        self._framework = run.model.witness.framework
        self._batches = self._place_batches()
        self._predict: Callable[..., Any] = self._framework.make_predict(run.model)

    def warm_up(self) -> float:
        """Predict the first batch twice; return the compile seconds.

        Raise `NonFinite` for predictions that are NaN or infinite.
        """
        compile_s = time_warm_up(lambda: self._framework.synchronise(self._predict_batches(1)))
        outputs = keras.tree.flatten(self._predict_batches(1))
        for number, array in enumerate(map(keras.ops.convert_to_numpy, outputs)):
            total = float(np.sum(array, dtype=np.float64))
            expect_finite({f"sum of output {number}": total}, "predictions")
        return compile_s

    def time_slices(self) -> dict[str, float]:
        """Run the requested slices; return the metrics of the trial."""
        run = self._run

        def work() -> dict[str, float]:
            with expect_nothing_compiled(run.model):
                return time_slices(
                    self._trial,
                    self._framework,
                    self._predict_batches,
                    batch_size=min(run.batch_size, len(run.train)),
                    flops_per_sample=run.flops_per_sample,
                )

        return run_with_canary(run.device, self._framework, work) | peak_memory()

    def _predict_batches(self, count: int) -> Any:
        if is_stateful(self._run.model):
            reset_states(self._run.model)
        return self._predict(islice(cycle(self._batches), count))

    def _place_batches(self) -> list[Any]:
        """Copy the first full batches to the device."""
        batches = Batches(self._run.train, self._run.batch_size)
        placed, size = list[Any](), 0
        for index in range(min(len(batches), _MOST_BATCHES)):
            inputs = batches[index][0]
            size += sum(array.nbytes for array in keras.tree.flatten(inputs))
            if placed and size > _MOST_BYTES:
                break
            placed.append(self._framework.place(inputs))
        self._framework.synchronise(placed)
        return placed
