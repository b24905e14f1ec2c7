"""Samples with a class each: how they are split, and the files that have them."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.samples import DataSet, Order, Samples, read_npz
from workloads.failures import DataError

Parts: TypeAlias = tuple[Samples, Samples]
"""Training and validation samples."""

_SPLIT_SEED = 20_180_115  # the split belongs to the data set: it never depends on a trial's seed
_VALIDATION_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class LabelledData(DataSet):
    """Samples with a class each, numbered from 0."""

    classes: int


def count_classes(parts: Parts) -> int:
    """Return the number of classes: one more than the largest label."""
    return int(max(part.targets.max() for part in parts)) + 1


def stratified_split(labels: NDArray[np.int32]) -> tuple[Order, Order]:
    """Return the indices of training and, of a fifth of every class, of validation samples."""
    draw = np.random.default_rng(_SPLIT_SEED)
    train, validation = [], []
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        cut = round(len(members) * _VALIDATION_SHARE)
        validation.append(members[:cut])
        train.append(members[cut:])
    return draw.permutation(np.concatenate(train)), draw.permutation(np.concatenate(validation))


def read_labelled(path: str, dimensions: int) -> Parts:
    """Read x_train, y_train, x_test and y_test from an `.npz` file, and check the dimensions."""
    arrays, parts = read_npz(path), []
    for part in ("train", "test"):
        inputs, labels = arrays.get(f"x_{part}"), arrays.get(f"y_{part}")
        if inputs is None or labels is None:
            raise DataError(
                f"{path}: needs the arrays x_train, y_train, x_test and y_test; it has"
                f" {', '.join(arrays) or 'none'}"
            )
        if inputs.ndim != dimensions or labels.shape != inputs.shape[:1] or not len(labels):
            raise DataError(
                f"{path}: x_{part} needs {dimensions} dimensions and at least one sample, and"
                f" y_{part} a label for each; their shapes are {inputs.shape} and {labels.shape}"
            )
        if not np.issubdtype(labels.dtype, np.integer) or int(labels.min()) < 0:
            raise DataError(
                f"{path}: y_{part} needs integers from 0 on; it has {labels.dtype} from"
                f" {labels.min()}"
            )
        parts.append(Samples(inputs, labels.astype(np.int32)))
    return parts[0], parts[1]
