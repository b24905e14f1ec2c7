"""Texts as numbers, and a synthetic corpus of any length.

The most frequent characters or words have a number of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.sources import ZIPF

Tokens: TypeAlias = NDArray[np.int32]
TokenKind: TypeAlias = Literal["character", "word"]

UNKNOWN = "\ufffd"
"""The text of token 0, which replaces every token outside the vocabulary."""

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


def encode(text: str, kind: TokenKind, vocabulary: int) -> EncodedText:
    """Number the tokens of a text.

    Words are runs of letters, digits and underscores with inner apostrophes, in lower case. Every
    other character except white space is a word of its own. White space is a token only with
    characters.

    Args:
        text: text to encode.
        kind: characters or words.
        vocabulary: maximum number of different tokens, including the unknown one. A more frequent
            token has a lower number; ties are in code point order.

    Returns:
        Tokens of shape (tokens,).
    """
    words: Sequence[str] = text if kind == "character" else split_words(text)
    texts = (UNKNOWN, *rank_words(words, vocabulary - 1))
    numbers = {word: number for number, word in enumerate(texts)}
    tokens = np.fromiter((numbers.get(word, 0) for word in words), np.int32, len(words))
    return EncodedText(tokens, texts, kind)


def zipf_corpus(length: int, vocabulary: int) -> EncodedText:
    """Return the first `length` words of an endless synthetic corpus, always the same.

    Word r is r times as rare as word 1 (Zipf's law), and previous words predict the next one. Every
    word has an arc of a circle, as long as its probability; the order of the arcs is drawn once. A
    point moves around the circle by the same angle in every step, and jumps to a random place in a
    quarter of the steps. The words are the arcs that it visits. All places of the point are equally
    likely, so the law holds exactly. One previous word predicts the next one roughly; several words
    locate the point, and so predict the next word, more precisely: memory helps. The loss of a
    model that learns falls below the entropy of the word frequencies, but never to zero, because of
    the jumps.

    Word r is token r, with the text `w<r>`. Token 0, the unknown one, does not occur, but counts
    in `vocabulary`.
    """
    steps = np.arange(length)
    draws = np.random.default_rng(int(ZIPF["seed"])).random((length, 2))
    restarts = draws[:, 0] < ZIPF["restart"]
    restarts[:1] = True
    last = np.maximum.accumulate(np.where(restarts, steps, 0))
    places = (draws[last, 1] + ZIPF["turn"] * (steps - last)) % 1.0
    draw = np.random.default_rng([int(ZIPF["seed"]), vocabulary - 1])
    owners = draw.permutation(np.arange(1, vocabulary, dtype=np.int32))  # of the circle's arcs
    shares = owners ** -ZIPF["exponent"]
    ends = np.cumsum(shares / shares.sum())
    tokens = owners[np.searchsorted(ends[:-1], places, side="right")]
    texts = (UNKNOWN, *(f"w{word}" for word in range(1, vocabulary)))
    return EncodedText(tokens, texts, "word")


def split_words(text: str) -> list[str]:
    """Split a text into words, as `encode` does."""
    return _WORD.findall(text.lower())


def rank_words(words: Iterable[str], limit: int) -> list[str]:
    """Return up to `limit` different words, the most frequent first; ties in code point order."""
    counts = Counter(words)
    counts.pop(UNKNOWN, None)
    return sorted(counts, key=lambda word: (-counts[word], word))[:limit]
