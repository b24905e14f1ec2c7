"""PyTorch's direct train step computes the same as Keras' own."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, result
from workloads.context import Context
from workloads.frameworks import load_framework
from workloads.registry import find_workload
from workloads.tasks import training

IMAGES: dict[str, Any] = {
    **{"workload": "image_rows", "units": 8, "dropout": 0.4},
    **{"samples": 70, "validation_samples": 40},  # and so a partial batch
}
TEXT: dict[str, Any] = {
    **{"workload": "char_rnn", "batches": "windows", "units": 8, "embedding_units": 8},
    **{"sequence_length": 10, "samples": 100, "validation_samples": 40},
}
STREAMS = {**TEXT, "batches": "stateful", "batch_size": 8, "samples": 40, "validation_samples": 16}
REVIEWS: dict[str, Any] = {
    **{"workload": "sentiment", "dataset": "python-docs", "units": 4},
    **{"sequence_length": 12, "samples": 40, "validation_samples": 20},
}
full = pytest.mark.full


def compare_steps(trial: Context) -> dict[str, float]:
    """Train two epochs with both steps from one start; return the differences of logs and weights.

    The setting `workload` names the workload whose model and data are used.
    """
    from workloads.models.direct_torch_step import DirectStep
    from workloads.models.model import WitnessedModel
    from workloads.models.run import StartState, TrainingRun

    own = {name: value for name, value in trial.settings.items() if name != "workload"}
    workload = find_workload(str(trial.settings["workload"]))
    assert workload.settings_model is not None
    settings: Any = workload.settings_model(**own)
    framework = load_framework(trial.implementation.backend)
    framework.configure(trial.implementation, trial.device)
    framework.seed(trial.seed)
    data = getattr(training, f"load_{workload.name}")(settings)
    model = training.build(settings, trial, data)
    run = TrainingRun(model, settings, data.train, data.validation)
    first = data.train.first(run.batch_size)
    model.train_on_batch(first.inputs, first.targets)  # the model chooses its step
    direct_step, start, runs = model.witness.direct_step, StartState(model), []
    for step in (direct_step, lambda batch: WitnessedModel.train_step(model, batch)):
        model.witness.direct_step = step
        start.restore()
        validation = run.validation_feed.for_validation()
        history = run.fit(run.train_feed, epochs=2, **validation).history
        weights = np.concatenate([np.ravel(array) for array in model.get_weights()])
        runs.append((np.array([history[name] for name in sorted(history)]), weights))
    (logs, weights), (expected_logs, expected_weights) = runs
    return {
        "direct": float(isinstance(direct_step, DirectStep)),
        "names": len(logs),
        "logs": float(np.abs(logs - expected_logs).max()),
        "weights": float(np.abs(weights - expected_weights).max()),
        "moved": float(np.abs(logs[:, 1] - logs[:, 0]).max()),
    }


@pytest.mark.parametrize(
    ("kernel", "settings", "is_direct"),
    [
        pytest.param("portable", IMAGES, True, id="images"),
        pytest.param("fused", TEXT, True, id="windows"),
        pytest.param("fused", IMAGES, True, id="fused images", marks=full),
        pytest.param("portable", TEXT, True, id="portable windows", marks=full),
        pytest.param("portable", STREAMS, True, id="streams", marks=full),
        pytest.param("fused", STREAMS, True, id="fused streams", marks=full),
        pytest.param("portable", REVIEWS, False, id="masks"),
        pytest.param("portable+bf16", TEXT, False, id="mixed precision", marks=full),
    ],
)
def test_the_direct_step_computes_the_numbers_of_keras_own_step(
    torch_trainer: Trainer, kernel: str, settings: dict[str, Any], is_direct: bool
) -> None:
    probe = f"{__name__}:compare_steps"
    metrics = result(torch_trainer.ask(probe, f"torch/{kernel}", settings=settings, seed=3))
    assert metrics["names"] == 4
    assert metrics["moved"] > 0
    assert metrics["logs"] < 1e-6
    assert metrics["weights"] < 1e-6
    assert metrics["direct"] == is_direct
