"""Labelled images as arrays, scaled and split identically on every machine."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.data.archive import UNREADABLE, open_archive
from workloads.data.samples import Samples
from workloads.data.sources import ImageSet, digits_file, image_digest
from workloads.failures import DataError

Pixels = NDArray[np.float32]
Labels = NDArray[np.int32]

_SPLIT_SEED = 20_180_115  # the split belongs to the data set: it never depends on a trial's seed
_VALIDATION_SHARE = 0.2
_MNIST_ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, slots=True)
class Images:
    """A data set of images, ready to train on; `digest` is the digest of its source file."""

    name: ImageSet
    digest: str
    source: str
    train: Samples
    validation: Samples
    classes: int


def load_images(
    name: ImageSet,
    data_path: str | None = None,
    *,
    samples: int | None = None,
    validation_samples: int | None = None,
) -> Images:
    """Load, scale and split a data set.

    Inputs have the shape (samples, rows, columns), targets (samples,).

    Raises:
        DataError: the data is missing, cannot be downloaded, or lacks an expected array.
    """
    digest = image_digest(name, data_path)
    if name == "digits":
        source, (train, validation) = "scikit-learn digits.csv.gz", _digits()
    elif data_path is not None:
        source, (train, validation) = str(data_path), _mnist_file(Path(data_path))
    else:
        source, (train, validation) = "keras.datasets.mnist", _mnist_download()
    classes = int(max(train.targets.max(), validation.targets.max())) + 1
    return Images(
        name,
        digest,
        source,
        train.first(samples),
        validation.first(validation_samples),
        classes,
    )


def scale_columns(images: NDArray[np.generic]) -> Pixels:
    """Min-max scale each column of each image over the rows of that image.

    For image n and column c: `(v[n, :, c] - min) / (max - min)`, with min and max over the rows
    of that column of that image. A column without contrast becomes 0. No image depends on another,
    so training and validation data cannot leak into each other.

    Args:
        images: shape (samples, rows, columns).

    Returns:
        Values from 0 to 1, of the same shape.
    """
    values = images.astype(np.float32)
    low = values.min(axis=1, keepdims=True)
    span = values.max(axis=1, keepdims=True) - low
    return np.divide(values - low, span, out=np.zeros_like(values), where=span > 0)


def stratified_split(labels: Labels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
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


def _digits() -> tuple[Samples, Samples]:
    path = digits_file()
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected scikit-learn's digits; {error}") from error
    labels = table[:, -1].astype(np.int32)
    samples = Samples(scale_columns(table[:, :-1].reshape(-1, 8, 8)), labels)
    train, validation = stratified_split(labels)
    return samples.take(train), samples.take(validation)


def _mnist_file(path: Path) -> tuple[Samples, Samples]:
    try:
        with open_archive(path) as file:
            if missing := [name for name in _MNIST_ARRAYS if name not in file]:
                raise DataError(
                    f"{path}: expected arrays {', '.join(_MNIST_ARRAYS)}; missing"
                    f" {', '.join(missing)}; received {', '.join(file)}"
                )
            arrays = {name: file[name] for name in _MNIST_ARRAYS}
    except UNREADABLE as error:
        raise DataError(f"{path}: expected an .npz file of arrays; {error}") from error
    return _split_of(arrays, "train", str(path)), _split_of(arrays, "test", str(path))


def _mnist_download() -> tuple[Samples, Samples]:
    import keras  # noqa: PLC0415 - only this data set needs it, inside a trainer process

    try:
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    except Exception as error:  # Keras raises a bare Exception where a download fails
        raise DataError(
            f"dataset mnist: expected Keras' loader to deliver it; {error}: on a machine without"
            " network, set settings.data_path to an .npz with x_train, y_train, x_test, y_test"
        ) from error
    arrays = dict(zip(_MNIST_ARRAYS, (x_train, y_train, x_test, y_test), strict=True))
    return _split_of(arrays, "train", "mnist"), _split_of(arrays, "test", "mnist")


def _split_of(arrays: Mapping[str, NDArray[np.generic]], part: str, place: str) -> Samples:
    images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    if images.ndim != 3 or labels.shape != images.shape[:1] or not len(labels):
        raise DataError(
            f"{place}: expected x_{part} of shape (samples, rows, columns) and y_{part} of shape"
            f" (samples,); received {images.shape} and {labels.shape}"
        )
    if not np.issubdtype(labels.dtype, np.integer) or int(labels.min()) < 0:
        raise DataError(
            f"{place}: expected y_{part} of integers from 0; received {labels.dtype} from"
            f" {labels.min()}"
        )
    if not np.isfinite(images).all():
        raise DataError(f"{place}: expected finite pixels in x_{part}; received NaN or infinity")
    return Samples(scale_columns(images), labels.astype(np.int32))
