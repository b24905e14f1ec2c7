"""PyTorch's direct train step computes the same as Keras' own."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from typing import Any

import numpy as np
import pytest

from tests.workloads.probes import plan_training
from tests.workloads.shared_trainer import Trainer, result
from workloads.context import Context

IMAGES = {
    "workload": "image_rows",
    "units": 8,
    "dropout": 0.4,
    "samples": 70,
    "validation_samples": 40,
}  # 70 samples make a partial batch
WINDOWS = {
    "workload": "char_rnn",
    "batches": "windows",
    "units": 8,
    "embedding_units": 8,
    "sequence_length": 10,
    "samples": 100,
    "validation_samples": 40,
}
STREAMS = {
    **WINDOWS,
    "batches": "stateful",
    "batch_size": 8,
    "samples": 40,
    "validation_samples": 16,
}
MASKS = {
    "workload": "sentiment",
    "dataset": "python-docs",
    "units": 4,
    "sequence_length": 12,
    "samples": 40,
    "validation_samples": 20,
}


def compare_steps(trial: Context) -> dict[str, float]:
    """Train two epochs with both steps from one start; return what differs in logs and weights."""
    from workloads.backends.torch.direct_step import DirectStep
    from workloads.models.run import StartState

    run = plan_training(trial)
    model, first = run.model, run.train.first(run.batch_size)
    model.train_on_batch(first.inputs, first.targets)  # the model chooses its step
    direct_step, start, runs = model.witness.direct_step, StartState(model), []
    for step in (direct_step, None):
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
        pytest.param("portable", IMAGES, True, id="portable images"),
        pytest.param("fused", WINDOWS, True, id="fused windows"),
        pytest.param("auto", IMAGES, False, id="the model as it is written"),
        pytest.param("portable", MASKS, False, id="portable masks"),
        pytest.param("fused", STREAMS, True, id="fused streams", marks=pytest.mark.full),
        pytest.param(
            "portable+bf16", WINDOWS, False, id="portable+bf16 windows", marks=pytest.mark.full
        ),
    ],
)
def test_the_direct_step_computes_the_numbers_of_keras_own_step(
    torch_trainer: Trainer, kernel: str, settings: dict[str, Any], is_direct: bool
) -> None:
    probe = f"{__name__}:compare_steps"
    events = torch_trainer.ask(probe, f"torch/{kernel}", settings=settings, seed=3)
    metrics = result(events)
    assert metrics["names"] == 4
    assert metrics["moved"] > 0
    assert metrics["logs"] < 1e-6
    assert metrics["weights"] < 1e-6
    assert metrics["direct"] == is_direct
