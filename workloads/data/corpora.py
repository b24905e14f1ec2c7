"""Corpora by name, as tokens and as samples."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from workloads.data.cache import Arrays, Key, load_or_make
from workloads.data.samples import Samples
from workloads.data.sources import CorpusName, TextSource, text_digest
from workloads.data.text import load_text, text_source
from workloads.data.tokens import ENCODING_VERSION, EncodedText, TokenKind, encode
from workloads.data.zipf import zipf_corpus
from workloads.failures import DataError


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus as tokens, ready to be cut into samples; `digest` is the digest of its source."""

    name: CorpusName
    digest: str
    source: str
    encoded: EncodedText


def load_corpus(
    name: CorpusName,
    data_path: str | None = None,
    *,
    kind: TokenKind,
    vocabulary: int,
    length: int,
) -> Corpus:
    """Load the tokens of a corpus; the tokens of a text are kept in the cache.

    Args:
        name: name of the corpus.
        data_path: the file of `file`, or a copy of `shakespeare`.
        kind: characters or words; `zipf` always has words.
        vocabulary: maximum number of different tokens, including the unknown one.
        length: number of tokens of `zipf`, which has no end; a text has its own length.

    Raises:
        DataError: as `load_text`; or the text changed while it was read.
    """
    digest = text_digest(name, data_path)
    if name == "zipf":
        return Corpus(name, digest, "synthetic", zipf_corpus(length, vocabulary))
    encoded = _encoded_text(name, data_path, digest, kind, vocabulary)
    return Corpus(name, digest, text_source(name, data_path), encoded)


def _encoded_text(
    name: TextSource, data_path: str | None, digest: str, kind: TokenKind, vocabulary: int
) -> EncodedText:
    def make() -> Arrays:
        text = load_text(name, data_path)
        if text.digest != digest:
            raise DataError(
                f"{text.source}: expected the text with SHA-256 {digest}, as a moment ago;"
                f" received {text.digest}: do not change the file during a sweep"
            )
        encoded = encode(text.text, kind, vocabulary)
        vocabulary_json = json.dumps(encoded.vocabulary).encode()
        return {"tokens": encoded.tokens, "vocabulary": np.frombuffer(vocabulary_json, np.uint8)}

    key = Key(text=digest, kind=kind, vocabulary=vocabulary, version=ENCODING_VERSION)
    arrays = load_or_make("tokens", key, ("tokens", "vocabulary"), make)
    texts = tuple(json.loads(arrays["vocabulary"].tobytes()))
    return EncodedText(arrays["tokens"], texts, kind)


@dataclass(frozen=True, slots=True)
class LanguageData:
    """Samples of a corpus, with its encoding."""

    name: str
    digest: str
    source: str
    train: Samples
    validation: Samples
    encoded: EncodedText

    @property
    def vocabulary(self) -> int:
        """Number of different tokens; a text may have fewer than requested."""
        return len(self.encoded.vocabulary)


def make_language_data(corpus: Corpus, parts: tuple[Samples, Samples]) -> LanguageData:
    """Combine a corpus with the training and validation samples that were cut from it."""
    return LanguageData(corpus.name, corpus.digest, corpus.source, *parts, corpus.encoded)
