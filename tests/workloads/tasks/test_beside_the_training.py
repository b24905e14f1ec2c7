"""What is measured beside the training is absent, with a reason, where it cannot be had."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.context import NOT_MEASURED
from workloads.protocol import Artifact, Event, Fingerprint, KernelProof
from workloads.registry import own_model_name

EXAMPLES = "tests.workloads.examples"
SETTINGS = {"units": 4, "batch_size": 8, "timed_steps": 2}


def train(
    trainer: Trainer, implementation: str, build: str, load: str = "subclassed:load", **asked: Any
) -> list[Event]:
    name = own_model_name(f"{EXAMPLES}.{build}", f"{EXAMPLES}.{load}")
    return trainer.ask(name, implementation, settings=SETTINGS, **asked)


def reasons(events: list[Event]) -> dict[str, str]:
    """Return why something was not measured, by its name."""
    texts = [event for event in events if isinstance(event, Artifact)]
    (text,) = {event.text for event in texts if event.name == NOT_MEASURED}
    return {line.partition(": ")[0]: line.partition(": ")[2] for line in text.splitlines()}


@pytest.mark.parametrize(
    "backend",
    ["torch", *(pytest.param(name, marks=pytest.mark.full) for name in ("jax", "tensorflow"))],
)
def test_the_operations_of_a_model_with_its_own_call_are_not_counted(
    trainer_for: Callable[[str], Trainer], backend: str
) -> None:
    implementation = f"{backend}/auto"
    events = train(trainer_for(implementation), implementation, "subclassed:build")
    metrics = result(events)
    assert {"val_mae", "step_ms", "predict_sample_ms", "step_ms_median"} <= metrics.keys()
    assert not {"model_flops_per_step", "model_flops_per_s"} & metrics.keys()
    assert "layer dense" in reasons(events)["model_flops_per_step"]


@pytest.mark.parametrize(
    "backend",
    ["torch", *(pytest.param(name, marks=pytest.mark.full) for name in ("jax", "tensorflow"))],
)
def test_a_model_that_cannot_predict_one_sample_is_trained(
    trainer_for: Callable[[str], Trainer], backend: str
) -> None:
    implementation = f"{backend}/auto"
    events = train(trainer_for(implementation), implementation, "subclassed:build_never_alone")
    metrics = result(events)
    assert {"val_loss", "step_ms", "evaluate_s", "step_ms_median"} <= metrics.keys()
    assert "predict_sample_ms" not in metrics
    assert "no neighbour" in reasons(events)["predict_sample_ms"]


def test_sparse_gradients_are_in_the_fingerprint(torch_trainer: Trainer) -> None:
    build, load = "unusual_modules:build_sparse", "unusual_modules:load_tokens"
    events = train(torch_trainer, "torch/auto", build, load, fingerprint=True)
    assert result(events)["step_ms"] > 0
    assert all(norm > 0 for norm in single_event(events, Fingerprint).gradient_norms)
    assert single_event(events, KernelProof).ran in ("onednn", "native")
