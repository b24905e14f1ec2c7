"""What a trial times is what a user gets: Keras' own step, on every arm of a backend alike."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result
from workloads.registry import own_model_name

PROBES = "tests.workloads.models.fit_probes"
OWN_MODELS = "tests.workloads.examples.own_models"
MASKED = own_model_name(f"{OWN_MODELS}:build_masked", f"{OWN_MODELS}:load_masked")
SIZES: dict[str, dict[str, Any]] = {
    "image_rows": {"units": 8, "layers": 2, "dropout": 0.0, "samples": 70},
    "next_token": {"units": 8, "samples": 70, "vocabulary": 40, "sequence_length": 12},
    MASKED: {"units": 4, "batch_size": 8, "epochs": 1},
}


@pytest.mark.parametrize(
    ("implementation", "workload"),
    [
        pytest.param("torch/fused", "image_rows", id="torch/fused"),
        pytest.param("torch/fused", MASKED, id="torch/fused masked"),
        pytest.param("tensorflow/portable", "next_token", id="tensorflow/portable tokens"),
        pytest.param("jax/portable", "image_rows", id="jax/portable"),
        *(
            pytest.param(name, "image_rows", id=name, marks=pytest.mark.full)
            for name in (
                "torch/auto",
                "torch/portable",
                "torch/fused+bf16",
                "tensorflow/auto",
                "tensorflow/portable+xla",
            )
        ),
    ],
)
def test_a_trial_runs_what_fit_runs_on_a_converted_model(
    trainer_for: Callable[[str], Trainer], implementation: str, workload: str
) -> None:
    trainer = trainer_for(implementation)
    probe = f"{PROBES}:compared_with_converted_model"
    settings = {"workload": workload, "settings": SIZES[workload]}
    metrics = result(trainer.ask(probe, implementation, settings=settings, seed=3))
    assert metrics["calls"] > 100
    assert metrics["fewer"] == 0
    assert metrics["more"] <= 1, "a trial looks once whether the model is stateful"
    assert metrics["loss"] == metrics["loss_of_user"]


@pytest.mark.parametrize(
    "kernel", ["fused", "portable", pytest.param("fused+bf16", marks=pytest.mark.full)]
)
def test_passes_of_each_kernel_call_the_model_as_a_user_does(
    torch_trainer: Trainer, kernel: str
) -> None:
    shape = {"features": 5, "sequence_length": 7, "units": 4, "batch_size": 3}
    events = torch_trainer.ask(f"{PROBES}:calls_in_passes", f"torch/{kernel}", settings=shape)
    metrics = result(events)
    assert metrics["calls"] == 2
    assert metrics["difference"] == 0
