"""Several inputs and outputs, sample weights and class weights reach Keras on every backend."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.building.tasks import load_and_build
from tests.workloads.examples import two_parts
from tests.workloads.shared_trainer import Trainer, result
from workloads import protocol
from workloads.backends.registry import backends
from workloads.context import Context
from workloads.measuring.measurement import prepare_framework

TASK = "tests.workloads.examples.two_parts:TASK"
KINDS = ("two_parts", "weighted_classes", "no_targets")
EACH_BACKEND = pytest.mark.parametrize("backend", backends())


def compare_with_bare_fit(trial: Context) -> dict[str, float]:
    """Train by a run's feed, and by Keras' `fit` with the author's own arrays."""
    from workloads.models.training_run import StartState

    task = two_parts.TASK
    settings = task.check_settings(trial.settings)
    with prepare_framework(trial):
        data, run = load_and_build(task, settings, trial)
        order = np.random.default_rng([trial.seed, 1]).permutation(len(data.train))
        arrays, weights = data.train.take(order), run.plan.class_weight
        model, start = run.model, StartState(run.model)

        def losses(**arguments: Any) -> Any:
            start.restore()
            history = model.fit(**arguments, epochs=2, shuffle=False, verbose=0).history
            return np.array([history[name] for name in sorted(history)]), sorted(history)

        expected, names = losses(
            x=arrays.inputs,
            y=arrays.targets,
            sample_weight=arrays.weights,
            class_weight=weights,
            batch_size=run.batch_size,
            validation_data=(
                data.validation.inputs,
                data.validation.targets,
                data.validation.weights,
            ),
            validation_batch_size=run.batch_size,
        )
        validation = run.validation_feed.for_validation()
        received, received_names = losses(**run.train_feed.with_targets(), **validation)
        assert received_names == names
    return {
        "difference": float(np.abs(received - expected).max()),
        "names": len(names),
        "moved": float(np.abs(np.ptp(expected, 1)).max()),
    }


@pytest.mark.parametrize("kind", KINDS)
@EACH_BACKEND
def test_training_has_the_numbers_of_bare_fit(trainer_of: Trainer, backend: str, kind: str) -> None:
    probe = f"{__name__}:compare_with_bare_fit"
    events = trainer_of.ask(probe, f"{backend}/portable", settings={"kind": kind}, seed=3)
    metrics = result(events)
    assert metrics["difference"] < 1e-6
    assert metrics["moved"] > 0
    assert metrics["names"] == {"two_parts": 12}.get(kind, 2)


@pytest.mark.parametrize(
    "kind", ["two_parts", *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS[1:])]
)
def test_such_data_are_trained_whole_and_in_slices(trainer: Trainer, kind: str) -> None:
    request = protocol.TrialRequest(TASK, "tensorflow/portable", {"kind": kind}, seed=3)
    whole = result(trainer.ask(TASK, "tensorflow/portable", settings={"kind": kind}, seed=3))
    assert whole["step_ms"] > 0 and whole["predict_sample_ms"] > 0
    timing = dataclasses.replace(request, measure="timing", slice_s=0.02)
    for line in (timing, protocol.Slice(), protocol.Finish()):
        trainer.send(protocol.encode_message(line))
    assert result(trainer.events_of_trial())["slices"] == 1
