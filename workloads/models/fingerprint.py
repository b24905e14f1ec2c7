"""The fingerprint of a model at its initial weights: what all arms of a block must agree on.

All arms of a block start from equal weights and see the samples in the same order. So their outputs
for the first samples, without dropout, and the gradients of their loss differ by rounding alone,
unless an implementation computes something else. Imports Keras.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from workloads.backends.feeding import Batches
from workloads.backends.framework import Framework
from workloads.backends.passes import Batch, CheckedModel
from workloads.context import Context, expect_finite
from workloads.data.samples import Samples
from workloads.models.canonical_weights import from_buffer
from workloads.models.fused_stack import FusedStack
from workloads.models.recurrent_parts import recurrent_layers_inside
from workloads.models.rewriting import Rewritten
from workloads.models.run import StartState, TrainingRun
from workloads.protocol import Fingerprint

SAMPLES = 8
"""The most samples; a model with a fixed batch size gets one batch."""

_OUTPUTS, _GRADIENTS = 32, 32
"""The most outputs and weight arrays of a fingerprint: it is stored with its trial."""

_DIGITS = 9  # of float32


def report_fingerprint(run: TrainingRun, trial: Context) -> None:
    """Report the fingerprint of a run before its first step; leave its state as it was.

    The gradients of a model without a loss are those of its mean output.
    """
    model = run.model
    has_loss = model.compiled and model.loss is not None
    checked = CheckedModel(
        model,
        partial(_compiled_loss, model) if has_loss else _mean_output,
        is_eager=model.run_eagerly or _is_unrolled(model),
        is_compiled=bool(model.jit_compile),
    )
    start = StartState(model)
    try:
        fingerprint = _fingerprint(
            model.witness.framework, checked, run.train, model.witness.author_variables
        )
    finally:
        start.restore()
    if fingerprint is not None:
        trial.fingerprint(fingerprint)


def report_fingerprint_of_passes(
    framework: Framework, rewritten: Rewritten, trial: Context, samples: Samples
) -> None:
    """Report the fingerprint of a model without a loss, from the gradients of its mean output."""
    model, backend = rewritten.model, framework.backend
    checked = CheckedModel(
        model,
        _mean_output,
        is_eager=backend.is_eager(trial.implementation) or _is_unrolled(model),
        is_compiled=backend.is_compiled(trial.implementation),
    )
    fingerprint = _fingerprint(framework, checked, samples, rewritten.author_variables)
    if fingerprint is not None:
        trial.fingerprint(fingerprint)


def author_gradients(
    model: Any, gradients: Sequence[NDArray[Any]], author_variables: Sequence[str]
) -> list[NDArray[Any]]:
    """Return gradients in the layout and order of the author's model, for every implementation.

    `gradients` are those of the model's trainable variables. `author_variables` are the paths of
    those of the author's model.
    """
    stacks = {
        id(layer.weights_buffer): layer
        for layer in recurrent_layers_inside(model)
        if isinstance(layer, FusedStack)
    }
    found = list[tuple[str, NDArray[Any]]]()
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
    places = {path: place for place, path in enumerate(author_variables)}
    found.sort(key=lambda pair: places.get(pair[0], len(places)))
    return [gradient for _, gradient in found]


def _fingerprint(
    framework: Framework,
    checked: CheckedModel,
    samples: Samples,
    author_variables: Sequence[str],
) -> Fingerprint | None:
    count = next(_fixed_batch_sizes(checked.model), SAMPLES)
    arrays = Batches(samples.first(count), count)[0]
    inputs, targets, weights = (_tensors(part) for part in (*arrays, None)[:3])
    result = framework.outputs_and_gradients(checked, (inputs, targets, weights))
    if result is None:
        return None
    outputs = np.concatenate([_array(output).ravel() for output in result.outputs])
    chosen = np.linspace(0, outputs.size - 1, min(_OUTPUTS, outputs.size)).round().astype(int)
    rms = float(np.sqrt(np.mean(np.square(outputs))))
    expect_finite({"root mean square of the outputs": rms}, "check, at the initial weights")
    variables = checked.model.trainable_variables
    gradients = [
        np.zeros(variable.shape) if gradient is None else _array(gradient)
        for variable, gradient in zip(variables, result.gradients, strict=True)
    ]
    norms, projections = [], []
    arranged = author_gradients(checked.model, gradients, author_variables)
    for index, gradient in enumerate(arranged[:_GRADIENTS]):
        signs = np.random.default_rng(index).integers(0, 2, gradient.size, np.int8) * 2 - 1
        norms.append(_rounded(np.linalg.norm(gradient)))
        projections.append(_rounded(gradient.ravel() @ signs))
    is_finite = bool(np.isfinite([*norms, *projections]).all())
    return Fingerprint(
        outputs=tuple(_rounded(value) for value in outputs[chosen]),
        output_rms=_rounded(rms),
        gradient_norms=tuple(norms) if is_finite else (),
        gradient_projections=tuple(projections) if is_finite else (),
    )


def _compiled_loss(model: Any, outputs: Any, batch: Batch) -> Any:
    inputs, targets, weights = batch
    return model._compute_loss(inputs, targets, outputs, weights, training=False)


def _mean_output(outputs: Any, _batch: Batch) -> Any:
    """Return the mean output, or the sum of those of several outputs."""
    return sum(
        keras.ops.mean(keras.ops.cast(output, "float32")) for output in keras.tree.flatten(outputs)
    )


def _fixed_batch_sizes(model: Any) -> Iterator[int]:
    for tensor in keras.tree.flatten(getattr(model, "inputs", None) or []):
        if tensor.shape[0] is not None:
            yield tensor.shape[0]


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


def _array(tensor: Any) -> NDArray[Any]:
    return np.asarray(keras.ops.convert_to_numpy(tensor), np.float64)


def _rounded(value: Any) -> float:
    return float(f"{float(value):.{_DIGITS}g}")
