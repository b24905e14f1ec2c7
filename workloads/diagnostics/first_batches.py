"""Train a user's Keras model on a batch, or let it predict one, before any trial.

What fails is told with the location in the user's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.data.array_trees import arrays_of, is_single_array, shapes_text
from workloads.data.samples import DataSet, Samples, batches_not_finite
from workloads.diagnostics.failed_pass import failed_pass
from workloads.diagnostics.value_ranges import extreme_samples
from workloads.failures import DataError, NonFinite
from workloads.own_code import describe_error, read_code
from workloads.protocol import TimedWork
from workloads.tasks.own_model.task import OwnFunctions, location_of

_ELEMENTWISE_LOSSES = frozenset(
    {
        "mse",
        "meansquarederror",
        "mae",
        "meanabsoluteerror",
        "mape",
        "msle",
        "huber",
        "logcosh",
        "bce",
        "binarycrossentropy",
    }
)
"""Keras' losses that compare each output with a target of its own, in small letters."""

_OTHER_SHAPES = "return arrays of the model's shapes, or change its keras.Input or its last layer"


class FailsHere(Exception):
    """An error of Keras or of the backend for a batch whose shapes fit; another backend may differ.

    The text is the reason, `advice` what to do if the shapes do not fit after all.
    """

    def __init__(self, reason: str, place: str, advice: str) -> None:
        super().__init__(reason)
        self.place, self.advice = place, advice


@dataclass(frozen=True, slots=True)
class FirstBatches:
    """A try of own Keras models on their first batches: `functions` build them and load data."""

    functions: OwnFunctions
    timed_work: TimedWork
    workload: str

    def try_model(self, model: Any, data: DataSet, batch_size: int) -> tuple[str, ...]:
        """Compute the loss and the metrics of the first batch; return their names.

        Samples with values that are NaN or infinite are tried as well. Raise `DataError` for data
        that do not fit the model, `NonFinite` for a result that is NaN or infinite, and `FailsHere`
        for what Keras or the backend refuses.
        """
        import keras  # noqa: PLC0415 - the framework of this process

        count = min(batch_size, len(data.train))  # a layer may be written for this size alone
        for layer in model._flatten_layers():
            if getattr(layer, "use_cudnn", False) is True:  # this process sees no GPU
                layer.use_cudnn = "auto"
        model.run_eagerly = True
        try:
            for which, batch in batches_not_finite(data, count):  # the most exact message is first
                self._run_batch(model, batch, f"{which}, which has a NaN or infinite value")
            names = self._run_batch(model, data.train.first(count), "the first batch")
            extremes = extreme_samples(data, count)
            if extremes is not None:
                self._run_batch(model, extremes, "the samples with the smallest and largest values")
        finally:
            keras.utils.clear_session()
        return names

    def _run_batch(self, model: Any, batch: Samples, which: str) -> tuple[str, ...]:
        """Run the timed work on a batch; `which` names it in the message if a result is NaN."""
        import keras  # noqa: PLC0415 - the framework of this process

        location = location_of(self.functions.load or self.functions.build)
        received = f"x {_shapes(batch.inputs)}, y {_shapes(batch.targets)}"
        expected = f"{location}: expected data for a model that {_model_shapes(model)}"
        if not _takes(model, batch.inputs):
            raise DataError(f"{expected}; received {received}: {_OTHER_SHAPES}")
        if self.timed_work == "train" and _are_stretched(model, batch.targets):
            raise DataError(
                f"{expected}; received {received}: Keras' loss would broadcast them without an"
                " error. Give the targets the shape of the output"
            )
        try:
            if self.timed_work == "predict":
                outputs = keras.tree.flatten(model.predict_on_batch(batch.inputs))
                results = {f"output {number}": array for number, array in enumerate(outputs)}
            else:
                # Training, as the operations of another framework may fail at the gradients only.
                with _packed_as_by_fit(model):
                    results = model.train_on_batch(
                        batch.inputs, batch.targets, batch.weights, return_dict=True
                    )
        except (ValueError, TypeError, RuntimeError) as error:
            if _is_in_user_code(error, self.workload):
                raise
            backend, work = keras.backend.backend(), self.timed_work
            passed, reason = failed_pass(error), describe_error(error, None).splitlines()[0]
            raise FailsHere(
                f"Keras on {backend} cannot {work} the model as it is written:"
                f" {f'{passed}: ' if passed else ''}{reason}",
                location,
                f"the model {_model_shapes(model)}; the data have {received}. If they do not fit:"
                f" {_OTHER_SHAPES}",
            ) from error
        faults = [name for name, value in results.items() if not np.all(np.isfinite(value))]
        if faults:
            raise NonFinite(
                f"{location_of(self.functions.build)}: {' and '.join(faults)}"
                f" {'is' if len(faults) == 1 else 'are'} NaN or infinite for {which} ({received}):"
                " check the loss, and the data for missing or very large values"
            )
        return tuple(results) if self.timed_work == "train" else ()


@contextmanager
def _packed_as_by_fit(model: Any) -> Iterator[None]:
    """Let a step get `(x, y)` where there are no weights; `train_on_batch` says `(x, y, None)`."""
    from keras import utils  # noqa: PLC0415 - the framework of this process

    step = model.train_step

    def step_on_packed(*arguments: Any) -> Any:
        *state, data = arguments
        return step(*state, utils.pack_x_y_sample_weight(*utils.unpack_x_y_sample_weight(data)))

    model.train_step = step_on_packed
    try:
        yield
    finally:
        del model.train_step


def _shapes(tree: Any) -> str:
    """Write the shapes of one array, or of the arrays of a tree."""
    return shapes_text(("", array) for array in arrays_of(tree))


def _takes(model: Any, inputs: Any) -> bool:
    """Return False if a model with one input has another shape than the data."""
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple) or not is_single_array(inputs):
        return True  # several inputs, or a subclassed model: Keras will say
    if any(isinstance(size, tuple) for size in shape):
        return True
    sizes = zip(shape[1:], inputs.shape[1:], strict=False)
    is_rank_equal = len(shape) == len(inputs.shape) or (len(shape), len(inputs.shape)) == (2, 1)
    return is_rank_equal and all(wanted in (None, size) for wanted, size in sizes)


def _are_stretched(model: Any, targets: Any) -> bool:
    """Return True if the loss of one output stretches an axis of the targets, or of the outputs."""
    shape = getattr(model, "output_shape", None)
    if not isinstance(shape, tuple) or any(isinstance(size, tuple) for size in shape):
        return False
    loss = model.loss
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    if name.lower().replace("_", "") not in _ELEMENTWISE_LOSSES or not is_single_array(targets):
        return False
    sizes = zip(shape[1:], targets.shape[1:], strict=False)
    return len(shape) == len(targets.shape) and any(
        wanted not in (None, size) for wanted, size in sizes
    )


def _model_shapes(model: Any) -> str:
    """Write the shapes that a built model takes and returns."""
    takes, returns = getattr(model, "input_shape", None), getattr(model, "output_shape", None)
    return f"takes x of shape {takes} and returns {returns}"


def _is_in_user_code(error: BaseException, workload: str) -> bool:
    """Return True if an error comes from a function of the user's, such as a loss or a layer."""
    return ", at " in describe_error(error, read_code(workload)).splitlines()[0]
