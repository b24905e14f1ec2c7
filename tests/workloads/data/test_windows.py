from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workloads.data.sequences import cut_windows, split_stream, tokens_needed
from workloads.data.tokens import Tokens
from workloads.failures import DataError


def counting(length: int) -> Tokens:
    """Return a stream whose tokens are their own positions."""
    return np.arange(length, dtype=np.int32)


@given(
    st.integers(0, 300),
    st.integers(1, 12),
    st.integers(1, 40) | st.none(),
    st.booleans(),
    st.floats(0.05, 0.5),
)
def test_windows_never_span_both_parts(
    length: int, steps: int, samples: int | None, each_step: bool, share: float
) -> None:
    training, validation = split_stream(counting(length), share)
    assume(len(training) - steps >= (samples or 1) and len(validation) > steps)
    parts = cut_windows(
        counting(length),
        sequence_length=steps,
        samples=samples,
        each_step=each_step,
        validation_share=share,
    )
    assert samples is None or len(parts[0]) == samples
    for part, stream in zip(parts, (training, validation), strict=True):
        begins = part.inputs[:, 0]
        assert (part.inputs == begins[:, None] + np.arange(steps)).all()
        after = begins[:, None] + np.arange(1, steps + 1) if each_step else begins + steps
        assert (part.targets == after).all()
        assert part.inputs.min() >= stream[0]
        assert part.targets.max() <= stream[-1]
        assert part.inputs.dtype == part.targets.dtype == np.int32
        assert len(set(np.diff(begins).tolist())) <= 1


@given(st.integers(40, 300), st.integers(1, 10), st.booleans())
def test_without_a_number_every_token_is_predicted_once(
    length: int, steps: int, each_step: bool
) -> None:
    stream = counting(length)
    train, _ = cut_windows(stream, sequence_length=steps, each_step=each_step, validation_share=0.3)
    predicted = train.targets.ravel().tolist()
    assert len(set(predicted)) == len(predicted)
    with_a_past = len(split_stream(stream, 0.3)[0]) - steps
    assert len(predicted) == with_a_past if not each_step else len(predicted) >= with_a_past


@given(st.integers(1, 500), st.integers(1, 80), st.integers(1, 80), st.floats(0.01, 0.5))
def test_tokens_needed_suffice(
    samples: int, steps: int, validation_samples: int, share: float
) -> None:
    train, validation = cut_windows(
        counting(tokens_needed(samples, steps, validation_samples, share)),
        sequence_length=steps,
        samples=samples,
        validation_samples=validation_samples,
        validation_share=share,
    )
    assert (len(train), len(validation)) == (samples, validation_samples)


def test_the_published_number_of_samples_takes_no_memory() -> None:
    stream = counting(tokens_needed(612_235, 64))
    train, _ = cut_windows(stream, sequence_length=64, samples=612_235)
    assert train.inputs.shape == (612_235, 64)
    assert np.shares_memory(train.inputs, stream)
    taken = train.take(np.array([5, 612_234]))
    assert taken.inputs[:, 0].tolist() == [5, 612_234]
    assert taken.targets.tolist() == [69, 612_298]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"samples": 81},
            r"settings\.samples: expected at most 80, the windows of 10 tokens in the 90 of this"
            r" part; received 81: use fewer, a longer text, or dataset zipf",
        ),
        (
            {"validation_samples": 1},
            r"settings\.validation_samples: expected at most 0, .* in the 10 of this part",
        ),
        ({}, "received a request for at least one"),
    ],
)
def test_more_windows_than_there_are_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        cut_windows(counting(100), sequence_length=10, **asked)
