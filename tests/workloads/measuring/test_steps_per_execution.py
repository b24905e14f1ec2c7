"""Trials of a model that runs several steps in one call: `compile(steps_per_execution=3)`."""

import pytest

from tests.workloads.measuring.test_sliced_training import run_in_slices
from tests.workloads.shared_trainer import Trainer, result
from workloads.protocol import SliceDone
from workloads.registry import own_model_name

full = pytest.mark.full
BACKENDS = [pytest.param("jax", marks=full), pytest.param("tensorflow", marks=full)]  # PyTorch: one
EXAMPLES = "tests.workloads.examples"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("load", ["own_models:load", "own_models:load_parts"])
def test_a_whole_training_has_its_times(trainer_of: Trainer, backend: str, load: str) -> None:
    name = own_model_name(
        f"{EXAMPLES}.backend_bugs:build_many_steps_per_call", f"{EXAMPLES}.{load}"
    )
    settings = {"units": 4, "batch_size": 8, "timed_steps": 4, "epochs": 2}
    metrics = result(trainer_of.ask(name, f"{backend}/auto", settings=settings))
    samples = 36 if load.endswith("load") else 24  # five steps, the last one smaller, or three
    assert metrics["train_samples"] == 2 * samples
    assert metrics["step_ms"] <= 1_000 * metrics["train_s"] / (samples // 8)
    assert {"val_loss", "step_ms_median", "predict_sample_ms", "predict_s"} <= metrics.keys()


@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_count_steps_and_not_calls(trainer_of: Trainer, backend: str) -> None:
    name = own_model_name(
        f"{EXAMPLES}.backend_bugs:build_many_steps_per_call", f"{EXAMPLES}.own_models:load_parts"
    )
    # a pass of twelve steps, four calls
    events = run_in_slices(trainer_of, name, f"{backend}/auto", 1e-4, units=4, batch_size=2)
    slices = [event.steps for event in events if isinstance(event, SliceDone)]
    assert slices == [3, 3, 3]
    assert result(events)["step_ms"] > 0
