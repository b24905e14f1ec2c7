"""Outputs of a model and gradients of its loss, as NumPy arrays, on every backend. Imports Keras.

Everything that is made of gradients is computed here: the fingerprint of a trial, or a metric. The
gradients are in the layout and order of the author's model, whatever kernel runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import keras
import numpy as np
from numpy.typing import NDArray

from workloads.backends.feeding import Batches
from workloads.backends.framework import Framework
from workloads.backends.passes import Batch, CheckedModel
from workloads.context import Context
from workloads.data.samples import Samples
from workloads.models.canonical_weights import from_buffer
from workloads.models.fused_stack import FusedStack
from workloads.models.layers import state_variables, stateful_layers
from workloads.models.recurrent_parts import recurrent_layers_inside
from workloads.models.rewriting import Rewritten
from workloads.models.training_run import StartState, TrainingRun

SAMPLES = 8
"""The most samples; a model with a fixed batch size gets one batch."""

_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ModelGradients:
    """The result of one pass in inference mode over the first samples, in float64.

    `outputs` are the model's outputs. `gradients` has one array for each trainable weight array of
    the author's model; zeros where the loss does not depend on it.
    """

    outputs: Sequence[_Array]
    gradients: Sequence[_Array]


def gradients_of_loss(run: TrainingRun) -> ModelGradients | None:
    """Compute the gradients at the model's current weights; leave the state of the run as it was.

    The pass is compiled anew by each call, so this belongs outside of all timed windows. A model
    without a loss has the gradients of its mean output.

    Returns:
        None if the framework computes no gradients of a whole model.
    """
    model = run.model
    checked = CheckedModel(
        model,
        partial(_loss_of, model) if model.compiled else _mean_output,
        is_eager=model.run_eagerly or _is_unrolled(model),
        is_compiled=bool(model.jit_compile),
    )
    start = StartState(model)
    try:
        return _gradients(
            model.witness.framework, checked, run.train, model.witness.author_variables
        )
    finally:
        start.restore()


def gradients_of_mean_output(
    framework: Framework, rewritten: Rewritten, trial: Context, samples: Samples
) -> ModelGradients | None:
    """Compute the gradients of the mean output of a model that is not trained."""
    model, backend = rewritten.model, framework.backend
    checked = CheckedModel(
        model,
        _mean_output,
        is_eager=backend.is_eager(trial.implementation) or _is_unrolled(model),
        is_compiled=backend.is_compiled(trial.implementation),
    )
    return _gradients(framework, checked, samples, rewritten.author_variables)


def author_gradients(
    model: Any, gradients: Sequence[_Array], author_variables: Sequence[str]
) -> list[_Array]:
    """Return gradients in the layout and order of the author's model, for every implementation.

    Args:
        model: The model that computed the gradients, with the layers of its kernel.
        gradients: One for each trainable variable of `model`.
        author_variables: The paths of the trainable variables of the author's model.
    """
    stacks = {
        id(layer.weights_buffer): layer
        for layer in recurrent_layers_inside(model)
        if isinstance(layer, FusedStack)
    }
    found = list[tuple[str, _Array]]()
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        stack = stacks.get(id(variable))
        if stack is None:
            found.append((variable.path, gradient))
            continue
        arrays = [
            array
            for weights in from_buffer(gradient, stack.stack_shape)
            for array in weights
            if array is not None
        ]
        # A stack that the author wrote replaces nothing: its arrays stay together.
        found += zip(stack.replaced_variables or repeat(variable.path), arrays, strict=False)
    indices = {path: index for index, path in enumerate(author_variables)}
    found.sort(key=lambda pair: indices.get(pair[0], len(indices)))
    return [gradient for _, gradient in found]


def _gradients(
    framework: Framework,
    checked: CheckedModel,
    samples: Samples,
    author_variables: Sequence[str],
) -> ModelGradients | None:
    count = next(_fixed_batch_sizes(checked.model), SAMPLES)
    arrays = Batches(samples.first(count), count)[0]
    inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(tuple(arrays))
    batch = _tensors(inputs), _tensors(targets), _tensors(weights)
    result = framework.outputs_and_gradients(checked, batch)
    if result is None:
        return None
    gradients = [
        np.zeros(variable.shape) if gradient is None else _array(gradient)
        for variable, gradient in zip(
            checked.model.trainable_variables, result.gradients, strict=True
        )
    ]
    return ModelGradients(
        [_array(output) for output in result.outputs],
        author_gradients(checked.model, gradients, author_variables),
    )


def _loss_of(model: Any, outputs: Any, batch: Batch) -> Any:
    """Return the loss of a compiled model: of `compile`, and what its layers have added.

    A model without either has its mean output instead.
    """
    if model.loss is None and not model.losses:
        return _mean_output(outputs, batch)
    inputs, targets, weights = batch
    return model._compute_loss(inputs, targets, outputs, weights, training=False)


def _mean_output(outputs: Any, _batch: Batch) -> Any:
    """Return the mean output; of several outputs, the sum of their means."""
    return sum(
        keras.ops.mean(keras.ops.cast(output, "float32")) for output in keras.tree.flatten(outputs)
    )


def _fixed_batch_sizes(model: Any) -> Iterator[int]:
    """Yield the batch sizes that the inputs of a model, or the states inside it, are made for."""
    for tensor in keras.tree.flatten(getattr(model, "inputs", None) or []):
        if tensor.shape[0] is not None:
            yield tensor.shape[0]
    for layer in stateful_layers(model):
        for state in state_variables(layer):
            yield state.shape[0]


def _is_unrolled(model: Any) -> bool:
    """Return True if a loop is unrolled: its program would take long to make a second time."""
    layers = recurrent_layers_inside(model)
    return any(getattr(getattr(layer, "forward_layer", layer), "unroll", False) for layer in layers)


def _tensors(arrays: Any) -> Any:
    """Return a tree of arrays as tensors, in the types that `fit` gives them; None for None."""
    if arrays is None:
        return None
    return keras.tree.map_structure(
        lambda array: keras.ops.convert_to_tensor(
            array, keras.config.floatx() if array.dtype == np.float64 else None
        ),
        arrays,
    )


def _array(tensor: Any) -> _Array:
    return np.asarray(keras.ops.convert_to_numpy(tensor), np.float64)
