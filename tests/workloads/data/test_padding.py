from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.data.padding import RaggedSequences, Side, pad_sequences, strip_padding

SEQUENCES = st.lists(
    st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=12), min_size=1, max_size=8
)


def ragged(sequences: list[list[int]]) -> RaggedSequences:
    return RaggedSequences(
        np.array([token for row in sequences for token in row], np.int32),
        np.array([len(row) for row in sequences], np.int64),
    )


@given(SEQUENCES, st.integers(1, 12), st.sampled_from(["left", "right"]))
def test_a_row_has_the_end_of_its_sequence(
    sequences: list[list[int]], length: int, side: Side
) -> None:
    rows = pad_sequences(ragged(sequences), length, side)
    assert rows.dtype == np.int32
    for row, sequence in zip(rows.tolist(), sequences, strict=True):
        values = sequence[-length:]
        zeros = [0] * (length - len(values))
        assert row == (values + zeros if side == "right" else zeros + values)


@given(SEQUENCES, st.sampled_from(["left", "right"]))
def test_padding_can_be_removed(sequences: list[list[int]], side: Side) -> None:
    recovered = strip_padding(pad_sequences(ragged(sequences), 12, side))
    assert recovered.tokens.tolist() == ragged(sequences).tokens.tolist()
    assert recovered.lengths.tolist() == [len(row) for row in sequences]


@pytest.mark.parametrize(("side", "row"), [("right", [3, 4, 0]), ("left", [0, 3, 4])])
def test_zeros_are_on_the_requested_side(side: Side, row: list[int]) -> None:
    assert pad_sequences(ragged([[3, 4]]), 3, side).tolist() == [row]
