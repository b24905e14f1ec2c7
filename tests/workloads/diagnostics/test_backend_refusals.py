"""What Keras cannot train on one backend stops that backend's arms alone, with Keras' reason."""

from typing import Any

import pytest

from tests.workloads.probes import INSPECTION_ADAPTER
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads import protocol
from workloads.model_facts import Inspection, ModelFacts, ModelFault
from workloads.registry import own_model_name

MODULE = "tests.workloads.examples.backend_bugs"
SETTINGS: dict[str, Any] = {"units": 4, "batch_size": 8, "timed_steps": 2}


def inspect(trainer: Trainer, build: str, *implementations: str) -> Inspection:
    asked = {
        "workload": own_model_name(f"{MODULE}:{build}", f"{MODULE}:load_parts"),
        "units": [4],
        "searched": [],
        "implementations": implementations,
        "fixed": {"batch_size": 8},
    }
    probe = "tests.workloads.probes:inspect_model"
    events = trainer.ask(probe, implementations[0], settings=asked)
    result(events)
    return INSPECTION_ADAPTER.validate_json(single_event(events, protocol.Artifact).text)


def test_a_stateful_model_runs_where_keras_can_train_it(torch_trainer: Trainer) -> None:
    arms = ["torch/auto", "torch/portable", "torch/fused"]
    facts = inspect(torch_trainer, "build_stateful", *arms)
    assert isinstance(facts, ModelFacts), facts
    reasons = {fact.implementation: fact.reason for fact in facts.arms if fact.device == "cpu"}
    assert [reasons[arm] is None for arm in arms] == [False, True, True]
    assert "inplace operation" in str(reasons["torch/auto"])
    assert len(facts.carried) == 1
    name = own_model_name(f"{MODULE}:build_stateful", f"{MODULE}:load_parts")
    for arm in arms[1:]:
        assert result(torch_trainer.ask(name, arm, settings=SETTINGS))["step_ms"] > 0


def test_a_model_that_a_backend_never_trains_fails_there_alone(torch_trainer: Trainer) -> None:
    fault = inspect(torch_trainer, "build_many_steps_per_call", "torch/auto", "torch/portable")
    assert isinstance(fault, ModelFault)
    assert fault.kind == "failed"  # "refused" would stop the arms of every backend
    assert "`steps_per_execution` must be 1" in fault.text


@pytest.mark.full
def test_a_stateful_model_runs_as_written_on_other_backends(jax_trainer: Trainer) -> None:
    facts = inspect(jax_trainer, "build_stateful", "jax/auto")
    assert isinstance(facts, ModelFacts), facts
    assert {fact.reason for fact in facts.arms} == {None}
