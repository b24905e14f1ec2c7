import numpy as np
import pytest

from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.initial_weights import draw_layer, draw_variable


def like(gates: int, *, units: int = 16, bias: bool = True) -> CanonicalLayer:
    width = gates * units
    zeros = np.zeros((2, width) if gates == 3 else (width,)) if bias else None
    return CanonicalLayer(np.zeros((8, width)), np.zeros((units, width)), zeros)


def test_a_value_depends_on_its_path_and_seed_only() -> None:
    value = draw_variable("dense/kernel", (8, 16), 3)
    assert value.dtype == np.float32
    assert (value == draw_variable("dense/kernel", (8, 16), 3)).all()
    assert (value != draw_variable("dense/kernel", (8, 16), 4)).any()
    assert (value != draw_variable("classes/kernel", (8, 16), 3)).any()
    layer = draw_layer("recurrent_0", like(4), 3)
    assert (layer.kernel == draw_layer("recurrent_0", like(4), 3).kernel).all()
    assert (layer.kernel != draw_layer("recurrent_1", like(4), 3).kernel).any()


@pytest.mark.parametrize(
    ("role", "limit"), [("kernel", np.sqrt(6 / 300)), ("embeddings", 0.05), ("bias", 0.0)]
)
def test_kernels_and_embeddings_are_uniform(role: str, limit: float) -> None:
    value = draw_variable(f"dense/{role}", (200, 100), 1)
    assert np.abs(value).max() <= limit
    assert value.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_recurrent_kernels_are_orthogonal(gates: int) -> None:
    value = draw_layer("recurrent_0", like(gates), 1).recurrent_kernel
    assert value @ value.T == pytest.approx(np.eye(16), abs=1e-5)
    assert draw_layer("recurrent_0", like(gates, bias=False), 1).bias is None


def test_the_forget_gate_of_an_lstm_starts_open() -> None:
    lstm, gru = (draw_layer("recurrent_0", like(gates, units=2), 1).bias for gates in (4, 3))
    assert lstm is not None and gru is not None
    assert list(lstm) == [0, 0, 1, 1, 0, 0, 0, 0]
    assert gru.shape == (2, 6)
    assert not gru.any()


def test_a_variable_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'norm/gamma': expected the role kernel.*add a rule"):
        draw_variable("norm/gamma", (8,), 1)
