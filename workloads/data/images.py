"""Labelled images as arrays, scaled and split identically on every machine."""

from __future__ import annotations

import gzip

import numpy as np
from numpy.typing import NDArray

from workloads.data.samples import (
    DataSet,
    Samples,
    labelled_data,
    load_by_keras,
    read_labelled,
    stratified_split,
)
from workloads.data.sources import data_digest, digits_file
from workloads.failures import DataError
from workloads.settings import ImageRowsSettings


def load_image_rows(settings: ImageRowsSettings) -> DataSet:
    """Load, scale and split the images of these settings.

    Inputs have the shape (samples, rows, columns), targets (samples,).

    Raises:
        DataError: the data is missing, cannot be downloaded, or lacks an expected array.
    """
    path = settings.data_path
    digest = data_digest(settings.dataset, path)
    if settings.dataset == "digits":
        return labelled_data(settings, digest, "scikit-learn digits.csv.gz", _digits())
    if path is not None:
        return labelled_data(settings, digest, path, _images_of_file(path))
    return labelled_data(settings, digest, "keras.datasets.mnist", _mnist())


def scale_columns(images: NDArray[np.generic]) -> NDArray[np.float32]:
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


def _digits() -> tuple[Samples, Samples]:
    """Read scikit-learn's file by NumPy: its import takes seconds, and starts OpenMP threads."""
    with gzip.open(digits_file(), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    labels = table[:, -1].astype(np.int32)
    samples = Samples(scale_columns(table[:, :-1].reshape(-1, 8, 8)), labels)
    train, validation = stratified_split(labels)
    return samples.take(train), samples.take(validation)


def _images_of_file(path: str) -> tuple[Samples, Samples]:
    train, validation = read_labelled(path, dimensions=3)
    for part, samples in (("train", train), ("test", validation)):
        if not np.isfinite(samples.inputs).all():
            raise DataError(f"{path}: expected finite pixels in x_{part}; received NaN or infinity")
    return _scaled(train), _scaled(validation)


def _mnist() -> tuple[Samples, Samples]:
    train, test = load_by_keras(
        "mnist",
        lambda keras: keras.datasets.mnist.load_data(),
        "set settings.data_path to an .npz with x_train, y_train, x_test, y_test",
    )
    return _scaled(Samples(*train)), _scaled(Samples(*test))


def _scaled(samples: Samples) -> Samples:
    return Samples(scale_columns(samples.inputs), samples.targets.astype(np.int32))
