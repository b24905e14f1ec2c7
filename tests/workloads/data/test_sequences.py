"""Windows and streams that are cut from a stream whose tokens are their own positions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workloads.data.samples import Tokens
from workloads.data.sequences import cut_streams, cut_windows, split_stream, tokens_needed
from workloads.failures import DataError


def counting(length: int) -> Tokens:
    return np.arange(length, dtype=np.int32)


@given(st.integers(0, 600), st.integers(1, 12), st.integers(1, 40) | st.none(), st.booleans())
def test_windows_never_span_both_parts(
    length: int, steps: int, samples: int | None, each_step: bool
) -> None:
    training, validation = split_stream(counting(length))
    assume(len(training) - steps >= (samples or 1) and len(validation) > steps)
    parts = cut_windows(
        counting(length), sequence_length=steps, samples=samples, each_step=each_step
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
    if samples is None:
        predicted = parts[0].targets.ravel().tolist()
        with_a_past = len(training) - steps
        assert len(set(predicted)) == len(predicted) >= with_a_past - (steps - 1) * each_step


@given(st.integers(1, 500), st.integers(1, 80), st.integers(1, 80))
def test_tokens_needed_suffice(samples: int, steps: int, validation_samples: int) -> None:
    train, validation = cut_windows(
        counting(tokens_needed(samples, steps, validation_samples)),
        sequence_length=steps,
        samples=samples,
        validation_samples=validation_samples,
    )
    assert (len(train), len(validation)) == (samples, validation_samples)


def test_windows_take_no_memory() -> None:
    stream = counting(tokens_needed(612_235, 64))
    train, _ = cut_windows(stream, sequence_length=64, samples=612_235)
    assert train.inputs.shape == (612_235, 64)
    assert np.shares_memory(train.inputs, stream)


@given(st.integers(0, 900), st.integers(1, 6), st.integers(1, 12))
def test_a_row_of_a_stream_continues_that_of_the_previous_batch(
    length: int, batch_size: int, steps: int
) -> None:
    tokens = counting(length)
    parts = split_stream(tokens)
    assume(all(len(part) > batch_size * steps for part in parts))
    cut_parts = cut_streams(tokens, batch_size=batch_size, sequence_length=steps)
    for samples, part in zip(cut_parts, parts, strict=True):
        assert (samples.targets == samples.inputs + 1).all()
        rows = samples.inputs.reshape(-1, batch_size, steps)
        for row in range(batch_size):
            stream = rows[:, row].ravel()
            assert (stream == stream[0] + np.arange(len(stream))).all()
        inputs = samples.inputs.ravel().tolist()
        assert len(set(inputs)) == len(inputs)  # no two streams have the same text
        assert min(inputs) == part[0]
        assert samples.inputs.dtype == np.int32
        assert samples.targets.max() <= part[-1]
        assert len(part) - 1 - len(inputs) < batch_size * steps + batch_size


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"samples": 81}, r"settings\.samples: expected at most 80, .* the 90 of .* received 81"),
        ({"validation_samples": 1}, r"\.validation_samples: expected at most 0, .* in the 10 of"),
        ({}, "received a request for at least one"),
    ],
)
def test_a_text_that_is_too_short_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        cut_windows(counting(100), sequence_length=10, **asked)
    with pytest.raises(DataError, match="the tokens of the validation part less one; received 2 ×"):
        cut_streams(counting(100), batch_size=2, sequence_length=5)
