"""The fingerprint of a trial: equal for all implementations of one model, from equal weights."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.analysis.arms.mathematics import fingerprint_difference
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.protocol import Fingerprint

STACK = {
    "cell": "lstm",
    "units": 6,
    "layers": 2,
    "samples": 64,
    "window": 9,
    "epochs": 1,
    "batch_size": 16,
}
FORECAST = "tests.workloads.examples.forecast:TASK"
PER_BACKEND = "tests.workloads.models.backend_models:build with random data"
OWN = {"epochs": 1, "batch_size": 8, "timed_steps": 2}


@pytest.fixture
def fingerprint_of(
    trainer_for: Callable[[str], Trainer],
) -> Callable[[str, str, dict[str, Any]], Fingerprint]:
    def ask(workload: str, implementation: str, settings: dict[str, Any]) -> Fingerprint:
        events = trainer_for(implementation).ask(
            workload, implementation, settings=settings, seed=3, fingerprint=True
        )
        assert result(events)["check_s"] > 0
        return single_event(events, Fingerprint)

    return ask


@pytest.mark.parametrize(
    "implementation",
    [
        "tensorflow/auto",
        pytest.param("tensorflow/portable+xla", marks=pytest.mark.full),
        pytest.param("tensorflow/portable+eager", marks=pytest.mark.full),
        pytest.param("jax/portable+unroll", marks=pytest.mark.full),
        "jax/portable",
        "torch/portable",
        "torch/fused",
    ],
)
def test_every_implementation_computes_the_same(
    fingerprint_of: Callable[..., Fingerprint], implementation: str
) -> None:
    expected = fingerprint_of(FORECAST, "tensorflow/portable", STACK)
    assert len(expected.gradient_norms) == len(expected.gradient_projections) == 8
    difference = fingerprint_difference(fingerprint_of(FORECAST, implementation, STACK), expected)
    assert difference.outputs_share < 1e-5
    assert difference.gradients is not None
    assert difference.gradients < 1e-4


def test_a_model_that_depends_on_the_backend_is_noticed(
    fingerprint_of: Callable[..., Fingerprint],
) -> None:
    expected = fingerprint_of(PER_BACKEND, "tensorflow/auto", OWN)
    difference = fingerprint_difference(fingerprint_of(PER_BACKEND, "torch/auto", OWN), expected)
    assert difference.outputs_share > 1e-2


def test_a_trial_that_is_not_asked_has_none(trainer: Trainer) -> None:
    events = trainer.ask(FORECAST, "tensorflow/portable", settings=STACK, seed=3)
    assert "check_s" not in result(events)
    assert not [event for event in events if isinstance(event, Fingerprint)]


def test_the_check_leaves_what_training_computes(trainer: Trainer) -> None:
    losses = [
        result(
            trainer.ask(
                FORECAST, "tensorflow/portable", settings=STACK, seed=3, fingerprint=fingerprint
            )
        )["loss"]
        for fingerprint in (False, True)
    ]
    assert losses[0] == losses[1]
