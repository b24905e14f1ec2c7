import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.data import text
from workloads.data.samples import DataSet, Samples, TokenKind
from workloads.data.sources import DOWNLOADS, SHAKESPEARE_URL, data_digest
from workloads.data.text import UNKNOWN, encode, load_text, read_text, split_words, zipf_corpus
from workloads.failures import DataError
from workloads.settings import TextSettings


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("To be, or not to be", encoding="utf-8")
    return path


def load(path: Path, kind: TokenKind = "word", size: int = 4) -> DataSet:
    settings = TextSettings(dataset="file", data_path=str(path), vocabulary=size)
    return load_text(settings, lambda tokens: (Samples(tokens, tokens),) * 2, kind, 1234)


def vocabulary(data: DataSet) -> tuple[str, ...]:
    assert data.encoded is not None
    return data.encoded.vocabulary


def test_a_file_becomes_tokens_and_is_encoded_once(
    poem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(poem)
    assert vocabulary(first) == (UNKNOWN, "be", "to", ",")
    assert first.train.inputs.tolist() == [2, 1, 3, 0, 0, 2, 1]
    assert (first.digest, first.source) == (data_digest("file", str(poem)), str(poem))
    monkeypatch.delattr(text, "encode")  # another call would fail
    second = load(poem)
    assert (second.train.inputs == first.train.inputs).all()
    assert vocabulary(second) == vocabulary(first)


def test_the_cache_key_has_all_that_decides_the_tokens(poem: Path) -> None:
    load(poem)
    assert vocabulary(load(poem, size=3)) == (UNKNOWN, "be", "to")
    assert vocabulary(load(poem, "character", 3)) == (UNKNOWN, " ", "o")
    poem.write_text("or not", encoding="utf-8")
    assert vocabulary(load(poem)) == (UNKNOWN, "not", "or")


def test_shakespeare_is_downloaded_by_keras_or_read_from_a_copy(
    tmp_path: Path, install_keras: Callable[..., None]
) -> None:
    path, asked = tmp_path / "input.txt", list[Any]()
    path.write_text("First Citizen:\n")

    def get_file(*arguments: str, **options: str) -> str:
        asked.append((*arguments, options["file_hash"]))
        return str(path)

    install_keras(get_file=get_file)
    assert read_text("shakespeare") == b"First Citizen:\n"
    assert asked == [("shakespeare.txt", SHAKESPEARE_URL, DOWNLOADS["shakespeare"])]
    assert data_digest("shakespeare") == DOWNLOADS["shakespeare"]
    with pytest.raises(DataError, match=r"expected the text of https.*dataset to 'file'"):
        read_text("shakespeare", str(path))
    install_keras()
    with pytest.raises(DataError, match=r"without network, set settings\.data_path to a copy"):
        read_text("shakespeare")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a text; received an empty file"),
        (b"caf\xe9 au lait", r"expected UTF-8; received byte 0xe9 at offset 3 \(invalid"),
        ("Straße".encode()[:5], r"expected UTF-8; received byte 0xc3 at offset 4 \(unexpected end"),
    ],
)
def test_a_file_that_is_no_text_is_refused(poem: Path, content: bytes, message: str) -> None:
    poem.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(poem)


def test_a_missing_file_or_part_of_python_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match=r"expected pydoc_data\.topics.*complete Python"):
        data_digest("python-docs")
    with pytest.raises(DataError, match=r"absent.*No such file.*settings\.data_path"):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match="Is a directory"):
        data_digest("file", str(tmp_path))


def test_words_are_lower_case_and_signs_are_words() -> None:
    words = split_words("We know't, we KNOW't!\n'Tis snake_case 42.")
    assert " ".join(words) == "we know't , we know't ! ' tis snake_case 42 ."
    assert encode(f"a{UNKNOWN}a", "character", 9).tokens.tolist() == [1, 0, 1]
    for encoded in (encode("to be\nor", "word", 99), encode("to be or", "character", 99)):
        assert encoded.decode(encoded.tokens) == "to be or"
        assert encoded.tokens.dtype == np.int32


@given(st.integers(0, 300), st.integers(0, 300), st.integers(2, 50))
def test_a_longer_corpus_begins_as_a_shorter_one(length: int, more: int, size: int) -> None:
    short, long = zipf_corpus(length, size), zipf_corpus(length + more, size)
    assert (short.tokens == long.tokens[:length]).all()
    assert len(short.vocabulary) == size
    assert ((short.tokens >= 1) & (short.tokens < size)).all()
