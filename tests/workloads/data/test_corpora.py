import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workloads.data import corpora
from workloads.data.corpora import (
    UNKNOWN_TOKEN,
    Corpus,
    TextData,
    cut_streams,
    cut_windows,
    encode_text,
    load_text,
    read_corpus,
    split_stream,
    split_words,
    tokens_needed,
    zipf_corpus,
)
from workloads.data.samples import Samples, Tokens
from workloads.data.sources import DOWNLOADS, SHAKESPEARE_URL, TokenKind, data_digest
from workloads.failures import DataError


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("To be, or not to be", encoding="utf-8")
    return path


def load(path: Path, kind: TokenKind = "word", size: int = 4) -> TextData:
    corpus = Corpus("file", str(path), kind, size)
    return load_text(corpus, lambda tokens: (Samples(tokens, tokens),) * 2, zipf_words=1234)


def vocabulary(data: TextData) -> tuple[str, ...]:
    return data.encoded.vocabulary


def test_a_file_becomes_tokens_and_is_encoded_once(
    poem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(poem)
    assert vocabulary(first) == (UNKNOWN_TOKEN, "be", "to", ",")
    assert first.train.inputs.tolist() == [2, 1, 3, 0, 0, 2, 1]
    assert (first.digest, first.source) == (data_digest("file", str(poem)), str(poem))
    monkeypatch.delattr(corpora, "encode_text")  # another call would fail
    second = load(poem)
    assert (second.train.inputs == first.train.inputs).all()
    assert vocabulary(second) == vocabulary(first)


def test_the_cache_key_has_all_that_decides_the_tokens(poem: Path) -> None:
    load(poem)
    assert vocabulary(load(poem, size=3)) == (UNKNOWN_TOKEN, "be", "to")
    assert vocabulary(load(poem, "character", 3)) == (UNKNOWN_TOKEN, " ", "o")
    poem.write_text("or not", encoding="utf-8")
    assert vocabulary(load(poem)) == (UNKNOWN_TOKEN, "not", "or")


def test_shakespeare_is_downloaded_by_keras_or_read_from_a_copy(
    tmp_path: Path, install_keras: Callable[..., None]
) -> None:
    path, asked = tmp_path / "input.txt", list[Any]()
    path.write_text("First Citizen:\n")

    def get_file(*arguments: str, **options: str) -> str:
        asked.append((*arguments, options["file_hash"]))
        return str(path)

    install_keras(get_file=get_file)
    assert read_corpus("shakespeare") == b"First Citizen:\n"
    assert asked == [("shakespeare.txt", SHAKESPEARE_URL, DOWNLOADS["shakespeare"])]
    assert data_digest("shakespeare") == DOWNLOADS["shakespeare"]
    with pytest.raises(DataError, match=r"not the text of https.*dataset to 'file'"):
        read_corpus("shakespeare", str(path))
    install_keras()
    with pytest.raises(DataError, match=r"Without a network, set settings\.data_path to a copy"):
        read_corpus("shakespeare")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"caf\xe9 au lait", r"not UTF-8: byte 0xe9 at offset 3 \(invalid"),
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
    with pytest.raises(DataError, match=r"pydoc_data\.topics.*complete Python"):
        data_digest("python-docs")
    with pytest.raises(DataError, match=r"absent.*No such file.*settings\.data_path"):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match="Is a directory"):
        data_digest("file", str(tmp_path))


def test_words_are_lower_case_and_signs_are_words() -> None:
    words = split_words("We know't, we KNOW't!\n'Tis snake_case 42.")
    assert " ".join(words) == "we know't , we know't ! ' tis snake_case 42 ."
    assert encode_text(f"a{UNKNOWN_TOKEN}a", "character", 9).tokens.tolist() == [1, 0, 1]
    for encoded in (encode_text("to be\nor", "word", 99), encode_text("to be or", "character", 99)):
        assert encoded.decode(encoded.tokens) == "to be or"
        assert encoded.tokens.dtype == np.int32


@given(st.integers(0, 300), st.integers(0, 300), st.integers(2, 50))
def test_a_longer_corpus_begins_as_a_shorter_one(length: int, more: int, size: int) -> None:
    short, long = zipf_corpus(length, size), zipf_corpus(length + more, size)
    assert (short.tokens == long.tokens[:length]).all()
    assert len(short.vocabulary) == size
    assert ((short.tokens >= 1) & (short.tokens < size)).all()


def counting(length: int) -> Tokens:
    return np.arange(length, dtype=np.int32)


@given(st.integers(0, 600), st.integers(1, 12), st.integers(1, 40) | st.none(), st.booleans())
def test_windows_never_span_both_parts(
    length: int, steps: int, samples: int | None, each_step: bool
) -> None:
    training, validation = split_stream(counting(length))
    assume(len(training) - steps >= (samples or 1) and len(validation) > steps)
    parts = cut_windows(
        counting(length), sequence_length=steps, samples=samples, each_step=each_step
    )
    assert samples is None or len(parts[0]) == samples
    for part, stream in zip(parts, (training, validation), strict=True):
        begins = part.inputs[:, 0]
        assert (part.inputs == begins[:, None] + np.arange(steps)).all()
        after = begins[:, None] + np.arange(1, steps + 1) if each_step else begins + steps
        assert (part.targets == after).all()
        assert part.inputs.min() >= stream[0]
        assert part.targets.max() <= stream[-1]
        assert part.inputs.dtype == part.targets.dtype == np.int32
        assert len(set(np.diff(begins).tolist())) <= 1
    if samples is None:
        predicted = parts[0].targets.ravel().tolist()
        with_a_past = len(training) - steps
        assert len(set(predicted)) == len(predicted) >= with_a_past - (steps - 1) * each_step


@given(st.integers(1, 500), st.integers(1, 80), st.integers(1, 80))
def test_tokens_needed_suffice(samples: int, steps: int, validation_samples: int) -> None:
    train, validation = cut_windows(
        counting(tokens_needed(samples, steps, validation_samples)),
        sequence_length=steps,
        samples=samples,
        validation_samples=validation_samples,
    )
    assert (len(train), len(validation)) == (samples, validation_samples)


def test_windows_take_no_memory() -> None:
    stream = counting(tokens_needed(612_235, 64))
    train, _ = cut_windows(stream, sequence_length=64, samples=612_235)
    assert train.inputs.shape == (612_235, 64)
    assert np.shares_memory(train.inputs, stream)


@given(st.integers(0, 900), st.integers(1, 6), st.integers(1, 12))
def test_a_row_of_a_stream_continues_that_of_the_previous_batch(
    length: int, batch_size: int, steps: int
) -> None:
    tokens = counting(length)
    parts = split_stream(tokens)
    assume(all(len(part) > batch_size * steps for part in parts))
    cut_parts = cut_streams(tokens, batch_size=batch_size, sequence_length=steps)
    for samples, part in zip(cut_parts, parts, strict=True):
        assert (samples.targets == samples.inputs + 1).all()
        rows = samples.inputs.reshape(-1, batch_size, steps)
        for row in range(batch_size):
            stream = rows[:, row].ravel()
            assert (stream == stream[0] + np.arange(len(stream))).all()
        inputs = samples.inputs.ravel().tolist()
        assert len(set(inputs)) == len(inputs)  # no two streams have the same text
        assert min(inputs) == part[0]
        assert samples.inputs.dtype == np.int32
        assert samples.targets.max() <= part[-1]
        assert len(part) - 1 - len(inputs) < batch_size * steps + batch_size


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"samples": 81}, r"settings\.samples: the 90 tokens .* 80 windows .* 81:"),
        ({"validation_samples": 1}, r"\.validation_samples: the 10 tokens .* 0 windows"),
        ({}, "fewer than 1:"),
    ],
)
def test_a_text_that_is_too_short_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        cut_windows(counting(100), sequence_length=10, **asked)
    with pytest.raises(DataError, match=r"\(2 × 5\) must not exceed .*the validation part"):
        cut_streams(counting(100), batch_size=2, sequence_length=5)
