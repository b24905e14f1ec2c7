"""Data for `fit`: the arrays that a user would pass, or batches."""

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workloads.data.samples import Order, Samples

Array: TypeAlias = NDArray[Any]

_VIEW_BYTES = 256 * 2**20
"""A view (such as overlapping windows) that has more is never copied as a whole."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Data for `fit`, `evaluate` and `predict`: an array and its targets, or batches of both."""

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


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of samples in order, the partial last one included; each is read when needed."""

    samples: Samples
    batch_size: int

    def __len__(self) -> int:
        return math.ceil(len(self.samples) / self.batch_size)

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        """Read one batch into memory: inputs and targets."""
        part = slice(index * self.batch_size, (index + 1) * self.batch_size)
        samples = self.samples
        return np.ascontiguousarray(samples.inputs[part]), np.ascontiguousarray(
            samples.targets[part]
        )

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return (self[index] for index in range(len(self)))


def reorder(samples: Samples, order: Order) -> Samples:
    """Return the samples in another order: copied if in memory, else reordered on reading."""
    if is_in_memory(samples):
        return samples.take(order)
    inputs, targets = ReorderedArray(samples.inputs, order), ReorderedArray(samples.targets, order)
    return Samples(cast(Array, inputs), cast(Array, targets))


class ReorderedArray:
    """A mapped or very large array with its rows in another order; a slice is read into memory."""

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
    return all(
        isinstance(array, np.ndarray)
        and not _is_mapped(array)
        and (array.flags.c_contiguous or array.nbytes <= _VIEW_BYTES)
        for array in (samples.inputs, samples.targets)
    )


def _is_mapped(array: Any) -> bool:
    """Return True if the array is a memory map, or a view of one at any depth."""
    while array is not None:
        if isinstance(array, np.memmap | mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False
