from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workloads.data.padding import Side
from workloads.data.reviews import Reviews, load_reviews
from workloads.data.samples import Samples
from workloads.data.sentences import labelled_sentences
from workloads.data.sources import IMDB_SHA256, file_digest, review_digest, text_digest
from workloads.failures import DataError

TRAIN = [[1, 5, 9], [1, 7], [1, 5, 5, 8, 6]]
TEST = [[1, 9], [1, 4, 6]]
PADDED = {
    "x_train": np.array([[1, 5, 9, 0, 0], [1, 7, 0, 0, 0], [1, 5, 5, 8, 6]]),
    "x_test": np.array([[1, 9, 0], [1, 4, 6]], np.uint16),
}
FLAT = {
    "x_train_tokens": np.concatenate(TRAIN),
    "x_train_lengths": np.array([3, 2, 5]),
    "x_test_tokens": np.concatenate(TEST),
    "x_test_lengths": np.array([2, 3], np.uint8),
}
LABELS = {"y_train": np.array([0, 1, 1]), "y_test": np.array([1, 0])}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("layout", [PADDED, FLAT])
def test_a_file_of_either_layout_is_read(tmp_path: Path, layout: dict[str, Any]) -> None:
    path = tmp_path / "reviews.npz"
    arrays: dict[str, Any] = {**layout, **LABELS}
    np.savez_compressed(path, **arrays)
    reviews = load_reviews("imdb", str(path), vocabulary=9, sequence_length=4, padding="right")
    assert rows(reviews.train) == [
        ([1, 5, 2, 0], 0),  # word 9 is outside the vocabulary
        ([1, 7, 0, 0], 1),
        ([5, 5, 8, 6], 1),  # the end remains
    ]
    assert rows(reviews.validation) == [([1, 2, 0, 0], 1), ([1, 4, 6, 0], 0)]
    assert (reviews.classes, reviews.source) == (2, str(path))
    assert reviews.digest == review_digest("imdb", str(path)) == file_digest(path)
    few = load_reviews(
        "imdb",
        str(path),
        vocabulary=9,
        sequence_length=4,
        padding="right",
        samples=2,
        validation_samples=1,
    )
    assert (few.train.inputs == reviews.train.inputs[:2]).all()
    assert len(few.validation) == 1


def rows(samples: Samples) -> list[tuple[list[int], int]]:
    """Return inputs with their classes, sorted."""
    return sorted(zip(samples.inputs.tolist(), samples.targets.tolist(), strict=True))


@pytest.mark.parametrize("side", ["left", "right"])
def test_sentences_of_the_documentation_are_two_classes(side: Side) -> None:
    reviews = documentation(side)
    assert reviews.classes == 2
    assert len(reviews.train) > 2000
    assert len(reviews.validation) > 500
    for part in (reviews.train, reviews.validation):
        assert part.inputs.shape == (len(part), 40)
        assert 0 <= part.inputs.min() <= part.inputs.max() < 3000
        filled = part.inputs != 0
        assert filled.any(axis=1).all()
        assert filled[:, 0 if side == "right" else -1].all()
        steps = np.diff(filled.astype(int), axis=1)
        assert ((steps <= 0) if side == "right" else (steps >= 0)).all()  # one block of padding
        assert part.targets.mean() == pytest.approx(0.5, abs=0.1)
        assert len(np.unique(part.targets[:50])) == 2  # not sorted by class
    assert reviews.digest == review_digest("python-docs") == text_digest("python-docs")


def documentation(side: Side) -> Reviews:
    return load_reviews("python-docs", vocabulary=3000, sequence_length=40, padding=side)


def test_the_order_is_always_the_same_and_no_sentence_is_in_both_parts() -> None:
    first, second = documentation("right"), documentation("right")
    assert (first.train.inputs == second.train.inputs).all()
    assert (first.validation.targets == second.validation.targets).all()
    sentences, _ = labelled_sentences()
    assert len({tuple(words) for words in sentences}) == len(sentences)


def test_word_counts_separate_the_classes() -> None:
    reviews = documentation("right")
    counts = np.ones((2, 3000))
    for row, label in zip(reviews.train.inputs, reviews.train.targets, strict=True):
        counts[label, np.unique(row)] += 1
    odds = np.log(counts[1] / counts[0])
    predicted = [odds[np.unique(row)].sum() > 0 for row in reviews.validation.inputs]
    assert np.mean(predicted == (reviews.validation.targets == 1)) > 0.7


def test_imdb_is_loaded_from_keras_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_data(**arguments: Any) -> Any:
        asked.append(arguments)
        return tuple(
            (np.array(lists, dtype=object), LABELS[f"y_{part}"])
            for part, lists in (("train", TRAIN), ("test", TEST))
        )

    install_keras(monkeypatch, load_data)
    for side in ("right", "left", "right"):
        reviews = load_reviews("imdb", vocabulary=9, sequence_length=4, padding=side)
        assert len(asked) == 1
    assert rows(reviews.train)[0] == ([1, 5, 2, 0], 0)
    assert reviews.digest == IMDB_SHA256


def test_imdb_without_network_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_data(**_: Any) -> Any:
        raise Exception("URL fetch failure")

    install_keras(monkeypatch, load_data)
    with pytest.raises(DataError, match=r"URL fetch failure: on a machine without network, put"):
        load_reviews("imdb", vocabulary=9, sequence_length=4, padding="right")


def install_keras(monkeypatch: pytest.MonkeyPatch, load_data: Any) -> None:
    """Replace the vendor's downloader; the framework itself is not imported here."""
    imdb = SimpleNamespace(load_data=load_data)
    fake = SimpleNamespace(datasets=SimpleNamespace(imdb=imdb))
    monkeypatch.setitem(sys.modules, "keras", fake)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": None}, r"expected arrays y_train and either x_train, or x_train_tokens and"),
        ({"x_test_lengths": None}, r"expected arrays y_test and either x_test, .*; received x_tra"),
        ({"y_test": [0.5, 1]}, r"expected y_test of integers in 1 dimension\(s\).*float64"),
        ({"x_train": [1, 2, 3]}, r"expected x_train of integers in 2 dimension\(s\).*\(3,\)"),
        ({"y_train": [0, 1]}, "as many reviews in x_train as classes in y_train; received 3 and 2"),
        ({"x_train_lengths": [5, 0, 5]}, "received 1 without any, the first at index 1"),
        ({"x_train": [[1, 2], [1, 2], [0, 0]]}, "received 1 without any, the first at index 2"),
        ({"x_train_lengths": [3, 2, 4]}, "x_train_lengths to add up to the 10 .*; received 9"),
        ({"x_test_tokens": [0, 1, 2, 3, 4]}, "expected x_test_tokens from 1 to .*received 0 to 4"),
        ({"y_test": [-1, 0]}, "expected y_test from 0 to .*; received -1 to 0"),
        ({"x_test_tokens": []}, "not empty; received float64 of shape"),
        (
            {"x_test": np.array([[1], [1, 2]], dtype=object)},
            r"plain arrays; Object arrays.*put Keras' own imdb\.npz into ~/\.keras/datasets",
        ),
    ],
)
def test_a_file_with_another_layout_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    arrays = {**FLAT, **LABELS, **change}
    path = tmp_path / "reviews.npz"
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(DataError, match=rf"reviews\.npz: .*{message}"):
        load_reviews("imdb", str(path), vocabulary=9, sequence_length=4, padding="right")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "reviews.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"reviews\.npz: expected an \.npz file of plain arrays"):
        load_reviews("imdb", str(path), vocabulary=9, sequence_length=4, padding="right")


def test_a_single_array_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reviews.npy"
    np.save(path, np.arange(3))
    with pytest.raises(DataError, match=r"reviews\.npy: expected an \.npz file of plain arrays"):
        load_reviews("imdb", str(path), vocabulary=9, sequence_length=4, padding="right")
    with pytest.raises(DataError, match=r"absent\.npz.*No such file.*settings\.data_path"):
        load_reviews("imdb", "absent.npz", vocabulary=9, sequence_length=4, padding="right")
