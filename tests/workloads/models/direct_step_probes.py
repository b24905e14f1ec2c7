"""A workload that compares a direct train step with Keras' own, in a PyTorch trainer."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.context import Context
from workloads.frameworks import load_framework
from workloads.registry import find_workload
from workloads.tasks import training


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
