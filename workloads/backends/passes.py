"""A model's passes, forward and both ways, without optimizer, metric and data pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from workloads.protocol import TimedWork

Batch: TypeAlias = tuple[Any, Any, Any]
"""Inputs, targets and sample weights, each an array, a list, tuple or dict of arrays, or None."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of one model over one batch; they may return before the device has finished."""

    model: Any
    forward: Callable[[Any], Any]
    """Returns the outputs of a batch, in inference mode."""

    forward_backward: Callable[[Any], Any]
    """Returns the gradients of the mean output by each trainable variable, then by the batch."""

    place: Callable[[Any], Any]
    """Moves a batch (a NumPy array) to where the device reads it without a copy."""

    def timed(self, timed_work: TimedWork) -> Callable[[Any], Any]:
        """Return the pass that slices time: both ways for training, else forward alone."""
        return self.forward_backward if timed_work == "train" else self.forward


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model whose outputs and gradients are compared with another implementation's."""

    model: Any

    loss: Callable[[Any, Batch], Any]
    """Returns the loss of a batch from the model's outputs."""

    is_eager: bool
    """Python runs the operations one by one."""

    is_compiled: bool
    """XLA compiles the program."""


@dataclass(frozen=True, slots=True)
class OutputsAndGradients:
    """The result of a pass in inference mode, in arrays of the framework."""

    outputs: Sequence[Any]
    """The model's outputs in float32, with zeros in the steps that a mask covers."""

    gradients: Sequence[Any]
    """For each trainable variable of the model; None if the loss does not depend on it."""


def unmasked_outputs(outputs: Any) -> list[Any]:
    """Return outputs in float32, with zeros in masked steps, where implementations may differ."""
    import keras  # noqa: PLC0415 - the framework of this process
    from keras.src.backend import get_keras_mask  # noqa: PLC0415 - no public name

    shown = []
    for output in keras.tree.flatten(outputs):
        mask, values = get_keras_mask(output), keras.ops.cast(output, "float32")
        if mask is not None:
            missing = len(values.shape) - len(mask.shape)
            mask = keras.ops.reshape(mask, (*keras.ops.shape(mask), *[1] * missing))
            values = keras.ops.where(mask, values, keras.ops.zeros_like(values))
        shown.append(values)
    return shown
