"""Kernels for any Keras model: equal numbers, and reasons for what stays or cannot run."""

import json
from dataclasses import dataclass

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.protocol import Artifact

FLOAT32 = 1e-5
PROBE = "tests.workloads.models.layer_probes:rewriting"


@dataclass(frozen=True)
class Case:
    model: str
    stacks: int
    """Fused layers in the copy for `fused`."""


FUSED = [
    Case("question_1", stacks=1),
    Case("dropout_between", stacks=1),
    Case("both_directions", stacks=2),  # of 5 and of 4 units
    Case("sequence_to_sequence", stacks=2),
    Case("masked", stacks=1),
    Case("nested", stacks=1),
    Case("shared_layer", stacks=1),
    Case("own_layer", stacks=1),
    Case("some_kept", stacks=1),
]


@pytest.mark.parametrize("case", FUSED, ids=lambda case: case.model)
def test_fused_layers_compute_what_their_author_wrote(torch_trainer: Trainer, case: Case) -> None:
    events = torch_trainer.ask(PROBE, "torch/fused", settings={"model": case.model})
    metrics = result(events)
    assert metrics["difference"] < FLOAT32
    assert metrics["penalty"] < FLOAT32
    assert metrics["stacks"] == case.stacks
    assert metrics["is_compiled"]


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("tensorflow", "portable"),
        ("tensorflow", "portable+unroll"),
        pytest.param("jax", "portable", marks=pytest.mark.full),
        pytest.param("jax", "portable+unroll", marks=pytest.mark.full),
        ("torch", "portable"),
    ],
)
@pytest.mark.parametrize("model", ["both_directions", "sequence_to_sequence", "nested", "masked"])
def test_portable_layers_compute_what_their_author_wrote(
    trainer_of: Trainer, backend: str, kernel: str, model: str
) -> None:
    events = trainer_of.ask(PROBE, f"{backend}/{kernel}", settings={"model": model})
    assert result(events)["difference"] < FLOAT32


@pytest.mark.parametrize(
    ("model", "implementation", "reason"),
    [
        ("subclassed", "portable", "Subclassed is a subclass"),
        ("without_recurrence", "fused", "no recurrent layer"),
        ("replaced_step", "fused", "train_step is replaced"),
    ],
)
def test_a_model_that_cannot_be_rewritten_has_a_reason(
    torch_trainer: Trainer, model: str, implementation: str, reason: str
) -> None:
    events = torch_trainer.ask(PROBE, f"torch/{implementation}", settings={"model": model})
    assert reason in json.loads(single_event(events, Artifact).text)["reason"]
