"""Samples with a class each, and how they are split."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.samples import DataSet, Order, Samples

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
