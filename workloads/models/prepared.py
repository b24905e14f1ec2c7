"""A model that its author built, made ready for a trial's arm. Imports Keras."""

from typing import Any

from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.models.conversion import set_compilation
from workloads.models.model import WitnessedModel, witness_model
from workloads.models.recurrent_parts import mark_recurrent_layers
from workloads.models.rewriting import rewrite


def prepare_model(model: Any, trial: Context) -> WitnessedModel:
    """Give a Keras model that has its initial weights the kernel of the trial's arm.

    The result may be the model itself or a copy around its layers: use the result only. Every
    tracing of its steps is recorded. A model that only predicts needs no optimizer. Raise
    `NotPossible` if the kernel cannot run the model. The train step and the optimizer are Keras'
    own: `fit` runs what it runs on the result of `convert`.
    """
    implementation = trial.implementation
    framework = load_framework(implementation.backend)
    rewritten = rewrite(model, implementation, framework)
    witnessed = witness_model(rewritten.model, framework)
    witnessed.witness.author_variables = rewritten.author_variables
    mark_recurrent_layers(witnessed, framework)
    set_compilation(witnessed, implementation, framework)
    return witnessed
