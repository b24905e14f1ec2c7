"""Workloads for the tests of evidence, which build a model and report the kernel that ran."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import re
from typing import Any
from unittest import mock

import numpy as np

from tests.workloads.probes import plan_training
from workloads.context import Context
from workloads.implementations import parse_implementation


def proven(trial: Context) -> dict[str, float]:
    from workloads.evidence import prove

    built = trial.settings.get("built", str(trial.implementation))
    plan = plan_training(trial, parse_implementation(built))
    plan.fit_first_batch()
    before = [np.array(value) for value in plan.model.get_weights()]
    proof = prove(plan)
    after = plan.model.get_weights()
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    return {"changed": float(any((a != b).any() for a, b in zip(before, after, strict=True)))}


def traced_for_a_gpu(trial: Context) -> dict[str, float]:
    """Trace (and do not run) a TensorFlow train step for a simulated GPU."""
    import tensorflow as tf

    from tests.workloads.stand_in_gpus.tensorflow import gpu
    from workloads.evidence import prove

    with gpu():
        plan = _plan(trial)
        images, labels = plan.train.inputs[:4], plan.train.targets[:4]
        step = tf.function(plan.model.train_step)
        step.get_concrete_function((tf.constant(images), tf.constant(labels)))
    capability = trial.settings.get("capability", 0)
    with mock.patch("workloads.backends.tensorflow.evidence._capability", return_value=capability):
        proof = prove(plan)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    return {}


def lowered_for_a_gpu(trial: Context) -> dict[str, float]:
    """Lower (and do not compile) JAX passes for CUDA, with a simulated GPU."""
    import jax

    from tests.workloads.stand_in_gpus.jax import gpu
    from workloads.backends.jax.evidence import prove_lowered
    from workloads.models.recurrent_parts import recurrent_parts

    with gpu():
        plan = _plan(trial)
        model_passes = plan.model.witness.framework.make_passes(plan.model, trial.implementation)
        traced = jax.jit(model_passes.forward_backward).trace(plan.train.first(4).inputs)
        lowered = traced.lower(lowering_platforms=("cuda",))
        capability = trial.settings.get("capability", 0)
        with mock.patch("workloads.backends.jax.evidence._capability", return_value=capability):
            proof = prove_lowered(lowered, recurrent_parts(plan.model))
    calls = ", ".join(sorted(set(re.findall(r"cuDNN with\w* TF32", lowered.as_text()))))
    trial.kernel(trial.implementation.kernel_text, proof.ran, f"{proof.evidence}; {calls}")
    return {}


def _plan(trial: Context) -> Any:
    """Return the run of a trial; the layer `fallen_back` does not use cuDNN."""
    plan = plan_training(trial, trial.implementation)
    for layer in plan.model.layers:
        if layer.name == trial.settings.get("fallen_back"):
            layer.use_cudnn = False
    return plan


def profiled_on_a_gpu(trial: Context) -> dict[str, float]:
    from workloads.backends.kernel_evidence import RecurrentPart, make_proof
    from workloads.backends.torch.evidence import count_operations

    counts = count_operations([Event(*event) for event in trial.settings["events"]], on_gpu=True)
    parts = [RecurrentPart(**part) for part in trial.settings["parts"]]
    proof = make_proof("", counts, parts, eager=True)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    return {}


class Event:
    def __init__(self, name: str, began: int, ended: int, kind: str = "float") -> None:
        self.name, self.start_ns = lambda: name, lambda: began
        self.duration_ns, self.dtypes = lambda: ended - began, lambda: [kind]
