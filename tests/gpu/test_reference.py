from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu.lab import Lab
from tests.gpu.reference import run_stack
from tests.gpu.sizes import CELLS
from tests.workloads.shared_trainer import expect_package
from workloads.eligibility import Cell
from workloads.models.canonical_weights import CanonicalLayer

DOUBLE = 1e-12


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    steps, batch = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    lengths = st.lists(st.integers(1, steps), min_size=batch, max_size=batch)
    return {
        "cell": draw(st.sampled_from(CELLS)),
        "inputs": draw(st.integers(1, 4)),
        "units": draw(st.integers(1, 5)),
        "layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch": batch,
        "steps": steps,
        "lengths": draw(st.none() | lengths),
    }


@settings(deadline=None)
@given(case=cases(), seed=st.integers(0, 2**31))
def test_the_reference_equals_torch_in_double_precision(
    cpu_lab: Lab, case: dict[str, Any], seed: int
) -> None:
    expect_package("torch")
    request = cpu_lab.request("probes:against_torch", "torch/fused", case, seed=seed)
    answer = cpu_lab.ask(request)
    assert answer.why == ""
    roles = ("outputs", "last", "by_inputs", "by_kernel", "by_recurrent_kernel", "by_bias")
    assert {role: answer.metrics[role] for role in roles if answer.metrics[role] > DOUBLE} == {}


@pytest.mark.parametrize("cell", CELLS)
def test_its_gradients_equal_finite_differences(cell: Cell) -> None:
    draw = np.random.default_rng(4)
    width = {"lstm": 8, "gru": 6}.get(cell, 2)
    bias = draw.normal(size=(2, width) if cell == "gru" else width)
    layer = CanonicalLayer(draw.normal(size=(3, width)), draw.normal(size=(2, width)), bias)
    inputs, towards = draw.normal(size=(2, 4, 3)), draw.normal(size=(2, 4, 2))

    def product(weights: CanonicalLayer, values: Any) -> float:
        answer = run_stack(cell, [weights], values, towards, [4, 2])
        return float((answer.outputs * towards).sum())

    answer = run_stack(cell, [layer], inputs, towards, [4, 2])
    (by_layer,) = answer.by_stack
    pairs = [
        (inputs, answer.by_inputs),
        (layer.kernel, by_layer.kernel),
        (layer.recurrent_kernel, by_layer.recurrent_kernel),
        (layer.bias, by_layer.bias),
    ]
    for values, gradient in pairs:
        assert values is not None and gradient is not None
        for place in np.ndindex(values.shape):
            original, sides = values[place], []
            for step in (1e-5, -1e-5):
                values[place] = original + step
                sides.append(product(layer, inputs))
            values[place] = original
            assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)
