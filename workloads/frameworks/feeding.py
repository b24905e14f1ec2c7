"""Data for `fit`: the arrays that a user would pass, or batches."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workloads.data.samples import Order, Samples

Array: TypeAlias = NDArray[Any]
Batch: TypeAlias = tuple[Array, Array]

_VIEW_BYTES = 256 * 2**20
"""A view (such as overlapping windows) that has more is never copied as a whole."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The data arguments of `fit`, `evaluate` and `predict`.

    `inputs` is an array with its `targets`, or a data set of batches that contains both.
    """

    inputs: Any
    targets: Any = None
    batch_size: int | None = None

    def with_targets(self) -> dict[str, Any]:
        """Return the arguments for `fit` and `evaluate`."""
        return {"x": self.inputs, "y": self.targets, "batch_size": self.batch_size}

    def without_targets(self) -> dict[str, Any]:
        """Return the arguments for `predict`."""
        return {"x": self.inputs, "batch_size": self.batch_size}

    def for_validation(self) -> dict[str, Any]:
        """Return the validation arguments for `fit`."""
        return {
            "validation_data": (self.inputs, self.targets),
            "validation_batch_size": self.batch_size,
        }


def feed_arrays(samples: Samples, batch_size: int) -> Feed:
    """Return the arrays themselves, as a user would pass them."""
    return Feed(samples.inputs, samples.targets, batch_size)


def count_batches(samples: Samples, batch_size: int) -> int:
    """Return the number of batches, the partial last one included."""
    return -(-len(samples) // batch_size)


def read_batch(samples: Samples, batch_size: int, index: int) -> Batch:
    """Read one batch into memory: inputs and targets."""
    part = slice(index * batch_size, (index + 1) * batch_size)
    return np.ascontiguousarray(samples.inputs[part]), np.ascontiguousarray(samples.targets[part])


def iterate_batches(samples: Samples, batch_size: int) -> Iterator[Batch]:
    """Yield the batches in order; every batch is read into memory when it is needed."""
    for index in range(count_batches(samples, batch_size)):
        yield read_batch(samples, batch_size, index)


def reorder(samples: Samples, order: Order) -> Samples:
    """Return the samples in another order: copied if in memory, else reordered on reading."""
    if is_in_memory(samples):
        return samples.take(order)
    inputs, targets = ReorderedArray(samples.inputs, order), ReorderedArray(samples.targets, order)
    return Samples(cast(Array, inputs), cast(Array, targets))


class ReorderedArray:
    """A view of an array with its rows in another order; a slice of it is read into memory.

    For arrays that are mapped from a file, or views that would be larger than the viewed array.
    """

    def __init__(self, array: Array, order: Order) -> None:
        self._array, self._order = array, order
        self.shape = (len(order), *array.shape[1:])
        self.dtype = array.dtype
        self.nbytes = len(order) * array[:1].nbytes

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, rows: slice) -> Array:
        return self._array[self._order[rows]]


def is_in_memory(samples: Samples) -> bool:
    """Return True if both arrays are in memory, or are views small enough to copy."""
    return all(_is_in_memory(array) for array in (samples.inputs, samples.targets))


def _is_in_memory(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or _is_mapped(array):
        return False
    return array.flags.c_contiguous or array.nbytes <= _VIEW_BYTES


def _is_mapped(array: Any) -> bool:
    """Return True if the array is a memory map, or a view of one at any depth."""
    while array is not None:
        if isinstance(array, np.memmap | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False
