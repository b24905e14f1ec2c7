"""Texts as tokens: Python's documentation, Shakespeare, any UTF-8 file, or a synthetic corpus."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from workloads.data.cache import Arrays, cache_folder, load_or_make
from workloads.data.samples import DataSet, Samples, load_by_keras
from workloads.data.sequences import cut_streams, cut_windows, tokens_needed
from workloads.data.sources import DOWNLOADS, SHAKESPEARE_URL, data_digest, python_docs_text
from workloads.data.tokens import (
    ENCODING_VERSION,
    EncodedText,
    TokenKind,
    Tokens,
    encode,
    zipf_corpus,
)
from workloads.failures import DataError
from workloads.settings import CharRnnSettings, CorpusName, NextTokenSettings, TextSettings

Cut: TypeAlias = Callable[[Tokens], tuple[Samples, Samples]]


def load_next_token(settings: NextTokenSettings) -> DataSet:
    """Load the number of windows in the settings, with the token after each window as target."""
    sizes = settings.samples, settings.sequence_length, settings.validation_samples
    cut = partial(_windows, settings, each_step=False)
    return load_text(settings, cut, settings.tokens, tokens_needed(*sizes))


def load_char_rnn(settings: CharRnnSettings) -> DataSet:
    """Load streams of text that continue from batch to batch, or windows of the text."""
    length, samples = settings.sequence_length, settings.samples or 1_000
    min_tokens = tokens_needed(samples, length, settings.validation_samples or samples // 9)

    def streams(tokens: Tokens) -> tuple[Samples, Samples]:
        batch_size = settings.batch_size
        train, held_out = cut_streams(tokens, batch_size=batch_size, sequence_length=length)
        return train.first(settings.samples), held_out.first(settings.validation_samples)

    cut = streams if settings.stateful else partial(_windows, settings, each_step=True)
    corpus_tokens = length * max(min_tokens, 10 * settings.batch_size + 10)
    return load_text(settings, cut, "character", corpus_tokens)


def load_text(settings: TextSettings, cut: Cut, kind: TokenKind, length: int) -> DataSet:
    """Load the samples of a corpus; the tokens of a text are kept in the cache.

    Args:
        settings: its name, its file, and the maximum number of different tokens.
        cut: cuts tokens into training and validation samples.
        kind: characters or words; `zipf` always has words.
        length: number of tokens of `zipf`, which has no end; a text has its own length.

    Raises:
        DataError: as `read_text`, or the text is too short.
    """
    name, path = settings.dataset, settings.data_path
    if name == "zipf":
        digest, source = data_digest(name), "synthetic"
        encoded = zipf_corpus(length, settings.vocabulary)
    else:
        content, source = read_text(name, path), text_source(name, path)
        digest = hashlib.sha256(content).hexdigest()
        encoded = _encoded(content, source, digest, kind, settings.vocabulary)
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


def _windows(
    settings: NextTokenSettings | CharRnnSettings, tokens: Tokens, *, each_step: bool
) -> tuple[Samples, Samples]:
    return cut_windows(
        tokens,
        sequence_length=settings.sequence_length,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
        each_step=each_step,
    )


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
