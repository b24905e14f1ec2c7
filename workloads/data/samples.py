"""Samples for supervised training: data sets, and the files that hold their arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from workloads.data.tokens import EncodedText
from workloads.failures import DataError
from workloads.settings import ImageRowsSettings, SentimentSettings

Order = NDArray[np.intp]
LoadedType = TypeVar("LoadedType")

_SPLIT_SEED = 20_180_115  # the split belongs to the data set: it never depends on a trial's seed
_VALIDATION_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays whose first axis counts samples; `targets` has one entry (or row) per input.

    The arrays may be memory-mapped: no method copies more than it returns.
    """

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
    """A data set, ready to train on; `digest` is the SHA-256 of its source.

    `classes` is the number of different targets; for a text that of its tokens, which `encoded`
    decodes.
    """

    name: str
    digest: str
    source: str
    train: Samples
    validation: Samples
    classes: int
    encoded: EncodedText | None = None


def labelled_data(
    settings: ImageRowsSettings | SentimentSettings,
    digest: str,
    source: str,
    parts: tuple[Samples, Samples],
) -> DataSet:
    """Return as much of the training and the validation part as the settings request."""
    train, validation = parts
    classes = int(max(train.targets.max(), validation.targets.max())) + 1
    train, validation = train.first(settings.samples), validation.first(settings.validation_samples)
    return DataSet(settings.dataset, digest, source, train, validation, classes)


def stratified_split(labels: NDArray[np.int32]) -> tuple[Order, Order]:
    """Return the indices of training and validation samples, always the same.

    A fifth of every class is for validation.
    """
    draw = np.random.default_rng(_SPLIT_SEED)
    train, validation = [], []
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        cut = round(len(members) * _VALIDATION_SHARE)
        validation.append(members[:cut])
        train.append(members[cut:])
    return draw.permutation(np.concatenate(train)), draw.permutation(np.concatenate(validation))


def load_by_keras(dataset: str, load: Callable[[Any], LoadedType], offline: str) -> LoadedType:
    """Return what one of Keras' loaders downloads and checks.

    Raises:
        DataError: the download failed.
    """
    import keras  # noqa: PLC0415 - inside a trainer process, and only for these data sets

    try:
        return load(keras)
    except Exception as error:  # Keras raises a bare Exception where a download fails
        raise DataError(
            f"dataset {dataset}: expected Keras' loader to deliver it; {error}: on a machine"
            f" without network, {offline}"
        ) from error


def read_npz(path: str | Path, content: str = "arrays") -> dict[str, NDArray[Any]]:
    """Read all arrays of an `.npz` file; nothing in it is ever unpickled.

    Raises:
        DataError: the file is missing or damaged, or not an `.npz` file of plain arrays.
    """
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


def read_labelled(path: str, dimensions: int) -> tuple[Samples, Samples]:
    """Read the parts of an `.npz` file: x_train of that many dimensions, y_train, x_test, y_test.

    Raises:
        DataError: the file is unreadable, lacks an array, or has one of another shape or type.
    """
    arrays, parts = read_npz(path), []
    for part in ("train", "test"):
        inputs, labels = arrays.get(f"x_{part}"), arrays.get(f"y_{part}")
        if inputs is None or labels is None:
            raise DataError(
                f"{path}: expected arrays x_train, y_train, x_test, y_test; received"
                f" {', '.join(arrays) or 'none'}"
            )
        if inputs.ndim != dimensions or labels.shape != inputs.shape[:1] or not len(labels):
            raise DataError(
                f"{path}: expected x_{part} in {dimensions} dimensions, not empty, and a label in"
                f" y_{part} for each sample; received {inputs.shape} and {labels.shape}"
            )
        if not np.issubdtype(labels.dtype, np.integer) or int(labels.min()) < 0:
            raise DataError(
                f"{path}: expected y_{part} of integers from 0; received {labels.dtype} from"
                f" {labels.min()}"
            )
        parts.append(Samples(inputs, labels.astype(np.int32)))
    return parts[0], parts[1]
