from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.data.test_images import install_keras
from workloads.data.reviews import Side, labelled_sentences, load_reviews, pad_sequences
from workloads.data.samples import DataSet, Samples
from workloads.data.sources import DOWNLOADS, data_digest
from workloads.failures import DataError

TRAIN = [[1, 5, 9], [1, 7], [1, 5, 5, 8, 6]]
TEST = [[1, 9], [1, 4, 6]]
LABELS = {"y_train": np.array([0, 1, 1]), "y_test": np.array([1, 0])}
REVIEWS: dict[str, Any] = {
    "x_train": np.array([[1, 5, 9, 0, 0], [0, 0, 0, 1, 7], [1, 5, 5, 8, 6]]),
    "x_test": np.array([[1, 9, 0], [1, 4, 6]], np.uint16),
    **LABELS,
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))


def load(path: Path | None = None, side: Side = "right", **limits: int) -> DataSet:
    where = None if path is None else str(path)
    return load_reviews("imdb", where, vocabulary=9, sequence_length=4, padding=side, **limits)


def rows(samples: Samples) -> list[tuple[list[int], int]]:
    """Return inputs with their classes, sorted."""
    return sorted(zip(samples.inputs.tolist(), samples.targets.tolist(), strict=True))


def test_reviews_of_a_file_are_padded_and_limited_to_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "reviews.npz"
    np.savez_compressed(path, **REVIEWS)
    reviews = load(path)
    assert rows(reviews.train) == [
        ([1, 5, 2, 0], 0),  # word 9 is outside the vocabulary
        ([1, 7, 0, 0], 1),
        ([5, 5, 8, 6], 1),  # the end remains
    ]
    assert rows(reviews.validation) == [([1, 2, 0, 0], 1), ([1, 4, 6, 0], 0)]
    assert (reviews.classes, reviews.source) == (2, str(path))
    assert reviews.digest == data_digest("imdb", str(path))
    few = load(path, samples=2, validation_samples=1)
    assert (few.train.inputs == reviews.train.inputs[:2]).all()
    assert len(few.validation) == 1


def test_imdb_is_loaded_from_keras_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_data(num_words: int) -> Any:
        asked.append(num_words)
        return tuple(
            (
                np.array([[w if w < num_words else 2 for w in row] for row in lists], dtype=object),
                LABELS[f"y_{part}"],
            )
            for part, lists in (("train", TRAIN), ("test", TEST))
        )

    install_keras(monkeypatch, imdb=load_data)
    first, second = load(), load()
    assert asked == [9]
    assert rows(first.train) == rows(second.train)
    assert rows(first.train)[0] == ([1, 5, 2, 0], 0)
    assert rows(load(side="left").train)[0] == ([0, 0, 1, 7], 1)
    assert first.digest == DOWNLOADS["imdb"]


def test_imdb_without_network_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    install_keras(monkeypatch)
    with pytest.raises(DataError, match=r"no network: on a machine without network, put imdb"):
        load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_test": REVIEWS["x_test"] / 2}, "expected x_test of integers from 0 to"),
        ({"x_test": -TEST[1][1] * np.ones((2, 2), int)}, "from -4 to -4"),
        ({"x_train": np.array([[1, 2], [1, 2], [0, 0]])}, "without any, the first at index 2"),
        ({"x_train": np.array([1, 2, 3])}, r"x_train in 2 dimensions"),
        ({"x_test": np.array([[1], [1, 2]], dtype=object)}, "Object arrays"),
    ],
)
def test_a_file_with_another_layout_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "reviews.npz"
    np.savez(path, **{**REVIEWS, **change})
    with pytest.raises(DataError, match=message):
        load(path)


def test_a_file_of_keras_is_explained(tmp_path: Path) -> None:
    np.savez(tmp_path / "imdb.npz", x_train=np.array([[1]], dtype=object))
    with pytest.raises(DataError, match=r"put it into ~/\.keras/datasets, and leave"):
        load(tmp_path / "imdb.npz")


@given(
    st.lists(st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=12), min_size=1, max_size=8),
    st.integers(1, 12),
    st.sampled_from(["left", "right"]),
)
def test_a_row_has_the_end_of_its_sequence(
    sequences: list[list[int]], length: int, side: Side
) -> None:
    padded = pad_sequences(sequences, length, side)
    assert padded.dtype == np.int32
    for row, sequence in zip(padded.tolist(), sequences, strict=True):
        zeros = [0] * (length - len(sequence))
        kept = sequence[-length:]
        assert row == (kept + zeros if side == "right" else zeros + kept)


def test_sentences_of_the_documentation_are_two_separable_classes() -> None:
    sentences, _ = labelled_sentences()
    assert len({tuple(words) for words in sentences}) == len(sentences)
    reviews = load_reviews("python-docs", vocabulary=3000, sequence_length=40, padding="right")
    assert (reviews.classes, len(reviews.train) > 2000, len(reviews.validation) > 500) == (2, 1, 1)
    for part in (reviews.train, reviews.validation):
        assert part.inputs.shape == (len(part), 40)
        assert 0 <= part.inputs.min() <= part.inputs.max() < 3000
        assert (part.inputs[:, 0] != 0).all()
        assert part.targets.mean() == pytest.approx(0.5, abs=0.1)
        assert len(np.unique(part.targets[:50])) == 2  # not sorted by class
    counts = np.ones((2, 3000))
    for row, label in zip(reviews.train.inputs, reviews.train.targets, strict=True):
        counts[label, np.unique(row)] += 1
    odds = np.log(counts[1] / counts[0])
    predicted = [odds[np.unique(row)].sum() > 0 for row in reviews.validation.inputs]
    assert np.mean(predicted == (reviews.validation.targets == 1)) > 0.7
