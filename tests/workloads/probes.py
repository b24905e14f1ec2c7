"""Workloads for the tests, which inspect a model in the shared, warm trainer."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import dataclasses
import gc
import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from pydantic import TypeAdapter

from tests.building.tasks import find_task, load_and_build
from workloads.backends.feeding import reorder
from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.implementations import Implementation, parse_implementation
from workloads.measuring.measurement import (
    measure,
    prepare_framework,
)
from workloads.model_facts import Inspection
from workloads.tasks.char_rnn.settings import CharRnnSettings

INSPECTION_ADAPTER: TypeAdapter[Inspection] = TypeAdapter(Inspection)
_PASSED_ON = ("Identity", "IdentityN")  # TensorFlow's optimizer removes them
_VOCABULARY = 16


def configure(trial: Context) -> dict[str, float]:
    """Fix the framework's thread pools, which is only possible before its first operation."""
    with prepare_framework(trial):
        return {}


def autologging_integrations(trial: Context) -> dict[str, float]:
    """Return how many of MLflow's integrations log by themselves in this process."""
    from mlflow.utils.autologging_utils import AUTOLOGGING_INTEGRATIONS

    configs = AUTOLOGGING_INTEGRATIONS.values()
    return {"switched_on": float(sum(not config.get("disable") for config in configs))}


def kept_accuracy(trial: Context) -> dict[str, float]:
    import keras

    data = plan_training(trial).validation
    model = keras.models.load_model(trial.settings["path"])
    predicted = model.predict(data.inputs, verbose=0).argmax(-1)
    return {
        "val_accuracy": float(np.mean(predicted == data.targets.ravel())),
        "foreign": sum(not type(part).__module__.startswith("keras") for part in model.layers),
    }


def warm_ups(trial: Context) -> dict[str, float]:
    """Return the losses of two warm passes, and digests of the state before and after them."""
    from workloads.measuring.training import run_warm_up_pass
    from workloads.models.training_run import StartState

    plan = plan_training(trial)
    start = StartState(plan.model)
    before = digest(start.current_values())
    losses = []
    for _ in range(2):
        losses.append(run_warm_up_pass(plan, trial))
        changed = digest(start.current_values())
        start.restore()
    return {
        "first_loss": losses[0],
        "second_loss": losses[1],
        "before": before,
        "changed": changed,
        "after": digest(start.current_values()),
    }


def bare(trial: Context) -> dict[str, float]:
    """Return the final loss of the same training without warm-up, clock or callback."""
    plan = plan_training(trial)
    history = plan.model.fit(
        plan.train.inputs,
        plan.train.targets,
        batch_size=plan.batch_size,
        epochs=plan.plan.epochs,
        shuffle=False,
        verbose=0,
    )
    return {"loss": history.history["loss"][-1]}


def unwarmed(trial: Context) -> dict[str, float]:
    """Time epochs whose functions were never traced, which must fail."""
    from workloads.measuring.training import train_in_turns

    plan = plan_training(trial)
    plan.model.make_train_function()
    return train_in_turns(plan, trial, step_s=0.01)


def flops_of_layers(_: Context) -> dict[str, float]:
    """Return the operations of a sample in a forward pass of layers that are not recurrent."""
    import keras

    from workloads.models.layers import forward_flops

    def count(shape: tuple[int | None, ...], layer: Any) -> float:
        return float(forward_flops(keras.Sequential([keras.Input(shape), layer]), steps=10))

    layers = keras.layers
    return {
        "dense": count((10, 4), layers.Dense(8)),
        "conv1d": count((10, 4), layers.Conv1D(8, 3, strides=2, padding="same")),
        "any length": count((None, 4), layers.Conv1D(8, 3, padding="same")),
        "conv2d": count((6, 5, 2), layers.Conv2D(3, 3)),
    }


def on_a_gpu(trial: Context) -> dict[str, float]:
    if trial.implementation.backend == "jax":  # its plugin raises if GPUs are hidden
        import jax

        hidden = RuntimeError("Unable to initialize backend 'cuda': No visible GPU devices.")
        raises = {"default_backend": mock.DEFAULT, "devices": mock.DEFAULT}
        with mock.patch.multiple(jax, **raises) as patched:
            for function in patched.values():
                function.side_effect = hidden
            return _image_rows(dataclasses.replace(trial, device="gpu"))
    return _image_rows(dataclasses.replace(trial, device="gpu"))


def cudnn_unchecked(trial: Context) -> dict[str, float]:
    """Run `image_rows` on cuDNN without our own rules: Keras' message becomes the failure."""
    cudnn = parse_implementation(f"{trial.implementation.backend}/cudnn")
    return _image_rows(dataclasses.replace(trial, implementation=cudnn))


def full_gpu(trial: Context) -> dict[str, float]:
    """Run out of the memory of a simulated GPU."""
    fused = parse_implementation(f"{trial.implementation.backend}/fused")
    trial = dataclasses.replace(trial, implementation=fused, device="gpu")
    framework = load_framework(fused.backend)
    with mock.patch.object(framework, "has_gpu", return_value=True), prepare_framework(trial):
        raise RuntimeError("JIT:\nRESOURCE_EXHAUSTED: Out of memory: cannot allocate 9 bytes.")


def full_memory(trial: Context) -> dict[str, float]:
    """Ask NumPy for more memory than any machine has."""
    with prepare_framework(trial):
        return {"size": float(np.empty(10**15).size)}


def leftovers(trial: Context) -> dict[str, float]:
    from workloads.models.model import WitnessedModel

    types = [type(item) for item in gc.get_objects()]
    others = {"tensorflow", "torch"} - {trial.implementation.backend}
    return {
        "models": float(sum(issubclass(kind, WitnessedModel) for kind in types)),
        "graphs": float(sum(kind.__name__ == "FuncGraph" for kind in types)),
        "frameworks": float(sum(sys.modules.get(name) is not None for name in others)),
        "frozen": float(gc.get_freeze_count()),
    }


def hook_calls(trial: Context) -> dict[str, float]:
    plan = plan_training(trial)
    calls = []
    plan.model.witness.on_steps_done = lambda: calls.append(float(plan.model.optimizer.iterations))
    plan.fit(plan.train_feed, epochs=2, **plan.validation_feed.for_validation())
    fitted = len(calls)
    plan.model.evaluate(**plan.validation_feed.with_targets(), verbose=0)
    return {"fit": float(fitted), "evaluate": float(len(calls) - fitted), "steps_done": calls[0]}


def losses_by_feed(trial: Context) -> dict[str, float]:
    from workloads.data.samples import Samples

    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("arrays", "mapped"):
            plan = plan_training(trial)
            if name == "mapped":
                parts = (plan.train.inputs, plan.train.targets)
                train = Samples(*(_mapped(Path(folder), part) for part in parts))
                plan = dataclasses.replace(plan, train=reorder(train, np.arange(len(train))))
            feed = plan.train_feed
            fitted = plan.model.fit(**feed.with_targets(), epochs=2, shuffle=False, verbose=0)
            losses[name] = float(fitted.history["loss"][-1])
            losses[f"{name}_are_arrays"] = float(isinstance(feed.inputs, np.ndarray))
    return losses


def stateful(trial: Context) -> dict[str, float]:
    plan = plan_training(trial)
    feed, reset = plan.validation_feed.with_targets(), plan.callbacks()
    none: list[Any] = []
    first, second, continued = (
        plan.model.evaluate(**feed, verbose=0, callbacks=callbacks, return_dict=True)["loss"]
        for callbacks in (reset, reset, none)
    )
    losses = {"first": first, "again": second, "continued": continued}
    return {**losses, "takes_one_sample": float(plan.takes_one_sample)}


def states_inside(trial: Context) -> dict[str, float]:
    """Return the losses of an own model: twice after a reset of its states, and once without."""
    from tests.workloads.examples import carrying_layers
    from workloads.models.layers import stateful_layers
    from workloads.tasks.own_model.settings import OwnModelSettings
    from workloads.tasks.own_model.task import OwnFunctions

    build, load = getattr(carrying_layers, trial.settings["build"]), carrying_layers.load_parts
    task = OwnFunctions(build, "carrying_layers:load_parts", load).as_task()
    with prepare_framework(trial):
        data, run = load_and_build(task, OwnModelSettings(units=4, batch_size=8), trial)
        first, again, continued = (
            run.model.evaluate(**run.validation_feed.with_targets(), verbose=0, callbacks=callbacks)
            for callbacks in (run.callbacks(), run.callbacks(), [])
        )
        return {
            "first": first,
            "again": again,
            "continued": continued,
            "layers": float(len(stateful_layers(run.model))),
            "in_order": float(np.array_equal(run.train.inputs, data.train.inputs)),
        }


def compared_with_bare_keras(trial: Context) -> dict[str, float]:
    from tests.building.plain_keras import build_plain_model
    from workloads.models.prepared import prepare_model
    from workloads.tasks.char_rnn.task import build_language_model

    settings = CharRnnSettings(**trial.settings)
    plain = build_plain_model(str(trial.implementation), settings.model_dump(), _VOCABULARY)
    built = build_language_model(settings, trial, _VOCABULARY, settings.sequence_length, None)
    arm = _operations(prepare_model(built, trial), settings)
    bare = _operations(plain, settings)
    return {
        "common": (arm & bare).total(),
        "more": (arm - bare).total(),
        "fewer": (bare - arm).total(),
    }


def _mapped(folder: Path, array: Any) -> Any:
    path = folder / f"{array.ndim}.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def _backend() -> str:
    import keras

    return keras.backend.backend()


def plan_training(trial: Context, implementation: Implementation | None = None) -> Any:
    """Return the run that the trial would train, on its own or another implementation."""
    implementation = implementation or trial.implementation
    framework = load_framework(implementation.backend)
    framework.release_memory()
    framework.configure(implementation, trial.device)
    framework.seed(trial.seed)
    task = find_task(str(trial.settings.get("workload", "image_rows")))
    names = task.settings_model.model_fields
    own = {name: value for name, value in trial.settings.items() if name in names}
    settings = task.check_settings({"validation_samples": 40, **own})
    trial = dataclasses.replace(trial, implementation=implementation)
    return load_and_build(task, settings, trial)[1]


def _image_rows(trial: Context) -> dict[str, float]:
    task = find_task("image_rows")
    return measure(task, task.check_settings(trial.settings), trial)


def digest(values: Any) -> float:
    state = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in values))
    return float(int.from_bytes(state.digest()[:6]))


def _operations(model: Any, settings: CharRnnSettings) -> Counter[str]:
    import tensorflow as tf

    tokens = tf.zeros((settings.batch_size, settings.sequence_length), tf.int32)
    model.fit(tokens, tokens, batch_size=settings.batch_size, verbose=0)  # makes all variables
    step = tf.function(model.train_step).get_concrete_function((tokens, tokens))
    return Counter(kind for kind in _kinds(step.graph) if kind not in _PASSED_ON)


def _kinds(graph: Any) -> Iterator[str]:
    for part in (graph, *(function.graph for function in graph._functions.values())):
        yield from (operation.type for operation in part.get_operations())


def answer_inspection(trial: Context) -> dict[str, float]:
    """Store the answer to the inspection request that is in the settings."""
    from workloads.diagnostics.model_inspection import inspect_own_model
    from workloads.model_facts import REQUEST_ADAPTER

    request = REQUEST_ADAPTER.validate_python(trial.settings["request"])
    found = inspect_own_model(request)
    trial.artifact("inspection.json", INSPECTION_ADAPTER.dump_json(found).decode())
    return {}


def inspect_model(trial: Context) -> dict[str, float]:
    """Store what is found of an own model, for two probes of its units."""
    from workloads.diagnostics.model_inspection import inspect_own_model
    from workloads.model_facts import InspectionRequest

    settings = trial.settings
    fixed = settings.get("fixed", {})
    probes = tuple({"units": units, **fixed} for units in settings["units"])
    asked = tuple(settings.get("implementations", [str(trial.implementation)]))
    request = InspectionRequest(
        settings["workload"],
        asked,
        probes,
        tuple(settings["searched"]),
        settings.get("timed_work", "train"),
    )
    found = inspect_own_model(request)
    trial.artifact("inspection.json", INSPECTION_ADAPTER.dump_json(found).decode())
    return {}
