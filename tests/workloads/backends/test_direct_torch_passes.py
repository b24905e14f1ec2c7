"""PyTorch's passes call the layers of a chain directly, and compute what Keras' call computes."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result
from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.tasks.synthetic.task import TASK

SHAPE = {"features": 5, "sequence_length": 7, "units": 4, "batch_size": 3}


def compare_passes(trial: Context) -> dict[str, float]:
    """Run both passes as they are timed, and by Keras' call; return how much they differ."""
    import keras
    import torch

    from workloads.models.recurrent_parts import mark_recurrent_layers
    from workloads.models.rewriting import rewrite
    from workloads.tasks.synthetic.task import random_inputs

    framework = load_framework("torch")
    framework.configure(trial.implementation, trial.device)
    framework.seed(trial.seed)
    settings = TASK.check_settings(trial.settings)
    author = TASK.build(settings, trial, TASK.load(settings, trial.seed))
    model = rewrite(author, trial.implementation, framework).model
    mark_recurrent_layers(model, framework)
    passes = framework.make_passes(model, trial.implementation)
    batch = passes.place(random_inputs(settings, trial.seed))
    calls_of_keras = 0
    original = keras.Sequential.__call__

    def count(model: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal calls_of_keras
        calls_of_keras += 1
        return original(model, *arguments, **named)

    keras.Sequential.__call__ = count
    try:
        outputs, gradients = passes.forward(batch), passes.forward_backward(batch)
    finally:
        keras.Sequential.__call__ = original
    leaf = batch.detach().requires_grad_()
    with torch.no_grad():
        expected = model(batch, training=False)
    weights = [variable.value for variable in model.trainable_variables]
    mean = model(leaf, training=True).float().mean()
    expected_gradients = torch.autograd.grad(mean, [*weights, leaf])
    pairs = zip((outputs, *gradients), (expected, *expected_gradients), strict=True)
    differences = [float((left - right).abs().max()) for left, right in pairs]
    return {"difference": max(differences), "calls_of_keras": calls_of_keras}


@pytest.mark.parametrize(
    ("kernel", "settings", "calls_of_keras"),
    [
        pytest.param("fused", {"layers": 2, "bidirectional": True}, 0, id="fused stack"),
        pytest.param("portable", {"cell": "gru"}, 0, id="portable layer"),
        pytest.param("fused+bf16", {}, 2, id="a layer that casts"),
    ],
)
def test_passes_call_layers_directly_and_compute_what_keras_computes(
    torch_trainer: Trainer, kernel: str, settings: dict[str, Any], calls_of_keras: int
) -> None:
    probe = f"{__name__}:compare_passes"
    events = torch_trainer.ask(probe, f"torch/{kernel}", settings={**SHAPE, **settings}, seed=3)
    metrics = result(events)
    assert metrics["difference"] == 0
    assert metrics["calls_of_keras"] == calls_of_keras
