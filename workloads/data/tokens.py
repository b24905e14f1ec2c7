"""Texts as numbers: characters or words, the most frequent of which have a number of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tokens: TypeAlias = NDArray[np.int32]
TokenKind: TypeAlias = Literal["character", "word"]

UNKNOWN = "\ufffd"
"""What token 0 is written as: all that the vocabulary has no room for."""

ENCODING_VERSION = 1
"""Changes whenever the same text would get other tokens."""

_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text as tokens; token i is written `vocabulary[i]`, and token 0 is the unknown one."""

    tokens: Tokens
    vocabulary: tuple[str, ...]
    kind: TokenKind

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some tokens; words are parted by single spaces."""
        between = "" if self.kind == "character" else " "
        return between.join(self.vocabulary[token] for token in tokens)


def encode(text: str, kind: TokenKind, vocabulary: int | None = None) -> EncodedText:
    """Number the tokens of a text.

    Words are runs of letters, digits and underscores, inner apostrophes included, in lower case;
    every other character that is not white space is a word of its own. White space is kept by
    characters only.

    Args:
        text: what to encode.
        kind: characters or words.
        vocabulary: most tokens to tell apart, the unknown one included; None for all there are.
            The more frequent one gets the lower number; of equals, the first in code point order.
    """
    return _characters(text, vocabulary) if kind == "character" else _words(text, vocabulary)


def split_words(text: str) -> list[str]:
    """The words of a text, as `encode` takes them."""
    return _WORD.findall(text.lower())


def rank_words(words: Iterable[str], most: int | None = None) -> list[str]:
    """Different words, the most frequent first; of equals, the first in code point order."""
    counts = Counter(words)
    counts.pop(UNKNOWN, None)
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]


def _words(text: str, vocabulary: int | None) -> EncodedText:
    words = split_words(text)
    written = (UNKNOWN, *rank_words(words, _known(vocabulary)))
    numbers = {word: number for number, word in enumerate(written)}
    tokens = np.fromiter((numbers.get(word, 0) for word in words), np.int32, len(words))
    return EncodedText(tokens, written, "word")


def _characters(text: str, vocabulary: int | None) -> EncodedText:
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    counts = np.bincount(codes, minlength=ord(UNKNOWN) + 1)
    counts[ord(UNKNOWN)] = 0
    present = np.flatnonzero(counts)
    ranked = present[np.lexsort((present, -counts[present]))][: _known(vocabulary)]
    numbers = np.zeros(len(counts), np.int32)
    numbers[ranked] = np.arange(1, len(ranked) + 1)
    return EncodedText(numbers[codes], (UNKNOWN, *map(chr, ranked)), "character")


def _known(vocabulary: int | None) -> int | None:
    if vocabulary is not None and vocabulary < 2:
        raise ValueError(f"vocabulary: expected at least 2 tokens; received {vocabulary}")
    return None if vocabulary is None else vocabulary - 1
