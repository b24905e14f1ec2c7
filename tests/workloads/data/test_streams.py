from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workloads.data.sequences import cut_streams, split_stream
from workloads.failures import DataError


@given(st.integers(0, 400), st.integers(1, 6), st.integers(1, 12), st.floats(0.1, 0.5))
def test_a_row_continues_that_of_the_previous_batch(
    length: int, batch_size: int, steps: int, share: float
) -> None:
    tokens = np.arange(length, dtype=np.int32)
    parts = split_stream(tokens, share)
    assume(all(len(part) > batch_size * steps for part in parts))
    cut_parts = cut_streams(
        tokens, batch_size=batch_size, sequence_length=steps, validation_share=share
    )
    for samples, part in zip(cut_parts, parts, strict=True):
        assert (samples.targets == samples.inputs + 1).all()
        rows = samples.inputs.reshape(-1, batch_size, steps)
        for row in range(batch_size):
            stream = rows[:, row].ravel()
            assert (stream == stream[0] + np.arange(len(stream))).all()
        inputs = samples.inputs.ravel().tolist()
        assert len(set(inputs)) == len(inputs)  # no two streams have the same text
        assert min(inputs) == part[0]
        assert samples.targets.max() <= part[-1]
        dropped = len(part) - 1 - len(inputs)
        assert dropped < batch_size * steps + batch_size
        assert samples.inputs.dtype == np.int32


def test_the_rows_of_a_batch_are_adjacent() -> None:
    train, validation = cut_streams(
        np.arange(28, dtype=np.int32), batch_size=2, sequence_length=3, validation_share=0.25
    )
    assert train.inputs.tolist() == [
        *([0, 1, 2], [10, 11, 12]),
        *([3, 4, 5], [13, 14, 15]),
        *([6, 7, 8], [16, 17, 18]),
    ]
    assert train.targets[-1].tolist() == [17, 18, 19]
    assert validation.inputs.tolist() == [[21, 22, 23], [24, 25, 26]]


def test_a_text_too_short_for_a_batch_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"sequence_length: expected at most 9, the tokens of the validation part less one;"
        r" received 2 × 5: make one smaller, or use a longer text",
    ):
        cut_streams(np.arange(100, dtype=np.int32), batch_size=2, sequence_length=5)
