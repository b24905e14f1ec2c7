"""The gradients of the reference. Its outputs are compared with each backend by `numbers`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu.reference import run_stack
from tests.gpu.sizes import CELLS
from workloads.eligibility import Cell
from workloads.models.canonical_weights import StackShape, from_buffer


@pytest.mark.parametrize("cell", CELLS)
def test_its_gradients_equal_finite_differences(cell: Cell) -> None:
    draw = np.random.default_rng(4)
    shape = StackShape(cell, 3, 2, 2, True)
    stack = from_buffer(draw.normal(size=sum(shape.sizes)), shape)
    inputs, towards = draw.normal(size=(2, 4, 3)), draw.normal(size=(2, 4, 4))

    def compute() -> Any:
        return run_stack(cell, stack, inputs, towards, [4, 2], bidirectional=True)

    answer = compute()
    pairs = [(inputs, answer.by_inputs)]
    for layer, by_layer in zip(stack, answer.by_stack, strict=True):
        for role in ("kernel", "recurrent_kernel", "bias"):
            pairs.append((getattr(layer, role), getattr(by_layer, role)))
    for values, gradient in pairs:
        for place in np.ndindex(values.shape):
            original, sides = values[place], []
            for step in (1e-5, -1e-5):
                values[place] = original + step
                sides.append(float((compute().outputs * towards).sum()))
            values[place] = original
            assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)
