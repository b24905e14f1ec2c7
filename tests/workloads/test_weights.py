from __future__ import annotations

import numpy as np
import pytest

from workloads.weights import initial_value


def test_a_value_depends_on_its_path_and_seed_only() -> None:
    path = "recurrent_0/lstm_cell/kernel"
    value = initial_value(path, (8, 16), 3)
    assert value.dtype == np.float32
    assert (value == initial_value(path, (8, 16), 3)).all()
    assert (value != initial_value(path, (8, 16), 4)).any()
    assert (value != initial_value("recurrent_1/lstm_cell/kernel", (8, 16), 3)).any()


def test_kernels_are_glorot_uniform() -> None:
    value = initial_value("dense/kernel", (200, 100), 1)
    limit = np.sqrt(6 / 300)
    assert np.abs(value).max() <= limit
    assert value.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_recurrent_kernels_are_orthogonal(gates: int) -> None:
    value = initial_value("recurrent_0/gru_cell/recurrent_kernel", (16, 16 * gates), 1)
    assert value @ value.T == pytest.approx(np.eye(16), abs=1e-5)


def test_the_forget_gate_of_an_lstm_starts_open() -> None:
    assert list(initial_value("r/lstm_cell/bias", (8,), 1)) == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not initial_value("r/gru_cell/bias", (2, 6), 1).any()
    assert not initial_value("dense/bias", (8,), 1).any()


def test_a_variable_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'norm/gamma': expected the role kernel.*add a rule"):
        initial_value("norm/gamma", (8,), 1)
