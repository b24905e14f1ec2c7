"""The Keras layer of the kernel `fused`. Imports Keras."""

from typing import Any

import keras

from workloads.backends.framework import Framework
from workloads.backends.stack_call import StackCall, StackShape
from workloads.models.canonical_weights import CanonicalLayer, from_buffer, to_buffer
from workloads.settings import StackSettings


class FusedStack(keras.layers.Layer):
    """A stack of recurrent layers with directions and dropout, run by the library in one call.

    `weights_buffer` is cuDNN's opaque buffer (`workloads.models.canonical_weights`) on every
    backend: the library reads it directly, and an optimizer updates one variable. It starts as
    zeros: set the weights with `write`. Outputs are those of stacked Keras layers, directions
    concatenated, but zero after the end of a masked sequence. Masks must pad on the right.

    `settings` are cell, units, layers, bidirectional, dropout (between the layers, in training
    only) and stateful (a batch starts from the final states of the previous one).
    `return_sequences`: return the outputs of all steps. `seed` is that of the dropout, if the
    library takes one. The `framework` has the library.
    """

    def __init__(
        self, settings: StackSettings, framework: Framework, *, return_sequences: bool, seed: int
    ) -> None:
        super().__init__(name="recurrent")
        self.settings, self.return_sequences, self.seed = settings, return_sequences, seed
        self.framework = framework
        self.dropout = settings.dropout if settings.layers > 1 else 0.0
        self.supports_masking, self.stateful = True, settings.stateful
        self.states: list[Any] = []

    def build(self, sequences_shape: tuple[int | None, ...]) -> None:
        """Create buffer and states; `ValueError` for unknown features or (stateful) batches."""
        settings, (batch, _, inputs) = self.settings, sequences_shape
        if inputs is None or (settings.stateful and batch is None):
            raise ValueError(
                f"{self.name}: expected a known number of features, and of samples if it is"
                f" stateful; received sequences of shape {sequences_shape}: give keras.Input both"
            )
        self.stack_shape = StackShape(
            settings.cell, inputs, settings.units, settings.layers, settings.bidirectional
        )
        self.weights_buffer = self.add_weight(
            name="weights_buffer", shape=(sum(self.stack_shape.sizes),), initializer="zeros"
        )
        if settings.stateful:
            self.states = [
                self.add_weight(
                    name=name,
                    shape=self._states_shape(batch),
                    initializer="zeros",
                    trainable=False,
                    autocast=False,  # on PyTorch, assigning to a variable that autocasts is lost
                )
                for name in self._state_names
            ]

    def call(self, sequences: Any, mask: Any = None, training: bool = False) -> Any:
        """Return outputs (batch, steps, directions·units), or (batch, directions·units).

        `sequences` have the shape (batch, steps, features). `mask`, of shape (batch, steps), is
        True for every step that is not padding; a stateful stack takes none (`ValueError`).
        `training` applies dropout.
        """
        if self.settings.stateful and mask is not None:
            raise ValueError(
                f"{self.name}: expected no mask, because the stack is stateful; received one: give"
                " it sequences of one length"
            )
        lengths, is_right_padded = (None, None) if mask is None else _padding(mask)
        outputs, states = self.framework.run_stack(
            StackCall(
                shape=self.stack_shape,
                weights=self.weights_buffer.value,
                sequences=sequences,
                states=self._initial_states(sequences),
                lengths=lengths,
                is_right_padded=is_right_padded,
                dropout=self.dropout,
                seed=self.seed,
                training=training,
            )
        )
        for state, final in zip(self.states, states, strict=False):
            state.assign(final)
        if self.return_sequences:
            return outputs
        last = [states[0][n] for n in range(-self.stack_shape.directions, 0)]
        return keras.ops.concatenate(last, axis=-1) if len(last) > 1 else last[0]

    def compute_output_shape(self, sequences_shape: tuple[int | None, ...]) -> Any:
        """Return the shape of the outputs without calling the library."""
        batch, steps, _ = sequences_shape
        width = self.settings.units * self.settings.directions
        return (batch, steps, width) if self.return_sequences else (batch, width)

    def compute_mask(self, sequences: Any, previous_mask: Any = None) -> Any:
        """Return the mask of the inputs if the outputs have steps."""
        return previous_mask if self.return_sequences else None

    def reset_state(self) -> None:
        """Reset the states to zero, for new sequences."""
        for state in self.states:
            state.assign(keras.ops.zeros(state.shape, state.dtype))

    def read(self) -> list[CanonicalLayer]:
        """Return the weights in their canonical layout."""
        buffer = keras.ops.convert_to_numpy(self.weights_buffer)
        return from_buffer(buffer, self.stack_shape)

    def write(self, stack: list[CanonicalLayer]) -> None:
        """Set the weights from their canonical layout; layers and sizes must match."""
        self.weights_buffer.assign(to_buffer(stack))

    @property
    def _state_names(self) -> tuple[str, ...]:
        return ("hidden", "carry") if self.settings.cell == "lstm" else ("hidden",)

    def _states_shape(self, batch: Any) -> tuple[Any, ...]:
        return (self.stack_shape.pseudo_layers, batch, self.stack_shape.units)

    def _initial_states(self, sequences: Any) -> tuple[Any, ...]:
        if self.states:  # copies: PyTorch overwrites a variable while its graph still needs it
            return tuple(
                keras.ops.cast(keras.ops.copy(state), self.compute_dtype) for state in self.states
            )
        shape = self._states_shape(keras.ops.shape(sequences)[0])
        return (keras.ops.zeros(shape, self.compute_dtype),) * len(self._state_names)


def _padding(mask: Any) -> tuple[Any, Any]:
    """Return the unmasked steps of every sequence, and whether all padding is behind them."""
    counts = keras.ops.cast(mask, "int32")
    has_begun = keras.ops.all(counts[:, 0] == 1)
    never_again = keras.ops.all(counts[:, 1:] <= counts[:, :-1])
    return keras.ops.sum(counts, axis=1), keras.ops.logical_and(has_begun, never_again)
