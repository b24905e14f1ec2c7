"""Sources of the data sets, and the digests of the sources, without loading the data.

Standard library only: the orchestrator reads digests before any trial runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from workloads.data.prose import python_docs_text
from workloads.failures import DataError

ImageSet: TypeAlias = Literal["digits", "mnist"]
TextSource: TypeAlias = Literal["python-docs", "shakespeare", "file"]
CorpusName: TypeAlias = TextSource | Literal["zipf"]
ReviewSet: TypeAlias = Literal["imdb", "python-docs"]

MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
"""The digest that `keras.datasets.mnist.load_data` checks its download against."""

IMDB_SHA256 = "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"
"""The digest that `keras.datasets.imdb.load_data` checks its download against."""

SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
"""The public address of char-rnn's corpus, a common benchmark: 1,115,394 characters."""

SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

ZIPF: Mapping[str, float] = MappingProxyType(
    {"version": 1, "seed": 20_180_116, "exponent": 1.0, "restart": 0.25, "turn": 0.381966}
)
"""The parameters of the synthetic corpus; see `workloads.data.zipf`."""


def image_digest(name: ImageSet, data_path: str | None = None) -> str:
    """Return the SHA-256 (hexadecimal) of the file of the images.

    For `mnist` without a path this is the digest of the file that Keras' loader accepts, so that
    planning a sweep needs no download.

    Raises:
        DataError: the file is missing or unreadable.
    """
    if data_path is None:
        return MNIST_SHA256 if name == "mnist" else file_digest(digits_file())
    return file_digest(Path(data_path))


def text_digest(name: CorpusName, data_path: str | None = None) -> str:
    """Return the SHA-256 (hexadecimal) of a corpus' text, or of the synthetic one's parameters.

    The digest of `python-docs` depends on the version of Python. That of `shakespeare` is a
    constant; a copy of it at `data_path` must be the same file.

    Raises:
        DataError: the text is missing, unreadable, or not the text of that name.
    """
    if name == "zipf":
        return _sha256(json.dumps(dict(ZIPF), sort_keys=True))
    if name == "python-docs":
        return _sha256(python_docs_text())
    if data_path is None:
        if name == "shakespeare":
            return SHAKESPEARE_SHA256
        raise DataError(
            "dataset file: expected the path of a text in settings.data_path; received none: set"
            " it, or choose another dataset"
        )
    digest = file_digest(Path(data_path))
    if name == "shakespeare" and digest != SHAKESPEARE_SHA256:
        raise DataError(
            f"data file {data_path!r}: expected the text of {SHAKESPEARE_URL}, SHA-256"
            f" {SHAKESPEARE_SHA256}; received {digest}: for a text of your own set dataset to"
            " 'file'"
        )
    return digest


def review_digest(name: ReviewSet, data_path: str | None = None) -> str:
    """Return the SHA-256 (hexadecimal) of the file of the reviews, or of Python's documentation.

    For `imdb` without a path this is the digest of the file that Keras' loader accepts.

    Raises:
        DataError: the file is missing or unreadable.
    """
    if name == "python-docs":
        return text_digest("python-docs")
    return IMDB_SHA256 if data_path is None else file_digest(Path(data_path))


def digits_file() -> Path:
    """Return the path of the images that scikit-learn bundles, without importing scikit-learn.

    Raises:
        DataError: scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError(
            "dataset digits: expected scikit-learn, which bundles it; it is not installed here:"
            " pip install scikit-learn"
        )
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def file_digest(path: Path) -> str:
    """Return the SHA-256 (hexadecimal) of a file.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"data file {str(path)!r}: expected a readable file on this machine;"
            f" {error.strerror or error}: put it there, or correct settings.data_path"
        ) from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
