"""Texts as numbers: the most frequent characters or words have a number of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


def split_words(text: str) -> list[str]:
    """Split a text into words, as `encode` does."""
    return _WORD.findall(text.lower())


def rank_words(words: Iterable[str], limit: int) -> list[str]:
    """Return up to `limit` different words, the most frequent first; ties in code point order."""
    counts = Counter(words)
    counts.pop(UNKNOWN, None)
    return sorted(counts, key=lambda word: (-counts[word], word))[:limit]
