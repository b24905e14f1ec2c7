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


def fingerprint_by(
    trainer: Trainer, implementation: str, workload: str, settings: dict[str, Any]
) -> Fingerprint:
    events = trainer.ask(workload, implementation, settings=settings, seed=3, fingerprint=True)
    assert result(events)["check_s"] > 0
    return single_event(events, Fingerprint)


@pytest.fixture(scope="module")
def of_keras_loop(trainer: Trainer) -> Fingerprint:
    return fingerprint_by(trainer, "tensorflow/portable", FORECAST, STACK)


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
    request: pytest.FixtureRequest, trainer_for: Callable[[str], Trainer], implementation: str
) -> None:
    received = fingerprint_by(trainer_for(implementation), implementation, FORECAST, STACK)
    expected: Fingerprint = request.getfixturevalue("of_keras_loop")  # seconds, unless skipped
    assert len(expected.gradient_norms) == len(expected.gradient_projections) == 8
    difference = fingerprint_difference(received, expected)
    assert difference.outputs_share < 1e-5
    assert difference.gradients is not None
    assert difference.gradients < 1e-4


def test_a_model_that_depends_on_the_backend_is_noticed(
    torch_trainer: Trainer, trainer: Trainer
) -> None:
    by_torch = fingerprint_by(torch_trainer, "torch/auto", PER_BACKEND, OWN)
    by_tensorflow = fingerprint_by(trainer, "tensorflow/auto", PER_BACKEND, OWN)
    assert fingerprint_difference(by_torch, by_tensorflow).outputs_share > 1e-2


def test_only_a_trial_that_is_asked_has_one_and_both_train_alike(trainer: Trainer) -> None:
    losses, counts = list[float](), list[int]()
    for asked in (False, True):
        events = trainer.ask(
            FORECAST, "tensorflow/portable", settings=STACK, seed=3, fingerprint=asked
        )
        metrics = result(events)
        losses.append(metrics["loss"])
        counts.append(sum(isinstance(event, Fingerprint) for event in events))
        assert ("check_s" in metrics) == asked
    assert losses[0] == losses[1]
    assert counts == [0, 1]
