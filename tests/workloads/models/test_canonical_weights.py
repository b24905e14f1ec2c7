from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workloads.backends.stack_call import GATES, StackShape
from workloads.models.canonical_weights import (
    CanonicalLayer,
    TorchLayer,
    from_buffer,
    from_torch,
    to_buffer,
    to_torch,
)

sizes = st.integers(1, 5)
shapes = st.builds(
    StackShape, st.sampled_from(sorted(GATES)), sizes, sizes, st.integers(1, 3), st.booleans()
)


def stack_of(shape: StackShape) -> list[CanonicalLayer]:
    count = iter(range(10_000))

    def numbers(*size: int) -> Any:
        return np.array([next(count) for _ in range(int(np.prod(size)))], "float32").reshape(size)

    width = GATES[shape.cell] * shape.units
    bias = (2, width) if shape.cell == "gru" else (width,)
    return [
        CanonicalLayer(numbers(columns, rows), numbers(shape.units, rows), numbers(*bias))
        for rows, columns in shape.matrices[::2]
    ]


def expect_equal(first: list[CanonicalLayer], second: list[CanonicalLayer]) -> None:
    for a, b in zip(first, second, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y, strict=True)


@given(shapes)
def test_a_stack_goes_to_torch_and_to_the_buffer_and_back_exactly(shape: StackShape) -> None:
    stack = stack_of(shape)
    expect_equal([from_torch(to_torch(layer)) for layer in stack], stack)
    buffer = to_buffer(stack)
    assert buffer.flags.c_contiguous
    expect_equal(from_buffer(buffer, shape), stack)


@given(shapes)
def test_the_buffer_holds_torchs_matrices_and_then_its_biases(shape: StackShape) -> None:
    layers = [to_torch(layer) for layer in stack_of(shape)]
    assert tuple(m.shape for layer in layers for m in layer[:2]) == shape.matrices
    expected = [m for layer in layers for m in layer[:2]] + [
        b for layer in layers for b in layer[2:]
    ]
    assert shape.sizes == tuple(piece.size for piece in expected)
    buffer = to_buffer(stack_of(shape))
    assert (buffer == np.concatenate([piece.ravel() for piece in expected])).all()


@given(shapes)
def test_only_a_gru_has_recurrent_biases_that_are_trained(shape: StackShape) -> None:
    biases = to_buffer(stack_of(shape))[shape.matrices_size :]
    if shape.trained_biases is None:
        assert shape.cell == "gru"
    else:
        assert shape.trained_biases.shape == biases.shape
        assert not biases[~shape.trained_biases].any()


def test_two_biases_are_added_for_a_cell_with_one() -> None:
    one = np.ones((4, 1))
    layer = from_torch(TorchLayer(one, one, np.arange(4.0), np.ones(4)))
    assert layer.bias is not None
    assert layer.bias.tolist() == [1, 2, 3, 4]
