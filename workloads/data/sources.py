"""Where each data set comes from, and the digest of that source, without loading it.

Standard library only: the orchestrator asks for digests before any trial runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Literal, TypeAlias

from workloads.failures import DataError

ImageSet: TypeAlias = Literal["digits", "mnist"]

MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
"""What `keras.datasets.mnist.load_data` itself checks its download against."""


def image_digest(name: ImageSet, data_path: str | None = None) -> str:
    """SHA-256 (hexadecimal) of the file that holds the images.

    For `mnist` without a path this is the digest of the file that Keras' loader accepts, so that
    nothing needs to be downloaded to plan a sweep.

    Raises:
        DataError: the file is missing or unreadable.
    """
    if data_path is None:
        return MNIST_SHA256 if name == "mnist" else file_digest(digits_file())
    return file_digest(Path(data_path))


def digits_file() -> Path:
    """The images that scikit-learn bundles, found without importing scikit-learn."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError(
            "dataset digits: expected scikit-learn, which bundles it; it is not installed here:"
            " pip install scikit-learn"
        )
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def file_digest(path: Path) -> str:
    """SHA-256 of a file, or `DataError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"data file {str(path)!r}: expected a readable file on this machine;"
            f" {error.strerror or error}: put it there, or correct settings.data_path"
        ) from error
