"""Labelled texts, padded to one length: IMDb's reviews, or sentences of Python's documentation.

Tokens have Keras' numbers for IMDb: 0 is padding, 1 begins a review, 2 is every word outside the
vocabulary, and words follow by frequency from 3.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.cache import Arrays, load_or_make
from workloads.data.samples import (
    DataSet,
    Samples,
    load_by_keras,
    read_labelled,
    stratified_split,
)
from workloads.data.sources import DOWNLOADS, ReviewSet, data_digest, python_docs
from workloads.data.text import text_source
from workloads.data.tokens import Tokens, rank_words, split_words
from workloads.failures import DataError

Side: TypeAlias = Literal["left", "right"]
START, UNKNOWN, FIRST_WORD = 1, 2, 3

_ORDER_SEED = 20_180_117  # the order belongs to the data set: it never depends on a trial's seed
_IMDB_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_SENTENCE_END = re.compile(r"(?<=[.:!?])\s+(?=[A-Z*\"(])")
_MIN_WORDS = 6
"""Minimum number of words in a sentence: shorter ones are headings, or pieces of code."""


def load_reviews(
    name: ReviewSet,
    data_path: str | None = None,
    *,
    vocabulary: int,
    sequence_length: int,
    padding: Side,
    samples: int | None = None,
    validation_samples: int | None = None,
) -> DataSet:
    """Load, number, pad and shuffle a data set, always in the same order.

    Inputs are tokens below the vocabulary's size, of shape (reviews, sequence_length). At least one
    token of a row is not padding.

    Args:
        name: `imdb` from Keras' loader or a file; `python-docs` has two classes of sentences.
        data_path: an .npz with x_train, y_train, x_test, y_test: rows of numbered tokens, with
            zeros as padding on any side.
        vocabulary: number of different tokens, at least 4; rarer words become the unknown token.
        sequence_length: length of every review; of longer reviews the end remains.
        padding: side of the zeros in shorter reviews.
        samples: number of training reviews, the first ones; None for all.
        validation_samples: number of validation reviews, the first ones; None for all.

    Raises:
        DataError: the data is missing, cannot be downloaded, or has an unexpected layout.
    """
    digest = data_digest(name, data_path)
    if name == "python-docs":
        source, parts = text_source(name), _python_docs(vocabulary, sequence_length, padding)
    elif data_path is not None:
        source, parts = data_path, _reviews_of_file(data_path, sequence_length, padding)
    else:
        source, parts = "keras.datasets.imdb", _imdb(vocabulary, sequence_length, padding)
    train, validation = (_shuffled(part, vocabulary) for part in parts)
    classes = int(max(train.targets.max(), validation.targets.max())) + 1
    train, validation = train.first(samples), validation.first(validation_samples)
    return DataSet(name, digest, source, train, validation, classes)


def pad_sequences(sequences: Iterable[Sequence[int]], length: int, side: Side) -> Tokens:
    """Return the ends of sequences as rows of one length, with zeros on the `side` of short ones.

    As Keras' function of this name, without importing Keras.
    """
    rows = []
    for sequence in sequences:
        kept = np.asarray(sequence[-length:], np.int32)
        zeros = length - len(kept)
        rows.append(np.pad(kept, (zeros, 0) if side == "left" else (0, zeros)))
    return np.stack(rows)


def labelled_sentences() -> tuple[list[list[str]], NDArray[np.int32]]:
    """Return different sentences of Python's documentation as words, and their labels.

    The class of a sentence is the half of the topics, in alphabetical order, that it comes from.
    It can be learnt, since topics have words of their own: naive Bayes classifies four of five
    unseen sentences correctly. Both classes have about the same number of sentences.
    """
    topics: dict[tuple[str, ...], int] = {}
    for topic, paragraphs in enumerate(python_docs().values()):
        for paragraph in paragraphs:
            for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
                words = tuple(split_words(sentence))
                if len(words) >= _MIN_WORDS:
                    topics.setdefault(words, topic)
    topic_of = np.array(list(topics.values()))
    first = np.searchsorted(topic_of, topic_of)  # the first sentence of each one's topic
    return [list(words) for words in topics], (first >= len(topics) / 2).astype(np.int32)


def _shuffled(part: Samples, vocabulary: int) -> Samples:
    rows = np.where(part.inputs >= vocabulary, UNKNOWN, part.inputs).astype(np.int32)
    order = np.random.default_rng(_ORDER_SEED).permutation(len(rows))
    return Samples(rows, part.targets).take(order)


def _python_docs(vocabulary: int, length: int, side: Side) -> tuple[Samples, Samples]:
    sentences, labels = labelled_sentences()
    train, validation = stratified_split(labels)
    words = itertools.chain.from_iterable(sentences[index] for index in train)
    ranked = rank_words(words, vocabulary - FIRST_WORD)
    numbers = {word: number for number, word in enumerate(ranked, FIRST_WORD)}

    def number(chosen: NDArray[np.intp]) -> Samples:
        rows = (
            [START, *(numbers.get(word, UNKNOWN) for word in sentences[index])] for index in chosen
        )
        return Samples(pad_sequences(rows, length, side), labels[chosen])

    return number(train), number(validation)


def _reviews_of_file(path: str, length: int, side: Side) -> tuple[Samples, Samples]:
    try:
        parts = read_labelled(path, dimensions=2)
    except DataError as error:
        raise DataError(
            f"{error}: for Keras' own imdb.npz, put it into ~/.keras/datasets, and leave"
            " settings.data_path out"
        ) from error
    padded = []
    for part, samples in zip(("train", "test"), parts, strict=True):
        rows = samples.inputs
        if not np.issubdtype(rows.dtype, np.integer) or rows.min() < 0 or rows.max() >= 2**31:
            raise DataError(
                f"{path}: expected x_{part} of integers from 0 to {2**31 - 1}; received"
                f" {rows.dtype} from {rows.min()} to {rows.max()}"
            )
        if (empty := np.flatnonzero(~rows.any(axis=1))).size:  # cuDNN takes no empty sequence
            raise DataError(
                f"{path}: expected at least one token in every review of x_{part}; received"
                f" {empty.size:,} without any, the first at index {empty[0]}"
            )
        tokens = pad_sequences([row[row != 0] for row in rows], length, side)
        padded.append(Samples(tokens, samples.targets))
    return padded[0], padded[1]


def _imdb(vocabulary: int, length: int, side: Side) -> tuple[Samples, Samples]:
    """Load IMDb by Keras, which takes seconds; the padded rows are kept in the cache."""

    def make() -> Arrays:
        parts = load_by_keras(
            "imdb",
            lambda keras: keras.datasets.imdb.load_data(num_words=vocabulary),
            "put imdb.npz into ~/.keras/datasets, or set settings.data_path to a file of reviews,"
            " or dataset to python-docs",
        )
        arrays = (
            array
            for rows, labels in parts
            for array in (pad_sequences(rows, length, side), np.asarray(labels, np.int32))
        )
        return dict(zip(_IMDB_ARRAYS, arrays, strict=True))

    key: dict[str, str | int] = {
        "file": DOWNLOADS["imdb"],
        "vocabulary": vocabulary,
        "length": length,
        "side": side,
    }
    arrays = load_or_make("imdb", {**key, "version": 2}, _IMDB_ARRAYS, make)
    train_inputs, train_labels, test_inputs, test_labels = (arrays[name] for name in _IMDB_ARRAYS)
    return Samples(train_inputs, train_labels), Samples(test_inputs, test_labels)
