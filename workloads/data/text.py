"""Texts as tokens: Python's documentation, Shakespeare, any UTF-8 file, or a synthetic corpus."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from workloads.data.cache import Arrays, cache_folder, load_or_make
from workloads.data.samples import DataSet, Samples, load_by_keras
from workloads.data.sources import (
    DOWNLOADS,
    SHAKESPEARE_URL,
    CorpusName,
    data_digest,
    python_docs_text,
)
from workloads.data.tokens import (
    ENCODING_VERSION,
    EncodedText,
    TokenKind,
    Tokens,
    encode,
    zipf_corpus,
)
from workloads.failures import DataError

Cut: TypeAlias = Callable[[Tokens], tuple[Samples, Samples]]


def load_text(
    name: CorpusName,
    data_path: str | None,
    cut: Cut,
    *,
    kind: TokenKind,
    vocabulary: int,
    length: int,
) -> DataSet:
    """Load the samples of a corpus; the tokens of a text are kept in the cache.

    Args:
        name: name of the corpus.
        data_path: the file of `file`, or a copy of `shakespeare`.
        cut: cuts tokens into training and validation samples.
        kind: characters or words; `zipf` always has words.
        vocabulary: maximum number of different tokens, including the unknown one.
        length: number of tokens of `zipf`, which has no end; a text has its own length.

    Raises:
        DataError: as `read_text`, or the text is too short.
    """
    if name == "zipf":
        digest, source = data_digest(name), "synthetic"
        encoded = zipf_corpus(length, vocabulary)
    else:
        content, source = read_text(name, data_path), text_source(name, data_path)
        digest = hashlib.sha256(content).hexdigest()
        encoded = _encoded(content, source, digest, kind, vocabulary)
    train, validation = cut(encoded.tokens)
    return DataSet(name, digest, source, train, validation, len(encoded.vocabulary), encoded)


def read_text(name: CorpusName, data_path: str | None = None) -> bytes:
    """Read a text; `shakespeare` without a path is downloaded once, and cached.

    Raises:
        DataError: the text is missing, cannot be downloaded, or is not the text of that name.
    """
    if data_path is not None:
        data_digest(name, data_path)  # refuses an unreadable file, or one that is not of that name
        return Path(data_path).read_bytes()
    if name == "python-docs":
        return python_docs_text().encode()
    folder = cache_folder()
    with contextlib.suppress(OSError):  # Keras uses another folder if it cannot write here
        folder.mkdir(parents=True, exist_ok=True)
    path = load_by_keras(
        "shakespeare",
        lambda keras: keras.utils.get_file(
            "shakespeare.txt",
            SHAKESPEARE_URL,
            file_hash=DOWNLOADS["shakespeare"],
            cache_dir=str(folder.parent),
            cache_subdir=folder.name,
        ),
        f"set settings.data_path to a copy of {SHAKESPEARE_URL}",
    )
    return Path(path).read_bytes()


def text_source(name: CorpusName, data_path: str | None = None) -> str:
    """Return the origin of a text, for people to read."""
    if data_path is not None:
        return data_path
    if name == "shakespeare":
        return SHAKESPEARE_URL
    return f"pydoc_data.topics of Python {platform.python_version()}"


def _encoded(
    content: bytes, source: str, digest: str, kind: TokenKind, vocabulary: int
) -> EncodedText:
    def make() -> Arrays:
        encoded = encode(_decode(content, source), kind, vocabulary)
        vocabulary_json = json.dumps(encoded.vocabulary).encode()
        return {"tokens": encoded.tokens, "vocabulary": np.frombuffer(vocabulary_json, np.uint8)}

    key = {"text": digest, "kind": kind, "vocabulary": vocabulary, "version": ENCODING_VERSION}
    arrays = load_or_make("tokens", key, ("tokens", "vocabulary"), make)
    return EncodedText(arrays["tokens"], tuple(json.loads(arrays["vocabulary"].tobytes())), kind)


def _decode(content: bytes, source: str) -> str:
    if not content:
        raise DataError(f"data file {source!r}: expected a text; received an empty file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"data file {source!r}: expected UTF-8; received byte 0x{content[error.start]:02x} at"
            f" offset {error.start:,} ({error.reason}): convert it, such as with"
            " iconv -f ISO-8859-1 -t UTF-8"
        ) from error
