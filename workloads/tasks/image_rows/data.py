"""The images of `image_rows`: scikit-learn's digits, MNIST, or a file."""

import gzip

import numpy as np
from numpy.typing import NDArray

from workloads.data.labelled import (
    LabelledData,
    Parts,
    count_classes,
    read_labelled,
    stratified_split,
)
from workloads.data.samples import Samples, load_by_keras
from workloads.data.sources import data_digest, digits_file
from workloads.failures import DataError
from workloads.tasks.image_rows.settings import ImageRowsSettings


def load_image_rows(settings: ImageRowsSettings) -> LabelledData:
    """Load, scale and split the images of these settings.

    Inputs have the shape (samples, rows, columns), targets (samples,). Raise `DataError` if the
    data is missing, cannot be downloaded, or lacks an expected array.
    """
    path = settings.data_path
    digest = data_digest(settings.dataset, path)
    if settings.dataset == "digits":
        source, parts = "scikit-learn digits.csv.gz", _digits()
    elif path is not None:
        source, parts = path, _images_of_file(path)
    else:
        source, parts = "keras.datasets.mnist", _mnist()
    train, validation = parts
    return LabelledData(
        settings.dataset,
        digest,
        source,
        train.first(settings.samples),
        validation.first(settings.validation_samples),
        count_classes(parts),
    )


def scale_columns(images: NDArray[np.generic]) -> NDArray[np.float32]:
    """Min-max scale each column of each image over the rows of that image.

    Shape (samples, rows, columns), as before. For image n and column c: `(v[n, :, c] - min) / (max
    - min)`; a column without contrast becomes 0. No image depends on another, so that training and
    validation data cannot leak into each other.
    """
    values = images.astype(np.float32)
    low = values.min(axis=1, keepdims=True)
    span = values.max(axis=1, keepdims=True) - low
    return np.divide(values - low, span, out=np.zeros_like(values), where=span > 0)


def _digits() -> Parts:
    """Read scikit-learn's file by NumPy: its import takes seconds, and starts OpenMP threads."""
    with gzip.open(digits_file(), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    labels = table[:, -1].astype(np.int32)
    samples = Samples(scale_columns(table[:, :-1].reshape(-1, 8, 8)), labels)
    train, validation = stratified_split(labels)
    return samples.take(train), samples.take(validation)


def _images_of_file(path: str) -> Parts:
    train, validation = read_labelled(path, dimensions=3)
    for part, samples in (("train", train), ("test", validation)):
        if not np.isfinite(samples.inputs).all():
            raise DataError(f"{path}: x_{part} has NaN or infinite pixels")
    return _scaled(train), _scaled(validation)


def _mnist() -> Parts:
    train, test = load_by_keras(
        "mnist",
        lambda keras: keras.datasets.mnist.load_data(),
        "set settings.data_path to an .npz with x_train, y_train, x_test, y_test",
    )
    return _scaled(Samples(*train)), _scaled(Samples(*test))


def _scaled(samples: Samples) -> Samples:
    return Samples(scale_columns(samples.inputs), samples.targets.astype(np.int32))
