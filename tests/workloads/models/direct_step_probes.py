"""A workload that compares a direct train step with Keras' own, in a PyTorch trainer."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.context import Context
from workloads.frameworks import load_framework
from workloads.registry import find_workload


def compare_steps(trial: Context) -> dict[str, float]:
    """Train two epochs with both steps from one start; return the differences of logs and weights.

    The setting `workload` names the workload whose model and data are used.
    """
    from workloads.models.direct_torch_step import DirectModel, _Step
    from workloads.models.model import WitnessedModel
    from workloads.models.run import StartState

    framework = load_framework(trial.implementation.backend)
    framework.configure(trial.implementation, trial.device)
    framework.seed(trial.seed)
    model, data, batch_size = _load_and_build(trial)
    assert isinstance(model, DirectModel)
    train, held_out = data.train, data.validation
    model.train_on_batch(
        train.inputs[:batch_size], train.targets[:batch_size]
    )  # the model chooses its step
    direct_step, start, runs = model.witness.direct_step, StartState(model), []
    for step in (direct_step, lambda batch: WitnessedModel.train_step(model, batch)):
        model.witness.direct_step = step
        start.restore()
        history = model.fit(
            train.inputs,
            train.targets,
            batch_size=batch_size,
            epochs=2,
            validation_data=(held_out.inputs, held_out.targets),
            validation_batch_size=batch_size,
            shuffle=False,
            verbose=0,
            callbacks=model.callbacks(),
        ).history
        weights = np.concatenate([np.ravel(array) for array in model.get_weights()])
        runs.append((np.array([history[name] for name in sorted(history)]), weights))
    (logs, weights), (expected_logs, expected_weights) = runs
    return {
        "direct": float(isinstance(direct_step, _Step)),
        "names": len(logs),
        "logs": float(np.abs(logs - expected_logs).max()),
        "weights": float(np.abs(weights - expected_weights).max()),
        "moved": float(np.abs(logs[:, 1] - logs[:, 0]).max()),
    }


def _load_and_build(trial: Context) -> tuple[Any, Any, int]:
    """Return the model, the data and the batch size of the requested workload."""
    from workloads.tasks import char_rnn, image_rows, sentiment

    own = {name: value for name, value in trial.settings.items() if name != "workload"}
    workload = find_workload(str(trial.settings["workload"]))
    assert workload.settings_model is not None
    settings: Any = workload.settings_model(**own)
    match workload.name:
        case "image_rows":
            images = image_rows.load(settings)
            return image_rows.build(settings, trial, images), images, settings.batch_size
        case "char_rnn":
            text = char_rnn.load(settings)
            model = char_rnn.build(settings, trial, text)
            return model, text, settings.batch_size
        case _:
            text = sentiment.load(settings)
            return sentiment.build(settings, trial, text), text, settings.batch_size
