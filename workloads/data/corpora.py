"""Texts as tokens, and samples cut from them, whose last share is for validation.

There are Python's documentation, Shakespeare, any UTF-8 file, and a synthetic corpus.
"""

import contextlib
import hashlib
import json
import math
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from workloads.data.cache import Arrays, cache_folder, load_or_make
from workloads.data.samples import DataSet, Samples, Tokens, load_by_keras
from workloads.data.sources import (
    DOWNLOADS,
    SHAKESPEARE_URL,
    ZIPF,
    CorpusName,
    TokenKind,
    data_digest,
    python_docs_text,
)
from workloads.failures import DataError

Cut: TypeAlias = Callable[[Tokens], tuple[Samples, Samples]]

UNKNOWN_TOKEN = "\ufffd"
"""The text of token 0, which replaces every token outside the vocabulary."""

VALIDATION_SHARE = 0.1
ENCODING_VERSION = 1
"""The version of the encoding; it changes whenever a text would get other tokens."""

_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text as tokens; the text of token i is `vocabulary[i]`, and token 0 is the unknown one."""

    tokens: Tokens
    vocabulary: tuple[str, ...]
    kind: TokenKind

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; words are separated by single spaces."""
        separator = "" if self.kind == "character" else " "
        return separator.join(self.vocabulary[token] for token in tokens)


@dataclass(frozen=True, slots=True)
class TextData(DataSet):
    """Samples of a text, and the whole text that they were cut from."""

    encoded: EncodedText

    @property
    def vocabulary(self) -> int:
        """Number of different tokens, the unknown one included."""
        return len(self.encoded.vocabulary)


@dataclass(frozen=True, slots=True)
class Corpus:
    """A text by its name or file, the kind of its tokens, and how many different ones count."""

    name: CorpusName
    path: str | None
    kind: TokenKind
    vocabulary: int


def load_text(corpus: Corpus, cut: Cut, zipf_words: int) -> TextData:
    """Load the samples of a corpus; the tokens of a text are kept in the cache.

    `zipf` always has words, `zipf_words` of them; a text has its own length. `cut` makes training
    and validation samples of the tokens. Raise `DataError` as `read_corpus`, or for a short text.
    """
    name, path = corpus.name, corpus.path
    if name == "zipf":
        digest, source = data_digest(name), "synthetic"
        encoded = zipf_corpus(zipf_words, corpus.vocabulary)
    else:
        content, source = read_corpus(name, path), text_source(name, path)
        digest = hashlib.sha256(content).hexdigest()
        encoded = _encoded(content, source, digest, corpus)
    train, validation = cut(encoded.tokens)
    return TextData(name, digest, source, train, validation, encoded)


def read_corpus(name: CorpusName, data_path: str | None = None) -> bytes:
    """Read a text, or raise `DataError`; `shakespeare` without a path is downloaded and cached."""
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


def _encoded(content: bytes, source: str, digest: str, corpus: Corpus) -> EncodedText:
    kind, vocabulary = corpus.kind, corpus.vocabulary

    def make() -> Arrays:
        encoded = encode_text(_decode(content, source), kind, vocabulary)
        vocabulary_json = json.dumps(encoded.vocabulary).encode()
        return {"tokens": encoded.tokens, "vocabulary": np.frombuffer(vocabulary_json, np.uint8)}

    key = {"text": digest, "kind": kind, "vocabulary": vocabulary, "version": ENCODING_VERSION}
    arrays = load_or_make("tokens", key, ("tokens", "vocabulary"), make)
    return EncodedText(arrays["tokens"], tuple(json.loads(arrays["vocabulary"].tobytes())), kind)


def _decode(content: bytes, source: str) -> str:
    if not content:
        raise DataError(f"data file {source!r} is empty")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"data file {source!r} is not UTF-8: byte 0x{content[error.start]:02x} at offset"
            f" {error.start:,} ({error.reason}). Convert it, such as with"
            " iconv -f ISO-8859-1 -t UTF-8"
        ) from error


def encode_text(text: str, kind: TokenKind, vocabulary: int) -> EncodedText:
    """Number the tokens of a text, the most frequent first; ties are in code point order.

    Words are runs of letters, digits and underscores with inner apostrophes, in lower case; every
    other character except white space is a word of its own. `vocabulary` is the largest number of
    different tokens, including the unknown one.
    """
    words: Sequence[str] = text if kind == "character" else split_words(text)
    texts = (UNKNOWN_TOKEN, *rank_words(words, vocabulary - 1))
    numbers = {word: number for number, word in enumerate(texts)}
    tokens = np.fromiter((numbers.get(word, 0) for word in words), np.int32, len(words))
    return EncodedText(tokens, texts, kind)


def zipf_corpus(length: int, vocabulary: int) -> EncodedText:
    """Return the first `length` words of an endless synthetic corpus, always the same.

    Its words follow Zipf's law and depend on each other (`docs/workloads.md`).

    Word r is token r, with the text `w<r>`. Token 0, the unknown one, does not occur, but counts in
    `vocabulary`.
    """
    steps = np.arange(length)
    draws = np.random.default_rng(int(ZIPF["seed"])).random((length, 2))
    restarts = draws[:, 0] < ZIPF["restart"]
    restarts[:1] = True
    last = np.maximum.accumulate(np.where(restarts, steps, 0))
    positions = (draws[last, 1] + ZIPF["turn"] * (steps - last)) % 1.0
    draw = np.random.default_rng([int(ZIPF["seed"]), vocabulary - 1])
    owners = draw.permutation(np.arange(1, vocabulary, dtype=np.int32))  # of the circle's arcs
    shares = owners ** -ZIPF["exponent"]
    ends = np.cumsum(shares / shares.sum())
    tokens = owners[np.searchsorted(ends[:-1], positions, side="right")]
    texts = (UNKNOWN_TOKEN, *(f"w{word}" for word in range(1, vocabulary)))
    return EncodedText(tokens, texts, "word")


def split_words(text: str) -> list[str]:
    """Split a text into words, as `encode_text` does."""
    return _WORD.findall(text.lower())


def rank_words(words: Iterable[str], limit: int) -> list[str]:
    """Return up to `limit` different words, the most frequent first; ties in code point order."""
    counts = Counter(words)
    counts.pop(UNKNOWN_TOKEN, None)
    return sorted(counts, key=lambda word: (-counts[word], word))[:limit]


def split_stream(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Return views of the first part of a stream, for training, and the last, for validation."""
    end = len(tokens) - round(len(tokens) * VALIDATION_SHARE)
    stream = np.asarray(tokens)
    return stream[:end], stream[end:]


def cut_windows(
    tokens: Tokens,
    *,
    sequence_length: int,
    samples: int | None = None,
    validation_samples: int | None = None,
    each_step: bool = False,
) -> tuple[Samples, Samples]:
    """Return training and validation samples of `sequence_length` tokens, in the order of the text.

    The stream is split first: no window spans both parts. Windows of a part start at equal
    distances, the largest that give the requested number of samples; without a number, every token
    of a part is predicted once. The arrays are read-only views of `tokens`.

    With `each_step` every step of a window has a target, the token after it, of shape (samples,
    sequence_length); else the window has one, of shape (samples,). Raise `DataError` if the stream
    is too short for a window, or for the requested number.
    """

    def cut(part: Tokens, count: int | None, setting: str) -> Samples:
        available = len(part) - sequence_length  # the last window, too, needs a target
        if available < (count or 1):
            raise DataError(
                f"settings.{setting}: the {len(part):,} tokens of this part have"
                f" {max(0, available):,} windows of {sequence_length:,} tokens, fewer than"
                f" {count or 1:,}: use fewer, a longer text, or dataset zipf, which has any length"
            )
        default = sequence_length if each_step else 1  # predicts every token once
        distance = default if count is None else available // count
        chosen = slice(None, None if count is None else count * distance, distance)
        views = np.lib.stride_tricks.sliding_window_view(part, sequence_length)
        targets = views[1:] if each_step else part[sequence_length:]
        return Samples(views[:-1][chosen], targets[chosen])

    training, validation = split_stream(tokens)
    return cut(training, samples, "samples"), cut(
        validation, validation_samples, "validation_samples"
    )


def tokens_needed(samples: int, sequence_length: int, validation_samples: int = 1) -> int:
    """Return the minimum number of tokens that a stream needs for these windows."""
    training = (samples + sequence_length) / (1 - VALIDATION_SHARE)
    validation = (validation_samples + sequence_length) / VALIDATION_SHARE
    return math.ceil(max(training, validation)) + 1  # for the rounding in `split_stream`


def cut_streams(
    tokens: Tokens, *, batch_size: int, sequence_length: int
) -> tuple[Samples, Samples]:
    """Return training and validation samples in the order that stateful layers need.

    Both parts are cut into `batch_size` parallel streams of equal length. Sample i · batch_size +
    b, row b of batch i, is step i of stream b. A rest that does not fill a batch is dropped. Inputs
    and targets have the shape (batches · batch_size, sequence_length); the target of a step is the
    token after it. Raise `DataError` if a part is too short for one batch.
    """

    def cut(stream: Tokens, part: str) -> Samples:
        stream_length = (len(stream) - 1) // batch_size
        batches = stream_length // sequence_length
        if batches < 1:
            raise DataError(
                f"settings.batch_size × settings.sequence_length ({batch_size:,} ×"
                f" {sequence_length:,}) must not exceed {max(0, len(stream) - 1):,}, one less than"
                f" the tokens of the {part} part: reduce one of them, or use a longer text"
            )
        starts = np.arange(batch_size) * stream_length
        steps = np.arange(batches)[:, None, None] * sequence_length + starts[:, None]
        positions = (steps + np.arange(sequence_length)).reshape(-1, sequence_length)
        return Samples(stream[positions], stream[positions + 1])

    training, validation = split_stream(tokens)
    return cut(training, "training"), cut(validation, "validation")
