"""The layers of a plain chain, called without the code that Keras wraps around each call.

PyTorch traces nothing, so that code runs in every step: on a CPU 0.3 to 0.5 ms for a small
model. What a layer's `call` computes is all that such a layer computes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras


def is_plain_chain(model: Any) -> bool:
    """Return True if a model is a chain of layers whose `call` is all that they compute.

    It has no branches and no layer that makes a mask or casts.
    """
    makes_mask = any(
        isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False)
        for layer in model.layers
    )
    return (
        isinstance(model, keras.Sequential)
        and type(model).call is keras.Sequential.call
        and not any(isinstance(layer, keras.Model) for layer in model.layers)
        and not makes_mask
        and all(layer.compute_dtype == layer.variable_dtype for layer in model.layers)
    )


def has_type_of_inputs(model: Any, array: Any) -> bool:
    """Return True if Keras would give an array to the first layer without converting it."""
    return bool(keras.backend.standardize_dtype(array.dtype) == model.inputs[0].dtype)


def chain_of_calls(model: Any, *, training: bool) -> Callable[[Any], Any]:
    """Return a function that calls the layers of a plain chain one after another."""
    calls = [
        partial(layer.call, training=training) if layer._call_has_training_arg else layer.call
        for layer in model.layers
    ]

    def call(inputs: Any) -> Any:
        outputs = inputs
        for layer in calls:
            outputs = layer(outputs)
        return outputs

    return call
