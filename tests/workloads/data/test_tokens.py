from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.data.tokens import UNKNOWN, TokenKind, encode, split_words

KINDS: tuple[TokenKind, ...] = ("character", "word")


@given(st.text())
def test_characters_survive_a_round_trip(text: str) -> None:
    encoded = encode(text, "character")
    assert encoded.tokens.dtype == np.int32
    assert encoded.decode(encoded.tokens) == text
    assert len(encoded.vocabulary) == len(set(text) | {UNKNOWN})


@given(st.text())
def test_words_survive_a_round_trip(text: str) -> None:
    encoded = encode(text, "word")
    decoded = encoded.decode(encoded.tokens)
    assert split_words(decoded) == split_words(text)
    second = encode(decoded, "word")
    assert second.vocabulary == encoded.vocabulary
    assert (second.tokens == encoded.tokens).all()


@given(st.text(alphabet="abcdef '\n", min_size=1), st.integers(2, 6), st.sampled_from(KINDS))
def test_the_most_frequent_have_a_number_of_their_own(
    text: str, vocabulary: int, kind: TokenKind
) -> None:
    encoded = encode(text, kind, vocabulary)
    whole = list(text) if kind == "character" else split_words(text)
    counts = Counter(whole)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    assert encoded.vocabulary == (UNKNOWN, *ranked[: vocabulary - 1])
    for token, original in zip(encoded.tokens, whole, strict=True):
        assert encoded.vocabulary[token] in (original, UNKNOWN)
        assert (token == 0) == (original not in encoded.vocabulary)


def test_words_are_lower_case_and_signs_are_words() -> None:
    text = "We know't, we KNOW't!\n'Tis snake_case 42."
    words = "we know't , we know't ! ' tis snake_case 42 ."
    assert " ".join(split_words(text)) == words


def test_the_text_of_the_unknown_token_is_unknown() -> None:
    encoded = encode(f"a{UNKNOWN}a", "character")
    assert encoded.vocabulary == (UNKNOWN, "a")
    assert encoded.tokens.tolist() == [1, 0, 1]
    assert encode(UNKNOWN, "word").tokens.tolist() == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_without_a_known_token_is_refused(kind: TokenKind) -> None:
    with pytest.raises(ValueError, match="vocabulary: expected at least 2 tokens; received 1"):
        encode("text", kind, 1)
