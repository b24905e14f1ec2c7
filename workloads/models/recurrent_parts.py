"""The recurrent parts of a model, as the evidence of its kernel counts them. Imports Keras.

`mark_recurrent_layers` lets every call of a recurrent layer run in a scope of its own, by whose
name a backend's evidence tells the operations of the layers apart: wherever the layer is (in a
nested model, in a layer of the user's own) and however often it is called.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import keras

from workloads.backends.framework import Framework
from workloads.backends.kernel_evidence import RecurrentPart, part_scope
from workloads.models.fused_stack import FusedStack


class ScopedCall:
    """The `call` of a recurrent layer, in a scope; it notes the longest sequences so far."""

    def __init__(
        self, call: Callable[..., Any], scope: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        functools.update_wrapper(self, call)
        self._call, self._scope = call, scope
        self.steps = 1
        """The length of the sequences; 1 before the first call, or if a traced call has none."""

    def __call__(self, sequences: Any, *arguments: Any, **named: Any) -> Any:
        """Call the layer in its scope."""
        self.steps = max(self.steps, sequences.shape[1] or 1)
        with self._scope():
            return self._call(sequences, *arguments, **named)


def mark_recurrent_layers(model: Any, framework: Framework) -> None:
    """Let each recurrent layer of a built model run in a scope that evidence recognises."""
    for index, layer in enumerate(recurrent_layers_inside(model)):
        layer.call = ScopedCall(layer.call, functools.partial(framework.scope, part_scope(index)))


def recurrent_parts(model: Any) -> tuple[RecurrentPart, ...]:
    """Return the recurrent parts of a marked model that has run, in the order of their scopes."""
    return tuple(
        RecurrentPart(
            name=layer.name,
            directions=2 if isinstance(layer, keras.layers.Bidirectional) else 1,
            steps=layer.call.steps,
            is_fused=isinstance(layer, FusedStack),
            layer=layer,
        )
        for layer in recurrent_layers_inside(model)
    )


def recurrent_layers_inside(model: Any) -> list[Any]:
    """Return the distinct recurrent layers of a model, those inside other layers as well."""
    return list({id(layer): layer for layer in _walk(model)}.values())


def recurrent_classes(model: Any) -> list[str]:
    """Return the names of the classes of a model's recurrent layers, without `Bidirectional`."""
    layers = recurrent_layers_inside(model)
    inner = [getattr(layer, "forward_layer", layer) for layer in layers]
    return sorted({type(layer).__name__ for layer in inner})


def _walk(layer: Any) -> Iterator[Any]:
    if isinstance(layer, FusedStack | keras.layers.RNN | keras.layers.Bidirectional):
        yield layer
        return
    for inner in layer._layers:
        yield from _walk(inner)
