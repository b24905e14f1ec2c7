"""Sources of the data sets and their digests, without their data: standard library only."""

import hashlib
import importlib.util
import itertools
import json
import os
import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from workloads.failures import DataError

CorpusName: TypeAlias = Literal["python-docs", "shakespeare", "file", "zipf"]
TokenKind: TypeAlias = Literal["character", "word"]

SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
"""The public address of char-rnn's corpus, a common benchmark: 1,115,394 characters."""

DOWNLOADS: Mapping[str, str] = {
    "mnist": "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    "imdb": "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
    "shakespeare": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
}
"""The SHA-256 that Keras checks a download against, by data set."""

ZIPF: Mapping[str, float] = {
    "version": 1,
    "seed": 20_180_116,
    "exponent": 1.0,
    "restart": 0.25,
    "turn": 0.381966,
}
"""The parameters of the synthetic corpus; see `workloads.data.corpora.zipf_corpus`."""

_KERAS_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"

ADDRESSES: Mapping[str, str] = {
    "mnist": f"{_KERAS_URL}/mnist.npz",
    "imdb": f"{_KERAS_URL}/imdb.npz",
    "shakespeare": SHAKESPEARE_URL,
}
"""The address from which Keras downloads a data set."""

_BUNDLED: Mapping[str, str] = {
    "mnist": "digits",
    "imdb": "python-docs",
    "shakespeare": "python-docs",
}
"""What can replace a data set, and needs no download."""

_ANSWER_S = 10.0

_BLANK_LINES = re.compile(r"\n\s*\n")


def data_digest(dataset: str, data_path: str | None = None) -> str:
    """Return the SHA-256 (hexadecimal) of the file or text of a data set.

    A download has the digest that Keras checks: planning needs no download. The digest of
    `python-docs` depends on the version of Python, the digest of `zipf` on its parameters. Raise
    `DataError` if a file is missing, unreadable, or not the text of that name.
    """
    if data_path is not None:
        digest = _file_digest(Path(data_path))
        if dataset == "shakespeare" and digest != DOWNLOADS[dataset]:
            raise DataError(
                f"data file {data_path!r}: not the text of {SHAKESPEARE_URL} (SHA-256 {digest}"
                f" instead of {DOWNLOADS[dataset]}). For a text of your own, set dataset to 'file'"
            )
        return digest
    if dataset == "digits":
        return _file_digest(digits_file())
    if dataset == "python-docs":
        return hashlib.sha256(python_docs_text().encode()).hexdigest()
    if dataset == "zipf":
        return hashlib.sha256(json.dumps(dict(ZIPF), sort_keys=True).encode()).hexdigest()
    return DOWNLOADS[dataset]


def expect_available(dataset: str, data_path: str | None = None) -> None:
    """Raise `DataError` if a data set is neither on this machine nor to be downloaded now."""
    if data_path is not None or dataset not in ADDRESSES:
        data_digest(dataset, data_path)
        return
    if any(path.is_file() for path in _paths(dataset)):
        return
    address = ADDRESSES[dataset]
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address, method="HEAD"), timeout=_ANSWER_S
        ):
            return
    except (OSError, ValueError) as error:
        raise DataError(
            f"dataset {dataset}: {_paths(dataset)[0]} does not exist, and {address} does not answer"
            f" ({error}). Put the file there, set settings.data_path to another copy, or use data"
            f" without a download: settings.dataset={_BUNDLED[dataset]}"
        ) from error


def _paths(dataset: str) -> list[Path]:
    """Return where a download is kept; Keras uses the second path if it cannot write to ~."""
    if dataset == "shakespeare":
        from workloads.data.cache import cache_folder  # noqa: PLC0415 - imports NumPy

        return [cache_folder() / "shakespeare.txt"]
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    return [folder / "datasets" / f"{dataset}.npz" for folder in (home, Path("/tmp/.keras"))]


def digits_file() -> Path:
    """Return the path of the images that scikit-learn bundles, without importing it."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError(
            "dataset digits: it is part of scikit-learn, which is not installed here: pip install"
            " scikit-learn"
        )
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def python_docs() -> dict[str, list[str]]:
    """Return the paragraphs of `pydoc_data.topics` by topic, topics in alphabetical order."""
    # Each appears where it occurs first: validation text is never trained on.
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 - some distributions leave it out
    except ImportError as error:
        raise DataError(
            "dataset python-docs: this Python lacks pydoc_data.topics of the standard library"
            f" ({error}): install your distribution's complete Python, or choose another dataset"
        ) from error
    known_paragraphs: set[str] = set()
    prose: dict[str, list[str]] = {}
    for topic in sorted(topics):
        new_paragraphs = prose.setdefault(topic, [])
        for paragraph in _BLANK_LINES.split(topics[topic].strip("\n")):
            words = " ".join(paragraph.split())
            if words and words not in known_paragraphs:
                known_paragraphs.add(words)
                new_paragraphs.append(paragraph)
    return prose


def python_docs_text() -> str:
    """Return all paragraphs as one text, separated by blank lines."""
    return "\n\n".join(itertools.chain.from_iterable(python_docs().values()))


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"data file {str(path)!r}: {error.strerror or error} on this machine: put it there, or"
            " correct settings.data_path"
        ) from error
