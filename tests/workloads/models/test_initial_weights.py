from __future__ import annotations

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, result
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


def test_a_layers_weights_depend_on_its_path_and_seed_only() -> None:
    layer = draw_layer("recurrent_0", like(4), 3)
    assert {layer.kernel.dtype, layer.recurrent_kernel.dtype} == {np.dtype(np.float32)}
    assert (layer.kernel == draw_layer("recurrent_0", like(4), 3).kernel).all()
    assert (layer.kernel != draw_layer("recurrent_0", like(4), 4).kernel).any()
    assert (layer.kernel != draw_layer("recurrent_1", like(4), 3).kernel).any()


def test_kernels_are_glorot_uniform() -> None:
    value = draw_variable("dense/kernel", (200, 100), 1)
    limit = np.sqrt(6 / 300)
    assert np.abs(value).max() <= limit
    assert value.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)


def test_embeddings_are_uniform() -> None:
    value = draw_variable("embedding/embeddings", (200, 100), 1)
    assert np.abs(value).max() <= 0.05
    assert value.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.02)


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_recurrent_kernels_are_orthogonal(gates: int) -> None:
    value = draw_layer("recurrent_0", like(gates), 1).recurrent_kernel
    assert value @ value.T == pytest.approx(np.eye(16), abs=1e-5)


def test_the_forget_gate_of_an_lstm_starts_open() -> None:
    bias = draw_layer("recurrent_0", like(4, units=2), 1).bias
    assert bias is not None
    assert list(bias) == [0, 0, 1, 1, 0, 0, 0, 0]
    bias = draw_layer("recurrent_0", like(3), 1).bias
    assert bias is not None
    assert bias.shape == (2, 48)
    assert not bias.any()
    assert not draw_variable("dense/bias", (8,), 1).any()


def test_a_layer_without_bias_gets_none() -> None:
    assert draw_layer("recurrent_0", like(4, bias=False), 1).bias is None


def test_a_variable_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'norm/gamma': expected the role kernel.*add a rule"):
        draw_variable("norm/gamma", (8,), 1)


@pytest.mark.parametrize(
    ("cell", "bidirectional", "zeros"),
    [("lstm", False, 1), ("gru", False, 3), ("rnn_tanh", True, 5)],  # Dense has a bias, too
)
def test_every_implementation_starts_from_the_same_weights(
    trainer: Trainer,
    jax_trainer: Trainer,
    torch_trainer: Trainer,
    cell: str,
    bidirectional: bool,
    zeros: int,
) -> None:
    case = {"cell": cell, "layers": 2, "bidirectional": bidirectional}
    digests = []
    for backend, process in (
        ("tensorflow", trainer),
        ("jax", jax_trainer),
        ("torch", torch_trainer),
    ):
        for kernel in ("portable", "fused"):
            metrics = result(
                process.ask(
                    "tests.workloads.models.layer_probes:initial_weights",
                    f"{backend}/{kernel}",
                    settings=case,
                    seed=5,
                )
            )
            assert metrics["arrays"] == 3 * 2 * (1 + bidirectional) + 3
            assert metrics["zeros"] == zeros
            digests.append(metrics["digest"])
    assert len(set(digests)) == 1
