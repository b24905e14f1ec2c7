from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.eligibility import Cell
from workloads.models.canonical_weights import GATES
from workloads.models.flops import dense_flops, recurrent_flops, training_flops
from workloads.settings.recurrent import RecurrentSettings


def test_an_lstm_counts_as_deepbench_counts_it() -> None:
    settings = RecurrentSettings(units=512)
    assert recurrent_flops(settings, inputs=512, steps=25) == 25 * 8 * 512 * (512 + 512)


def test_a_bidirectional_layer_doubles_and_widens_the_next_one() -> None:
    settings = RecurrentSettings(cell="gru", units=10, layers=2, bidirectional=True)
    first, second = 2 * 6 * 10 * (3 + 10), 2 * 6 * 10 * (20 + 10)
    assert recurrent_flops(settings, inputs=3, steps=7) == 7 * (first + second)


@given(
    cell=st.sampled_from(sorted(GATES)),
    layers=st.integers(1, 4),
    both=st.booleans(),
    units=st.integers(1, 9),
    inputs=st.integers(1, 9),
)
def test_flops_are_twice_the_weights_of_the_matrices(
    cell: Cell, layers: int, both: bool, units: int, inputs: int
) -> None:
    settings = RecurrentSettings(cell=cell, units=units, layers=layers, bidirectional=both)
    directions = 1 + both
    weights = 0
    for layer in range(layers):
        width = inputs if layer == 0 else directions * units
        weights += directions * GATES[cell] * units * (width + units)
    assert recurrent_flops(settings, inputs=inputs, steps=5) == 5 * 2 * weights


def test_training_costs_three_forward_passes() -> None:
    assert training_flops(dense_flops(20, 10)) == 3 * 400


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_every_cell_is_counted(cell: Cell) -> None:
    assert recurrent_flops(RecurrentSettings(cell=cell, units=2), inputs=1, steps=1) == (
        2 * GATES[cell] * 2 * 3
    )
