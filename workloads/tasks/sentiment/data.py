"""The reviews of `sentiment`, as tokens that are padded to one length.

The tokens have Keras' numbers for IMDb: 0 is padding, 1 begins a review, 2 is every word outside
the vocabulary, and words follow by frequency from 3.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.data.cache import Arrays, load_or_make
from workloads.data.corpora import rank_words, split_words, text_source
from workloads.data.labelled import (
    LabelledData,
    Parts,
    count_classes,
    read_labelled,
    stratified_split,
)
from workloads.data.samples import Samples, Tokens, load_by_keras
from workloads.data.sources import DOWNLOADS, data_digest, python_docs
from workloads.failures import DataError
from workloads.tasks.sentiment.settings import SentimentSettings

START, OUT_OF_VOCABULARY, FIRST_WORD = 1, 2, 3

_ORDER_SEED = 20_180_117  # the order belongs to the data set: it never depends on a trial's seed
_IMDB_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_SENTENCE_END = re.compile(r"(?<=[.:!?])\s+(?=[A-Z*\"(])")
_MIN_WORDS = 6
"""Minimum number of words in a sentence: shorter ones are headings, or pieces of code."""


def load_sentiment(settings: SentimentSettings) -> LabelledData:
    """Load, number, pad and shuffle the reviews of these settings, always in the same order.

    Inputs are tokens below the vocabulary's size, of shape (reviews, sequence_length); of a longer
    review the end remains. A file is an .npz with x_train, y_train, x_test, y_test: rows of
    numbered tokens, padded with zeros. Raise `DataError` if the data is missing, cannot be
    downloaded, has another layout, or other classes than bad (0) and good (1).
    """
    digest, path = data_digest(settings.dataset, settings.data_path), settings.data_path
    if settings.dataset == "python-docs":
        source, parts = text_source(settings.dataset), _python_docs(settings)
    elif path is not None:
        source, parts = path, _reviews_of_file(path, settings)
    else:
        source, parts = "keras.datasets.imdb", _imdb(settings)
    classes = count_classes(parts)
    if classes != 2:
        raise DataError(
            f"{source}: expected the labels 0 and 1 in y_train and y_test; received labels up to"
            f" {classes - 1}"
        )
    train, validation = (_shuffled(part, settings.vocabulary) for part in parts)
    return LabelledData(
        settings.dataset,
        digest,
        source,
        train.first(settings.samples),
        validation.first(settings.validation_samples),
        classes,
    )


def _labelled_sentences() -> tuple[list[list[str]], NDArray[np.int32]]:
    """Return different sentences of Python's documentation as words, and their labels."""
    # The class of a sentence is the half of the topics, in alphabetical order, that it comes from.
    # It can be learnt, since topics have words of their own.
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


def _padded(rows: Iterable[Sequence[int]], settings: SentimentSettings) -> Tokens:
    """Return the ends of rows at one length, with zeros on the padding's side of short ones."""
    length, padded = settings.sequence_length, []
    for row in rows:
        kept = np.asarray(row[-length:], np.int32)
        zeros = length - len(kept)
        padded.append(np.pad(kept, (zeros, 0) if settings.padding == "left" else (0, zeros)))
    return np.stack(padded)


def _shuffled(part: Samples, vocabulary: int) -> Samples:
    rows = np.where(part.inputs >= vocabulary, OUT_OF_VOCABULARY, part.inputs).astype(np.int32)
    order = np.random.default_rng(_ORDER_SEED).permutation(len(rows))
    return Samples(rows, part.targets).take(order)


def _python_docs(settings: SentimentSettings) -> Parts:
    sentences, labels = _labelled_sentences()
    train, validation = stratified_split(labels)
    words = itertools.chain.from_iterable(sentences[index] for index in train)
    ranked = rank_words(words, settings.vocabulary - FIRST_WORD)
    numbers = {word: number for number, word in enumerate(ranked, FIRST_WORD)}

    def number(chosen: NDArray[np.intp]) -> Samples:
        rows = (
            [START, *(numbers.get(word, OUT_OF_VOCABULARY) for word in sentences[index])]
            for index in chosen
        )
        return Samples(_padded(rows, settings), labels[chosen])

    return number(train), number(validation)


def _reviews_of_file(path: str, settings: SentimentSettings) -> Parts:
    try:
        parts = read_labelled(path, dimensions=2)
    except DataError as error:
        raise DataError(
            f"{error}. For Keras' own imdb.npz, put it into ~/.keras/datasets, and remove"
            " settings.data_path"
        ) from error
    padded = []
    for part, samples in zip(("train", "test"), parts, strict=True):
        rows = samples.inputs
        if not np.issubdtype(rows.dtype, np.integer) or rows.min() < 0 or rows.max() >= 2**31:
            raise DataError(
                f"{path}: x_{part} needs integers from 0 to {2**31 - 1}; it has {rows.dtype} from"
                f" {rows.min()} to {rows.max()}"
            )
        if (empty := np.flatnonzero(~rows.any(axis=1))).size:  # cuDNN takes no empty sequence
            raise DataError(
                f"{path}: every review of x_{part} needs at least one token; {empty.size:,} have"
                f" none, the first at index {empty[0]}"
            )
        tokens = _padded((row[row != 0] for row in rows), settings)
        padded.append(Samples(tokens, samples.targets))
    return padded[0], padded[1]


def _imdb(settings: SentimentSettings) -> Parts:
    """Load IMDb by Keras, which takes seconds; the padded rows are kept in the cache."""

    def make() -> Arrays:
        parts = load_by_keras(
            "imdb",
            lambda keras: keras.datasets.imdb.load_data(num_words=settings.vocabulary),
            "put imdb.npz into ~/.keras/datasets, or set settings.data_path to a file of reviews,"
            " or dataset to python-docs",
        )
        arrays = (
            array
            for rows, labels in parts
            for array in (_padded(rows, settings), np.asarray(labels, np.int32))
        )
        return dict(zip(_IMDB_ARRAYS, arrays, strict=True))

    key = {
        "file": DOWNLOADS["imdb"],
        "vocabulary": settings.vocabulary,
        "length": settings.sequence_length,
        "side": settings.padding,
        "version": 2,
    }
    arrays = load_or_make("imdb", key, _IMDB_ARRAYS, make)
    train_inputs, train_labels, test_inputs, test_labels = (arrays[name] for name in _IMDB_ARRAYS)
    return Samples(train_inputs, train_labels), Samples(test_inputs, test_labels)
