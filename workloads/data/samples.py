"""Samples for supervised training: data sets, and the files that hold their arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from workloads.data.array_trees import (
    ArrayTree,
    arrays_of,
    is_single_array,
    lists_to_tuples,
    map_arrays,
)
from workloads.failures import DataError

Order = NDArray[np.intp]
Tokens: TypeAlias = NDArray[np.int32]
LoadedType = TypeVar("LoadedType")


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays whose first axis counts samples, perhaps memory-mapped.

    `inputs` and `targets` are one array each, or trees of arrays for a model with several inputs or
    outputs. `targets` is None for a model that computes its loss itself. `weights` are the sample
    weights of the loss: one array, or a tree like `targets`; one array for several targets counts
    for each of them.
    """

    inputs: ArrayTree
    targets: ArrayTree
    weights: ArrayTree = None

    def __post_init__(self) -> None:
        weights = self.weights
        if is_single_array(weights) and self.targets is not None:
            weights = map_arrays(lambda _: self.weights, self.targets)
        trees = {"inputs": self.inputs, "targets": self.targets, "weights": weights}
        for name, tree in trees.items():
            object.__setattr__(self, name, lists_to_tuples(tree))

    def __len__(self) -> int:
        return len(arrays_of(self.inputs)[0])

    def map(self, function: Callable[[Any], Any]) -> Samples:
        """Return samples with the function's result instead of each array."""
        trees = (self.inputs, self.targets, self.weights)
        return Samples(*(map_arrays(function, tree) for tree in trees))

    def take(self, order: Order) -> Samples:
        """Return the samples at these indices, in this order."""
        return self.map(lambda array: array[order])

    def first(self, count: int | None) -> Samples:
        """Return the first `count` samples; all for None, or if there are fewer."""
        return self if count is None else self.map(lambda array: array[:count])

    @property
    def arrays(self) -> list[Any]:
        """All arrays of the inputs, the targets and the weights."""
        return arrays_of((self.inputs, self.targets, self.weights))


@dataclass(frozen=True, slots=True)
class DataSet:
    """Data for training and validation, its origin, and the SHA-256 of its source."""

    name: str
    digest: str
    source: str
    train: Samples
    validation: Samples


def full_batches(samples: Samples, batch_size: int, part: str) -> Samples:
    """Return the samples of full batches; raise `DataError` if there are none."""
    count = len(samples) - len(samples) % batch_size
    if not count:
        raise DataError(
            f"{part}: the model takes full batches of {batch_size} samples only, and there are"
            f" {len(samples)}: use more data, or a smaller batch_size"
        )
    return samples.first(count)


_CHECKED_BYTES = 2**26
"""Values are checked in blocks of this size: an array may be mapped, and larger than the memory."""


def batches_not_finite(data: DataSet, batch_size: int) -> Iterator[tuple[str, Samples]]:
    """Yield a batch of samples with values that are NaN or infinite, of each part that has some.

    Each comes with words for where the first one is. Such samples may be meant, for a layer that
    masks them. A batch has `batch_size` samples in the order of the data; if there are fewer of
    them, some occur twice.
    """
    for part, samples in (("training", data.train), ("validation", data.validation)):
        found = sorted(
            set(chain.from_iterable(_rows_not_finite(a, batch_size) for a in samples.arrays))
        )
        if found:
            yield (
                f"sample {found[0]} of the {part} data",
                samples.take(np.sort(np.resize(found, batch_size))),
            )


def _rows_not_finite(array: Any, most: int) -> list[int]:
    """Return the indices of the first rows of an array with a value that is NaN or infinite."""
    found = list[int]()
    if array.dtype.kind != "f":
        return found
    rows = max(1, _CHECKED_BYTES // max(1, array[:1].nbytes))
    for first in range(0, len(array), rows):
        block = np.asarray(array[first : first + rows])
        is_finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        found += (first + np.flatnonzero(~is_finite)).tolist()
        if len(found) >= most:
            break
    return found[:most]


def load_by_keras(dataset: str, load: Callable[[Any], LoadedType], offline: str) -> LoadedType:
    """Return what one of Keras' loaders downloads; raise `DataError` if the download fails."""
    import keras  # noqa: PLC0415 - inside a trainer process, and only for these data sets

    try:
        return load(keras)
    except Exception as error:  # Keras raises a bare Exception where a download fails
        raise DataError(
            f"dataset {dataset}: Keras could not download it ({error}). Without a network,"
            f" {offline}"
        ) from error


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an `.npz` file, never pickles; raise `DataError` if it cannot be read."""
    problem = f"{path}: not an .npz file of arrays"
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, NpzFile):
            with archive:
                return {name: archive[name] for name in archive.files}
        raise DataError(f"{problem}: it has one array of shape {archive.shape}")
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        RuntimeError,  # encrypted, or compressed by an unknown method
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        # NumPy takes any unknown file for a pickle, and its message explains how to trust it.
        is_other = "pickled (object) data" in str(error)
        reason = "it has another format" if is_other else error
        raise DataError(f"{problem}: {reason}") from error
