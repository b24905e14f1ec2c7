"""A model that its author built, made ready for a trial's arm. Imports Keras."""

from typing import Any

from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.models.initial_weights import set_initial_weights
from workloads.models.model import WitnessedModel, witness_model
from workloads.models.recurrent_parts import mark_recurrent_layers


def prepare_model(model: Any, trial: Context) -> WitnessedModel:
    """Give a Keras model the trial's initial weights, and compile it for the trial's arm.

    The model itself is changed and returned: every tracing of its steps is then recorded. A model
    that only predicts needs no optimizer.
    """
    implementation = trial.implementation
    framework = load_framework(implementation.backend)
    witnessed = witness_model(model, framework)
    set_initial_weights(witnessed, trial.seed)
    mark_recurrent_layers(witnessed, framework)
    witnessed.run_eagerly = "eager" in implementation.options
    witnessed.jit_compile = framework.backend.is_compiled(implementation)
    if witnessed.compiled:
        framework.sum_gradients(witnessed.optimizer)
    return witnessed
