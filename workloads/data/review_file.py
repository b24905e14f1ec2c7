"""Reviews in an .npz file of plain arrays.

For each of the parts `train` and `test` the file has integer arrays, with tokens numbered as in
`workloads.data.reviews`:

* `y_train`: one class from 0 per review;
* either `x_train`, of shape (reviews, steps), with zeros as padding on any side;
* or `x_train_tokens`, all reviews concatenated, and `x_train_lengths`, one length per review.

Pickled arrays are never read. The lists in Keras' own imdb.npz are pickled: use Keras' loader for
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.archive import UNREADABLE, open_archive
from workloads.data.padding import RaggedSequences, strip_padding
from workloads.failures import DataError


@dataclass(frozen=True, slots=True)
class LabelledReviews:
    """Reviews with their classes, counted from 0."""

    reviews: RaggedSequences
    labels: NDArray[np.int32]


def read_reviews(path: str) -> tuple[LabelledReviews, LabelledReviews]:
    """Read the training and the test part of a file of reviews.

    Raises:
        DataError: not such a file; the message names the unexpected array.
    """
    arrays = _arrays(path)
    return _part(arrays, "train", path), _part(arrays, "test", path)


def _arrays(path: str) -> dict[str, NDArray[Any]]:
    try:
        with open_archive(path) as file:
            return {name: file[name] for name in file}
    except UNREADABLE as error:
        hint = (
            ": put Keras' own imdb.npz into ~/.keras/datasets, and leave settings.data_path out"
            if "allow_pickle" in str(error)
            else ""
        )
        raise DataError(f"{path}: expected an .npz file of plain arrays; {error}{hint}") from error


def _part(arrays: Mapping[str, NDArray[Any]], part: str, path: str) -> LabelledReviews:
    rows, labels = f"x_{part}", f"y_{part}"
    tokens, lengths = f"{rows}_tokens", f"{rows}_lengths"
    if labels not in arrays or (rows not in arrays and not {tokens, lengths} <= set(arrays)):
        raise DataError(
            f"{path}: expected arrays {labels} and either {rows}, or {tokens} and {lengths};"
            f" received {', '.join(arrays) or 'none'}"
        )
    if rows in arrays:
        reviews = strip_padding(_integers(arrays, rows, 2, path, least=0))
    else:
        flat = _integers(arrays, tokens, 1, path, least=1)
        reviews = RaggedSequences(
            flat.astype(np.int32), _integers(arrays, lengths, 1, path, least=0)
        )
    classes = _integers(arrays, labels, 1, path, least=0)
    _expect_whole(reviews, classes, part, path)
    return LabelledReviews(reviews, classes.astype(np.int32))


def _integers(
    arrays: Mapping[str, NDArray[Any]], name: str, dimensions: int, path: str, *, least: int
) -> NDArray[np.int64]:
    array = arrays[name]
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != dimensions or not array.size:
        raise DataError(
            f"{path}: expected {name} of integers in {dimensions} dimension(s), not empty; received"
            f" {array.dtype} of shape {array.shape}"
        )
    low, high = int(array.min()), int(array.max())
    if low < least or high >= 2**31:
        raise DataError(
            f"{path}: expected {name} from {least} to {2**31 - 1}; received {low} to {high}"
        )
    return array.astype(np.int64)


def _expect_whole(
    reviews: RaggedSequences, labels: NDArray[np.int64], part: str, path: str
) -> None:
    if len(reviews) != len(labels):
        raise DataError(
            f"{path}: expected as many reviews in x_{part} as classes in y_{part}; received"
            f" {len(reviews):,} and {len(labels):,}"
        )
    if (empty := np.flatnonzero(reviews.lengths == 0)).size:  # cuDNN takes no empty sequence
        raise DataError(
            f"{path}: expected at least one token in every review of x_{part}; received"
            f" {empty.size:,} without any, the first at index {empty[0]}"
        )
    if int(reviews.lengths.sum()) != len(reviews.tokens):
        raise DataError(
            f"{path}: expected x_{part}_lengths to add up to the {len(reviews.tokens):,} tokens of"
            f" x_{part}_tokens; received {int(reviews.lengths.sum()):,}"
        )
