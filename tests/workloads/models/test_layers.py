"""Layers of every kernel: equal numbers, states and dropout."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.shared_trainer import Trainer, result
from workloads.backends.stack_call import GATES
from workloads.protocol import Event

pytestmark = pytest.mark.full
PROBES = "tests.workloads.models.layer_probes"
FLOAT32 = 5e-5  # of the largest value: rounding, summed over steps, layers and directions


def ask(
    trainer: Trainer, probe: str, implementation: str, seed: int = 3, **case: Any
) -> list[Event]:
    return trainer.ask(f"{PROBES}:{probe}", implementation, settings=case, seed=seed)


def expect_agreement(metrics: dict[str, float]) -> None:
    roles = ("outputs", "last", *(name for name in metrics if name.startswith("by_")))
    assert {role: metrics[role] for role in roles if metrics[role] > FLOAT32} == {}
    assert len(roles) == 6
    assert metrics["padding"] < FLOAT32


@st.composite
def stacks(draw: st.DrawFn) -> dict[str, Any]:
    steps, batch = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    lengths = st.lists(st.integers(1, steps), min_size=batch, max_size=batch)
    return {
        "cell": draw(st.sampled_from(sorted(GATES))),
        "inputs": draw(st.integers(1, 4)),
        "units": draw(st.integers(1, 5)),
        "layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch": batch,
        "steps": steps,
        "lengths": draw(st.none() | lengths),
    }


@settings(max_examples=10, deadline=None)
@given(case=stacks(), seed=st.integers(0, 2**31))
def test_torchs_fused_stack_agrees_with_the_reference(
    torch_trainer: Trainer, case: dict[str, Any], seed: int
) -> None:
    expect_agreement(result(ask(torch_trainer, "numbers", "torch/fused", seed, **case)))


@pytest.mark.parametrize("case", [{}, {"layers": 2}, {"layers": 2, "bidirectional": True}])
def test_jaxs_fused_stack_agrees_with_masks(jax_trainer: Trainer, case: dict[str, Any]) -> None:
    """JAX runs its reference in place of cuDNN."""
    sizes: dict[str, Any] = {"batch": 3, "steps": 4, "lengths": [4, 2, 1]}
    expect_agreement(result(ask(jax_trainer, "numbers", "jax/fused", **sizes, **case)))


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [("torch", "fused"), ("torch", "portable"), ("jax", "fused"), ("tensorflow", "portable")],
)
def test_a_stateful_stack_continues_from_its_last_state(
    trainer_of: Trainer, backend: str, kernel: str
) -> None:
    metrics = result(ask(trainer_of, "statefulness", f"{backend}/{kernel}", layers=2))
    assert metrics["parts"] < FLOAT32
    assert metrics["again"] == 0  # reset
    assert metrics["kept"] > 0.01  # not reset


def test_dropout_between_the_layers_is_drawn_in_training_only(torch_trainer: Trainer) -> None:
    metrics = result(ask(torch_trainer, "dropout", "torch/fused", layers=2, dropout=0.5))
    assert metrics["inference"] == 0
    assert min(metrics["training"], metrics["between"]) > 0.01
    alone = result(ask(torch_trainer, "dropout", "torch/fused", layers=1, dropout=0.5))
    assert alone["between"] == 0  # there is none after the last layer


def test_mixed_precision_keeps_variables_and_states_in_float32(torch_trainer: Trainer) -> None:
    metrics = result(ask(torch_trainer, "mixed", "torch/fused+bf16", layers=2))
    assert 1e-6 < metrics["first"] < 0.02
    assert 1e-6 < metrics["second"] < 0.02


def test_tensorflows_fused_stack_reads_states_from_cudnns_memory(trainer: Trainer) -> None:
    metrics = result(ask(trainer, "tensorflow_on_cudnn", "tensorflow/fused"))
    assert metrics["worst"] < FLOAT32
    assert metrics["batches"] == len(GATES) * 2 * 2 * 3 * 2
