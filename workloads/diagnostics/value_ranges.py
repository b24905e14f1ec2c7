"""The values of a whole data set: what a model cannot take, in whichever sample it is.

A wrong token or label in sample 900 would fail every trial, or go unnoticed: JAX computes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workloads.data.array_trees import arrays_of, is_single_array
from workloads.data.samples import DataSet, Samples

_SPARSE = frozenset({"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"})
_BLOCK_BYTES = 2**26


def find_value_out_of_range(model: Any, data: DataSet) -> str | None:
    """Return the first index that an Embedding of the inputs does not have, or class of a loss.

    Layers that are not called on an input of the model are not known. None if all values fit.
    """
    for part, samples in _parts(data):
        found = _indices_out_of_range(model, samples) or _classes_out_of_range(model, samples)
        if found:
            row, text = found
            return f"sample {row} of the {part} data has {text}"
    return None


def find_unusual_padding(model: Any, data: DataSet) -> str | None:
    """Return the first sample whose mask is not a run of steps and padding on its right.

    None if there is none, and where no layer makes a mask of an input of the model.
    """
    for part, samples in _parts(data):
        for layer, array in _layers_on_inputs(model, samples):
            if getattr(layer, "mask_zero", False):
                masked_value: Any = 0
            elif type(layer).__name__ == "Masking":
                masked_value = layer.mask_value
            else:
                continue
            for first, block in _blocks(array):
                is_step = block != masked_value
                if is_step.ndim > 2:
                    is_step = is_step.any(axis=tuple(range(2, is_step.ndim)))
                is_usual = is_step[:, 0] & (is_step[:, :-1] >= is_step[:, 1:]).all(axis=1)
                if not is_usual.all():
                    row = int(np.argmin(is_usual))
                    kind = "has no step" if not is_step[row].any() else "is not padded on the right"
                    return f"sample {first + row} of the {part} data {kind}"
    return None


def extreme_samples(data: DataSet, count: int) -> Samples | None:
    """Return the training samples with the least and the largest whole numbers, and the most zeros.

    There are `count`, in the order of the data; some occur several times. None for data without
    whole numbers.
    """
    rows = list[int]()
    for kind in (data.train.inputs, data.train.targets):
        for array in arrays_of(kind):
            if array.dtype.kind in "iu":
                rows += _extreme_rows(array)
    return data.train.take(np.sort(np.resize([*dict.fromkeys(rows)], count))) if rows else None


def _extreme_rows(array: Any) -> list[int]:
    best: list[tuple[Any, int]] = []
    for first, block in _blocks(array):
        flat = block.reshape(len(block), -1)
        measures = (flat.min(axis=1), -flat.max(axis=1).astype(np.int64), (flat != 0).sum(axis=1))
        found = [(each.min(), first + int(each.argmin())) for each in measures]
        best = [min(pair) for pair in zip(best or found, found, strict=True)]
    return [row for _, row in best]


def _indices_out_of_range(model: Any, samples: Samples) -> tuple[int, str] | None:
    for layer, array in _layers_on_inputs(model, samples):
        if hasattr(layer, "embeddings") and hasattr(layer, "input_dim"):
            found = _first_outside(array, int(layer.input_dim))
            if found:
                row, value = found
                has = f"the layer {layer.name} takes 0 to {layer.input_dim - 1}"
                return row, f"the index {value}, and {has}"
    return None


def _classes_out_of_range(model: Any, samples: Samples) -> tuple[int, str] | None:
    outputs = getattr(model, "outputs", None)
    if not outputs or not getattr(model, "compiled", False) or samples.targets is None:
        return None
    losses = model.loss if isinstance(model.loss, list | tuple) else [model.loss] * len(outputs)
    targets = arrays_of(samples.targets)
    if isinstance(model.loss, dict) or not len(losses) == len(targets) == len(outputs):
        return None
    for output, loss, array in zip(outputs, losses, targets, strict=True):
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        classes = output.shape[-1]
        if name in _SPARSE and classes:
            found = _first_outside(array, classes, getattr(loss, "ignore_class", None))
            if found:
                row, value = found
                return row, f"the class {value}, and the model has classes 0 to {classes - 1}"
    return None


def _layers_on_inputs(model: Any, samples: Samples) -> Iterator[tuple[Any, Any]]:
    """Yield the layers that are called on an input of the model, with the array of the input."""
    inputs: Sequence[Any] = getattr(model, "inputs", None) or ()
    tree = samples.inputs
    if is_single_array(tree):
        arrays = [tree]
    elif isinstance(tree, dict):
        arrays = [tree.get(tensor.name) for tensor in inputs]
    else:
        arrays = arrays_of(tree)
    if len(arrays) != len(inputs):
        return
    by_input = {id(tensor): array for tensor, array in zip(inputs, arrays, strict=True)}
    for layer in model._flatten_layers(include_self=False):
        for node in getattr(layer, "_inbound_nodes", ()):
            for tensor in node.input_tensors:
                array = by_input.get(id(tensor))
                if array is not None:
                    yield layer, array


def _first_outside(array: Any, count: int, ignored: int | None = None) -> tuple[int, Any] | None:
    """Return the first row with a value that is not from 0 to `count` - 1, and the value."""
    for first, block in _blocks(array):
        flat = block.reshape(len(block), -1)
        is_outside = (flat < 0) | (flat >= count)
        if ignored is not None:
            is_outside &= flat != ignored
        rows = is_outside.any(axis=1)
        if rows.any():
            row = int(np.argmax(rows))
            return first + row, flat[row][is_outside[row]][0]
    return None


def _parts(data: DataSet) -> tuple[tuple[str, Samples], ...]:
    return ("training", data.train), ("validation", data.validation)


def _blocks(array: Any) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the values of blocks: an array may be larger than the memory."""
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
    for first in range(0, len(array), rows):
        yield first, np.asarray(array[first : first + rows])
