"""Compilation of a trial's model for its implementation.

Runs inside a trainer process: imports Keras.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from workloads.context import Context
from workloads.frameworks import load_framework
from workloads.implementations import Implementation
from workloads.models.initial_weights import set_initial_weights
from workloads.models.model import WitnessedModel


def seed_of(trial: Context, number: int) -> int:
    """Return the seed of layer `number` of a model: a signed 32-bit integer, as Keras needs."""
    return (trial.seed + number) % 2**31


def compile_model(
    layers: Sequence[Any],
    trial: Context,
    *,
    name: str,
    optimizer: Any,
    loss: Any = None,
    metrics: Sequence[Any] = ("accuracy",),
) -> WitnessedModel:
    """Return the model of these layers with the trial's initial weights, compiled for its arm.

    Args:
        layers: the layers; the first one is a `keras.Input`.
        trial: its implementation decides on XLA and eager execution, its seed on the weights.
        name: name of the model.
        optimizer: a Keras optimizer; with mixed float16 it is wrapped to scale the loss.
        loss: a Keras loss object; by default the cross-entropy of class probabilities.
        metrics: Keras metrics; they are reported by their names, together with `loss`.
    """
    implementation = trial.implementation
    model = _model_class(implementation)(
        layers, name=name, framework=load_framework(implementation.backend)
    )
    set_initial_weights(model, trial.seed)
    model.compile(
        optimizer=optimizer,
        loss=loss or keras.losses.SparseCategoricalCrossentropy(),
        metrics=list(metrics),
        jit_compile=implementation.jit,
        run_eagerly="eager" in implementation.options,
    )
    model.witness.framework.sum_gradients(model.optimizer)
    return model


def _model_class(implementation: Implementation) -> type[WitnessedModel]:
    if implementation.backend != "torch":
        return WitnessedModel
    from workloads.models.direct_torch_step import DirectModel  # noqa: PLC0415 - imports PyTorch

    return DirectModel
