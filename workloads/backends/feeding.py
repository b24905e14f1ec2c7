"""Data for `fit`: the arrays that a user would pass, or batches."""

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.data.array_trees import ArrayTree
from workloads.data.samples import Order, Samples

_VIEW_BYTES = 256 * 2**20
"""A view (such as overlapping windows) that has more is never copied as a whole."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Data for `fit`, `evaluate` and `predict`: trees of arrays, or batches of them.

    `targets` and `weights` (sample weights) are None if `inputs` are batches.
    """

    inputs: Any
    targets: Any = None
    weights: Any = None
    batch_size: int | None = None

    def with_targets(self) -> dict[str, Any]:
        """Return the arguments for `fit` and `evaluate`."""
        return {
            "x": self.inputs,
            "y": self.targets,
            "sample_weight": self.weights,
            "batch_size": self.batch_size,
        }

    def without_targets(self) -> dict[str, Any]:
        """Return the arguments for `predict`."""
        return {"x": self.inputs, "batch_size": self.batch_size}

    def for_validation(self) -> dict[str, Any]:
        """Return the validation arguments for `fit`."""
        return {
            "validation_data": (self.inputs, self.targets, self.weights),
            "validation_batch_size": self.batch_size,
        }


def array_feed(samples: Samples, batch_size: int) -> Feed:
    """Return the arrays of samples, which Keras cuts into batches."""
    return Feed(samples.inputs, samples.targets, samples.weights, batch_size)


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of samples in order, the partial last one included; each is read when needed."""

    samples: Samples
    batch_size: int

    def __len__(self) -> int:
        return math.ceil(len(self.samples) / self.batch_size)

    def __getitem__(self, index: int) -> tuple[ArrayTree, ...]:
        """Read one batch into memory: what `packed` returns for its samples."""
        part = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return packed(self.samples.map(lambda array: np.ascontiguousarray(array[part])))

    def __iter__(self) -> Iterator[tuple[ArrayTree, ...]]:
        return (self[index] for index in range(len(self)))


def packed(samples: Samples) -> tuple[ArrayTree, ...]:
    """Return inputs, targets and weights as `fit` takes a batch, without the last that are None."""
    if samples.weights is not None:
        return samples.inputs, samples.targets, samples.weights
    return (samples.inputs,) if samples.targets is None else (samples.inputs, samples.targets)


def reorder(samples: Samples, order: Order) -> Samples:
    """Return the samples in another order: copied if in memory, else reordered on reading."""
    if is_in_memory(samples):
        return samples.take(order)
    return samples.map(lambda array: ReorderedArray(array, order))


def with_float_type(samples: Samples, name: str) -> Samples:
    """Return the samples with all floating-point numbers in the format of this name.

    Keras' `fit` does so for the arrays that a user passes, but not for batches. Arrays that are not
    in memory are converted on reading. NumPy has the format `bfloat16` where Keras is imported.
    """
    dtype, rows = np.dtype(name), np.arange(len(samples))

    def convert(array: Any) -> Any:
        if array.dtype.kind != "f" or array.dtype == dtype:
            return array
        if _is_in_memory(array):
            return array.astype(dtype)
        return ReorderedArray(array, rows, dtype)

    return samples.map(convert)


class ReorderedArray:
    """A mapped or very large array with its rows in another order; a slice is read into memory."""

    def __init__(self, array: Any, order: Order, dtype: np.dtype[Any] | None = None) -> None:
        self._array, self._order = array, order
        self.shape = (len(order), *array.shape[1:])
        self.dtype = dtype or array.dtype

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, rows: slice | Order) -> Any:
        return self._array[self._order[rows]].astype(self.dtype, copy=False)


def is_in_memory(samples: Samples) -> bool:
    """Return True if all arrays are in memory, or are views small enough to copy."""
    return all(_is_in_memory(array) for array in samples.arrays)


def _is_in_memory(array: Any) -> bool:
    return (
        isinstance(array, np.ndarray)
        and not _is_mapped(array)
        and (array.flags.c_contiguous or array.nbytes <= _VIEW_BYTES)
    )


def _is_mapped(array: Any) -> bool:
    """Return True if the array is a memory map, or a view of one at any depth."""
    while array is not None:
        if isinstance(array, np.memmap | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False
