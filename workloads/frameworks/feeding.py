"""How samples reach `fit`: as the arrays that a user would pass, or batch by batch."""

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

    `inputs` are arrays beside `targets`, or a data set of batches that holds both.
    """

    inputs: Any
    targets: Any = None
    batch_size: int | None = None

    def with_targets(self) -> dict[str, Any]:
        """For `fit` and `evaluate`."""
        return {"x": self.inputs, "y": self.targets, "batch_size": self.batch_size}

    def without_targets(self) -> dict[str, Any]:
        """For `predict`."""
        return {"x": self.inputs, "batch_size": self.batch_size}

    def for_validation(self) -> dict[str, Any]:
        """For `fit`, beside the data that it trains on."""
        return {
            "validation_data": (self.inputs, self.targets),
            "validation_batch_size": self.batch_size,
        }


def feed_arrays(samples: Samples, batch_size: int) -> Feed:
    """The arrays themselves: what a user would pass."""
    return Feed(samples.inputs, samples.targets, batch_size)


def count_batches(samples: Samples, batch_size: int) -> int:
    """Batches of some samples, the partial last one included."""
    return -(-len(samples) // batch_size)


def read_batch(samples: Samples, batch_size: int, index: int) -> Batch:
    """One batch, read into memory."""
    part = slice(index * batch_size, (index + 1) * batch_size)
    return np.ascontiguousarray(samples.inputs[part]), np.ascontiguousarray(samples.targets[part])


def iterate_batches(samples: Samples, batch_size: int) -> Iterator[Batch]:
    """The batches in order, each read into memory when its turn comes."""
    for index in range(count_batches(samples, batch_size)):
        yield read_batch(samples, batch_size, index)


def reorder(samples: Samples, order: Order) -> Samples:
    """The samples in another order: copied where they are in memory, else gathered when read."""
    if is_in_memory(samples):
        return samples.take(order)
    inputs, targets = ReorderedArray(samples.inputs, order), ReorderedArray(samples.targets, order)
    return Samples(cast(Array, inputs), cast(Array, targets))


class ReorderedArray:
    """Rows of an array in some order. Stands in for the array: a slice of it is read into memory.

    For arrays that are mapped from a file, or are views that would be larger than what they view.
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
    """Whether both are arrays in memory, or views that may be copied there."""
    return all(_is_in_memory(array) for array in (samples.inputs, samples.targets))


def _is_in_memory(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or _is_mapped(array):
        return False
    return array.flags.c_contiguous or array.nbytes <= _VIEW_BYTES


def _is_mapped(array: Any) -> bool:
    """Whether a memory map lies under an array, however many views are between them."""
    while array is not None:
        if isinstance(array, np.memmap | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False
