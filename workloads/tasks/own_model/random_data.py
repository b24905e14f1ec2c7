"""Random inputs and targets of a model's shapes, for times only. Imports no framework itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.data.array_trees import ArrayTree
from workloads.data.samples import DataSet, Samples
from workloads.failures import DataError

_BATCHES = 8
"""Batches of training samples; there is one more of validation samples."""

_STEPS = 64
"""The length of sequences of a model that takes any length."""

_INDEX_LOSSES = ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy")
_BINARY_LOSSES = ("binary_crossentropy", "BinaryCrossentropy", "binary_focal_crossentropy")


def random_data(model: Any, batch_size: int, location: str) -> DataSet:
    """Draw inputs and targets for a built model; raise `DataError` for another one.

    Inputs are uniform in [-1, 1], or integers that an Embedding takes. Targets are class numbers
    for a sparse loss, 0 or 1 for a binary one, else uniform in [-1, 1]. `location` names the model.
    """
    try:
        inputs, outputs = model.inputs, model.outputs
    except AttributeError:  # a subclassed model
        inputs = outputs = None
    if not inputs or not outputs:
        raise DataError(
            f"{location}: no random data, because this {type(model).__name__} does not show its"
            " shapes: begin it with keras.Input, or name a function that loads data (data:"
            " module:load)"
        )
    draw = np.random.default_rng(0)
    count = (_BATCHES + 1) * batch_size
    drawn_inputs = [_draw_input(model, tensor, count, draw) for tensor in inputs]
    losses = _losses(model, len(outputs), location)
    drawn_targets = [
        _draw_target(tensor, loss, count, draw)
        for tensor, loss in zip(outputs, losses, strict=True)
    ]
    samples = Samples(_tree(drawn_inputs), _tree(drawn_targets))
    train = samples.first(_BATCHES * batch_size)
    validation = samples.take(np.arange(_BATCHES * batch_size, count))
    return DataSet("random data", "", "NumPy, for the shapes of the model", train, validation)


def no_random_data_for_module(location: str) -> DataError:
    """Return the refusal of random data for the PyTorch module that is built at a location."""
    return DataError(
        f"{location}: no random data, because a PyTorch module does not show its shapes: name a"
        " function that loads data (data: module:load)"
    )


def _tree(arrays: list[Any]) -> ArrayTree:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _draw_input(model: Any, tensor: Any, count: int, draw: np.random.Generator) -> Any:
    shape = (count, *(size or _STEPS for size in tensor.shape[1:]))
    numbers = [
        layer.input_dim
        for layer in model._flatten_layers()
        if hasattr(layer, "embeddings") and hasattr(layer, "input_dim")
    ]
    is_index = "int" in str(tensor.dtype) or (numbers and len(shape) == 2)
    if is_index:
        return draw.integers(0, min(numbers, default=2), shape).astype(np.int32)
    return draw.uniform(-1, 1, shape).astype(np.float32)


def _draw_target(tensor: Any, loss: str, count: int, draw: np.random.Generator) -> Any:
    shape = (count, *(size or _STEPS for size in tensor.shape[1:]))
    if loss in _INDEX_LOSSES:
        return draw.integers(0, shape[-1], shape[:-1]).astype(np.int32)
    if loss in _BINARY_LOSSES:
        return draw.integers(0, 2, shape).astype(np.float32)
    return draw.uniform(-1, 1, shape).astype(np.float32)


def _losses(model: Any, outputs: int, location: str) -> list[str]:
    """Return the name of the loss of each output."""
    if not model.compiled:  # only predictions are timed
        return [""] * outputs
    loss = model.loss
    if isinstance(loss, dict):
        names = getattr(model, "output_names", list(loss))
        losses = [loss.get(name) for name in names]
    else:
        losses = list(loss) if isinstance(loss, list | tuple) else [loss] * outputs
    if len(losses) != outputs:
        raise DataError(
            f"{location}: no random data, because {outputs} outputs have {len(losses)} losses: name"
            " a function that loads data (data: module:load)"
        )
    return [
        each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
        for each in losses
    ]
