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

from workloads.failures import DataError

Order = NDArray[np.intp]
Tokens: TypeAlias = NDArray[np.int32]
LoadedType = TypeVar("LoadedType")


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays whose first axis counts samples, perhaps memory-mapped; one target (row) per input."""

    inputs: NDArray[Any]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, order: Order) -> Samples:
        """Return the samples at these indices, in this order."""
        return Samples(self.inputs[order], self.targets[order])

    def first(self, count: int | None) -> Samples:
        """Return the first `count` samples; all for None, or if there are fewer."""
        return self if count is None else Samples(self.inputs[:count], self.targets[:count])

    @property
    def nbytes(self) -> int:
        """Size of both arrays in bytes."""
        return self.inputs.nbytes + self.targets.nbytes


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
