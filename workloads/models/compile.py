"""Models of a trial, compiled as its implementation asks.

Run inside a trainer process: imports Keras.
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
    """The seed of a model's layer of that number: a signed 32-bit integer, as Keras wants it."""
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
    """The model of these layers with the trial's initial weights, compiled as its arm asks.

    Args:
        layers: the first one is a `keras.Input`.
        trial: its implementation tells whether XLA compiles the steps, and whether there is a
            graph at all; its seed decides the weights.
        name: of the model.
        optimizer: Keras'; with mixed float16 it is wrapped, so that the loss is scaled.
        loss: one of Keras' objects; by default the cross-entropy of class probabilities.
        metrics: Keras'; they are reported by their names, beside `loss`.
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
