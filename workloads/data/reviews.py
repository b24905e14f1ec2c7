"""Labelled texts, padded to one length: IMDb's reviews, or sentences of Python's documentation.

Tokens have Keras' numbers for IMDb: 0 is padding, 1 begins a review, 2 is every word outside the
vocabulary, and words follow by frequency from 3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.cache import Arrays, load_or_make
from workloads.data.images import stratified_split
from workloads.data.padding import RaggedSequences, Side, pad_sequences
from workloads.data.review_file import LabelledReviews, read_reviews
from workloads.data.samples import Samples
from workloads.data.sentences import labelled_sentences
from workloads.data.sources import IMDB_SHA256, ReviewSet, review_digest
from workloads.data.text import text_source
from workloads.data.tokens import rank_words
from workloads.failures import DataError

START, UNKNOWN, FIRST_WORD = 1, 2, 3

_ORDER_SEED = 20_180_117  # the order belongs to the data set: it never depends on a trial's seed
_IMDB_ARRAYS = tuple(
    f"{part}_{name}" for part in ("train", "test") for name in ("tokens", "lengths", "labels")
)


@dataclass(frozen=True, slots=True)
class Reviews:
    """A data set of labelled texts, ready to train on; `digest` is the digest of its source.

    Inputs are tokens below the vocabulary's size, of shape (reviews, sequence_length). At least one
    token of a row is not padding.
    """

    name: ReviewSet
    digest: str
    source: str
    train: Samples
    validation: Samples
    classes: int


def load_reviews(
    name: ReviewSet,
    data_path: str | None = None,
    *,
    vocabulary: int,
    sequence_length: int,
    padding: Side,
    samples: int | None = None,
    validation_samples: int | None = None,
) -> Reviews:
    """Load, number, pad and shuffle a data set, always in the same order.

    Args:
        name: `imdb` from Keras' loader or a file; `python-docs` as in `workloads.data.sentences`.
        data_path: a file of reviews in the layout of `workloads.data.review_file`.
        vocabulary: number of different tokens, at least 4; rarer words become the unknown token.
        sequence_length: length of every review; of longer reviews the end remains.
        padding: side of the zeros in shorter reviews.
        samples: number of training reviews, the first ones; None for all.
        validation_samples: number of validation reviews, the first ones; None for all.

    Raises:
        DataError: the data is missing, cannot be downloaded, or has an unexpected layout.
    """
    digest = review_digest(name, data_path)
    if name == "python-docs":
        source, parts = text_source("python-docs"), _python_docs(vocabulary)
    elif data_path is not None:
        source, parts = data_path, read_reviews(data_path)
    else:
        source, parts = "keras.datasets.imdb", _imdb()
    train, validation = (_padded(part, vocabulary, sequence_length, padding) for part in parts)
    classes = int(max(train.targets.max(), validation.targets.max())) + 1
    return Reviews(
        name, digest, source, train.first(samples), validation.first(validation_samples), classes
    )


def _padded(part: LabelledReviews, vocabulary: int, length: int, side: Side) -> Samples:
    rows = pad_sequences(part.reviews, length, side)
    rows[rows >= vocabulary] = UNKNOWN
    order = np.random.default_rng(_ORDER_SEED).permutation(len(rows))
    return Samples(rows, part.labels).take(order)


def _python_docs(vocabulary: int) -> tuple[LabelledReviews, LabelledReviews]:
    sentences, labels = labelled_sentences()
    train, validation = stratified_split(labels)
    words = itertools.chain.from_iterable(sentences[index] for index in train)
    ranked = rank_words(words, vocabulary - FIRST_WORD)
    numbers = {word: number for number, word in enumerate(ranked, FIRST_WORD)}

    def number(chosen: NDArray[np.intp]) -> LabelledReviews:
        rows = (
            [START, *(numbers.get(word, UNKNOWN) for word in sentences[index])] for index in chosen
        )
        return LabelledReviews(_concatenate(rows), labels[chosen])

    return number(train), number(validation)


def _imdb() -> tuple[LabelledReviews, LabelledReviews]:
    """Load all words of all reviews; the vocabulary's limit comes later: one copy serves all."""
    arrays = load_or_make("imdb", {"file": IMDB_SHA256, "version": 1}, _IMDB_ARRAYS, _imdb_arrays)
    return _labelled(arrays, "train"), _labelled(arrays, "test")


def _imdb_arrays() -> Arrays:
    import keras  # noqa: PLC0415 - only this data set needs it, inside a trainer process

    try:
        train, test = keras.datasets.imdb.load_data(num_words=2**31)
    except Exception as error:  # Keras raises a bare Exception where a download fails
        raise DataError(
            f"dataset imdb: expected Keras' loader to deliver it; {error}: on a machine without"
            " network, put imdb.npz into ~/.keras/datasets, or set settings.data_path to a file"
            " of reviews, or dataset to python-docs"
        ) from error
    arrays: dict[str, NDArray[Any]] = {}
    for part, (rows, labels) in (("train", train), ("test", test)):
        reviews = _concatenate(rows)
        arrays[f"{part}_tokens"], arrays[f"{part}_lengths"] = reviews.tokens, reviews.lengths
        arrays[f"{part}_labels"] = np.asarray(labels, np.int32)
    return arrays


def _labelled(arrays: Arrays, part: str) -> LabelledReviews:
    reviews = RaggedSequences(arrays[f"{part}_tokens"], arrays[f"{part}_lengths"])
    return LabelledReviews(reviews, arrays[f"{part}_labels"])


def _concatenate(rows: Iterable[Iterable[int]]) -> RaggedSequences:
    sequences = [list(row) for row in rows]
    tokens = np.fromiter(itertools.chain.from_iterable(sequences), np.int32)
    return RaggedSequences(tokens, np.array([len(row) for row in sequences], np.int64))
