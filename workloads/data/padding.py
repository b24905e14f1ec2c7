"""Sequences of unequal length: concatenated in one array, or padded to one length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.tokens import Tokens

Side: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class RaggedSequences:
    """Concatenated sequences of tokens from 1; `lengths` has one entry from 1 per sequence."""

    tokens: Tokens
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)


def pad_sequences(sequences: RaggedSequences, length: int, side: Side) -> Tokens:
    """Return the sequences as rows of one length, with zeros on the `side` of shorter ones.

    Of a longer sequence the last `length` tokens remain, as with Keras' `pad_sequences`.

    Returns:
        Shape (sequences, length).
    """
    ends = np.repeat(np.cumsum(sequences.lengths), sequences.lengths)
    last_tokens = sequences.tokens[ends - np.arange(len(sequences.tokens)) <= length]
    lengths, columns = np.minimum(sequences.lengths, length)[:, None], np.arange(length)
    rows = np.zeros((len(sequences), length), np.int32)
    rows[columns < lengths if side == "right" else columns >= length - lengths] = last_tokens
    return rows


def strip_padding(rows: NDArray[np.integer]) -> RaggedSequences:
    """Return the sequences of padded rows: all values except zeros, with padding on any side."""
    filled = rows != 0
    return RaggedSequences(rows[filled].astype(np.int32), filled.sum(axis=1))
