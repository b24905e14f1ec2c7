from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads.data import cache, corpora
from workloads.data.corpora import load_corpus
from workloads.data.sources import text_digest
from workloads.failures import DataError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("To be, or not to be", encoding="utf-8")
    return path


def test_a_file_becomes_tokens_and_is_encoded_once(
    poem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_corpus("file", str(poem), kind="word", vocabulary=4, length=0)
    assert first.encoded.vocabulary == ("\ufffd", "be", "to", ",")
    assert first.encoded.tokens.tolist() == [2, 1, 3, 0, 0, 2, 1]
    assert (first.digest, first.source) == (text_digest("file", str(poem)), str(poem))
    monkeypatch.delattr(corpora, "encode")  # another call would fail
    second = load_corpus("file", str(poem), kind="word", vocabulary=4, length=0)
    assert (second.encoded.tokens == first.encoded.tokens).all()
    assert second.encoded.vocabulary == first.encoded.vocabulary


def test_the_cache_key_has_all_that_decides_the_tokens(poem: Path) -> None:
    load_corpus("file", str(poem), kind="word", vocabulary=4, length=0)
    few = load_corpus("file", str(poem), kind="word", vocabulary=3, length=0)
    assert few.encoded.vocabulary == ("\ufffd", "be", "to")
    characters = load_corpus("file", str(poem), kind="character", vocabulary=3, length=0)
    assert characters.encoded.vocabulary == ("\ufffd", " ", "o")
    poem.write_text("or not", encoding="utf-8")
    other = load_corpus("file", str(poem), kind="word", vocabulary=4, length=0)
    assert other.encoded.vocabulary == ("\ufffd", "not", "or")


def test_a_large_text_is_memory_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", 100_000)
    for _ in range(2):
        docs = load_corpus("python-docs", kind="character", vocabulary=256, length=0)
        assert isinstance(docs.encoded.tokens, np.memmap)
    assert docs.encoded.decode(docs.encoded.tokens[:30]).startswith('The "assert" statement')


def test_the_synthetic_corpus_has_the_requested_length() -> None:
    corpus = load_corpus("zipf", kind="word", vocabulary=50, length=1234)
    assert len(corpus.encoded.tokens) == 1234
    assert len(corpus.encoded.vocabulary) == 50
    assert corpus.digest == text_digest("zipf")


def test_a_text_that_changes_while_it_is_read_is_refused(
    poem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "text_digest", lambda *_: "0" * 64)
    with pytest.raises(DataError, match=r"poem\.txt: expected the text with SHA-256 0000.*change"):
        load_corpus("file", str(poem), kind="word", vocabulary=4, length=0)
