from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from workloads.data.sources import text_digest
from workloads.data.zipf import zipf_corpus

PINNED = [12, 10, 2, 1, 93, 86, 28, 23, 2, 1, 21, 3]
PINNED_DIGEST = "f79401ac4701352545d559155be8bd326ac1abb0d897080fbfbf08a70073c7c6"


def test_the_words_follow_zipfs_law() -> None:
    corpus = zipf_corpus(400_000, 65)
    shares = np.bincount(corpus.tokens, minlength=65) / 400_000
    law = 1 / np.arange(1, 65)
    assert shares[0] == 0  # nothing is unknown
    assert shares[1:] == pytest.approx(law / law.sum(), rel=0.06)


def test_previous_words_predict_the_next_one() -> None:
    tokens = zipf_corpus(400_000, 33).tokens.astype(np.int64)
    alone = entropy(tokens)
    after_one = entropy(tokens[1:] * 33 + tokens[:-1]) - alone
    after_two = entropy(tokens[2:] * 33**2 + tokens[1:-1] * 33 + tokens[:-2]) - alone - after_one
    assert after_one < 0.65 * alone
    assert after_two < 0.92 * after_one


@given(st.integers(0, 300), st.integers(0, 300), st.integers(2, 50))
def test_a_longer_corpus_begins_as_a_shorter_one(length: int, more: int, vocabulary: int) -> None:
    short, long = zipf_corpus(length, vocabulary), zipf_corpus(length + more, vocabulary)
    assert (short.tokens == long.tokens[:length]).all()
    assert short.vocabulary == long.vocabulary
    assert len(short.vocabulary) == vocabulary
    assert ((short.tokens >= 1) & (short.tokens < vocabulary)).all()
    assert short.tokens.dtype == np.int32


def test_the_corpus_is_the_same_on_every_machine() -> None:
    corpus = zipf_corpus(12, 100)
    assert corpus.tokens.tolist() == PINNED
    assert corpus.decode(corpus.tokens[:2]) == f"w{PINNED[0]} w{PINNED[1]}"
    assert text_digest("zipf") == PINNED_DIGEST


def test_a_vocabulary_without_a_word_is_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary: expected at least 2 tokens; received 1"):
        zipf_corpus(10, 1)


def entropy(values: NDArray[np.int64]) -> float:
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(shares * np.log(shares)).sum())
