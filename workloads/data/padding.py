"""Sequences of unequal length: end to end in one array, or padded to one length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.data.tokens import Tokens

Side: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class RaggedSequences:
    """Sequences of tokens from 1, end to end; `lengths` has one entry of at least 1 for each."""

    tokens: Tokens
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)


def pad_sequences(sequences: RaggedSequences, length: int, side: Side) -> Tokens:
    """The sequences as rows of one length, zeros on the `side` where they are shorter.

    Of a longer sequence its last `length` tokens are kept, as Keras' `pad_sequences` does.
    """
    ends = np.repeat(np.cumsum(sequences.lengths), sequences.lengths)
    kept = sequences.tokens[ends - np.arange(len(sequences.tokens)) <= length]
    lengths, columns = np.minimum(sequences.lengths, length)[:, None], np.arange(length)
    rows = np.zeros((len(sequences), length), np.int32)
    rows[columns < lengths if side == "right" else columns >= length - lengths] = kept
    return rows


def strip_padding(rows: NDArray[np.integer]) -> RaggedSequences:
    """The sequences of padded rows: what is not zero, wherever the padding stands."""
    filled = rows != 0
    return RaggedSequences(rows[filled].astype(np.int32), filled.sum(axis=1))
