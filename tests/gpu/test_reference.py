from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu.lab import Lab
from tests.gpu.sizes import CELLS
from tests.workloads.shared_trainer import expect_package

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
