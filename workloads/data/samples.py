"""Samples for supervised training: data sets, and the files that hold their arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
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
        """Return samples with the function's result in the place of each array."""
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


def load_by_keras(dataset: str, load: Callable[[Any], LoadedType], offline: str) -> LoadedType:
    """Return what one of Keras' loaders downloads; raise `DataError` if the download fails."""
    import keras  # noqa: PLC0415 - inside a trainer process, and only for these data sets

    try:
        return load(keras)
    except Exception as error:  # Keras raises a bare Exception where a download fails
        raise DataError(
            f"dataset {dataset}: expected Keras' loader to deliver it; {error}: on a machine"
            f" without network, {offline}"
        ) from error


def read_npz(path: str | Path, content: str = "arrays") -> dict[str, NDArray[Any]]:
    """Read all arrays of an `.npz` file, never pickles; raise `DataError` if it cannot be read."""
    place = f"{path}: expected {content} in an .npz file"
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, NpzFile):
            with archive:
                return {name: archive[name] for name in archive.files}
        raise DataError(f"{place}; received one array of shape {archive.shape}")
    except (
        *(OSError, ValueError, EOFError, TypeError),
        RuntimeError,  # encrypted, or compressed by an unknown method
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        # NumPy takes any unknown file for a pickle, and its message explains how to trust it.
        is_other = "pickled (object) data" in str(error)
        reason = "the file begins like neither .npz nor .npy" if is_other else error
        raise DataError(f"{place}; {reason}") from error
