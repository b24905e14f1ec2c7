"""Workloads for the tests of what a trial's `fit` runs, compared with a user's own `fit`."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.building.tasks import find_task, load_and_build
from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.implementations import PRECISIONS
from workloads.measuring.measurement import build_with_weights, prepare_framework


def compared_with_converted_model(trial: Context) -> dict[str, float]:
    """Train as the trial does, and by `fit` on the arrays with a model that `convert` returned."""
    import rnnsweep

    task = find_task(str(trial.settings["workload"]))
    settings = task.check_settings(trial.settings["settings"])
    with prepare_framework(trial):
        data, run = load_and_build(task, settings, trial)
        author = build_with_weights(task, settings, trial, data)
        model, arrays = rnnsweep.convert(author, _without_precision(trial)), run.train
        of_trial, history = _calls_of_keras(lambda: run.fit(run.train_feed))
        of_user, expected = _calls_of_keras(
            lambda: model.fit(
                arrays.inputs,
                arrays.targets,
                batch_size=run.batch_size,
                shuffle=False,
                verbose=0,
            )
        )
    return {
        "calls": of_user.total(),
        "more": (of_trial - of_user).total(),
        "fewer": (of_user - of_trial).total(),
        "loss": history.history["loss"][-1],
        "loss_of_user": expected.history["loss"][-1],
    }


def _without_precision(trial: Context) -> str:
    """Return the trial's implementation as `convert` takes it."""
    asked = trial.implementation
    options = tuple(option for option in asked.options if option not in PRECISIONS)
    return str(replace(asked, options=options))


def _calls_of_keras(fit: Callable[[], Any]) -> tuple[Counter[Any], Any]:
    """Fit twice; return which functions of Keras ran how often the second time, and its history."""
    calls = Counter[Any]()

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/keras/src/" in frame.f_code.co_filename:
            calls[frame.f_code] += 1

    fit()
    sys.setprofile(count)
    try:
        history = fit()
    finally:
        sys.setprofile(None)
    return calls, history


def calls_in_passes(trial: Context) -> dict[str, float]:
    """Run both passes of `synthetic`; return how often Keras' call of the model ran in each."""
    import keras

    from workloads.models.rewriting import rewrite
    from workloads.tasks.synthetic.task import TASK, random_inputs

    settings = TASK.check_settings(trial.settings)
    framework, calls = load_framework(trial.implementation.backend), Counter[str]()
    with prepare_framework(trial):
        author = TASK.build(settings, trial, TASK.load(settings, trial.seed))
        model = rewrite(author, trial.implementation, framework).model
        passes = framework.make_passes(model, trial.implementation)
        batch = passes.place(random_inputs(settings, trial.seed))
        original = keras.Sequential.__call__

        def count(*arguments: Any, **named: Any) -> Any:
            calls["of the model"] += 1
            return original(*arguments, **named)

        keras.Sequential.__call__ = count
        try:
            outputs, _ = passes.forward(batch), passes.forward_backward(batch)
        finally:
            keras.Sequential.__call__ = original
        expected = keras.ops.convert_to_numpy(model(batch))
        outputs = keras.ops.convert_to_numpy(outputs)
    return {
        "calls": calls["of the model"],
        "difference": float(np.abs(np.subtract(outputs, expected, dtype=np.float64)).max()),
    }
