"""`fused`: a whole stack of recurrent layers in one library call. Imports Keras.

`FusedStack` is the Keras layer; the call of each backend stands in a module of its own, which has

* `run_stack(call, sequences, weights, states, mask, training=…)` -> outputs of the last layer at
  every step, and the final states of all of them;
* `states_shape(shape, batch)`, the shape in which the library takes and gives those states;
* `last_output(shape, hidden)`, the last layer's part of the final hidden states.

The call stands in a scope named `call.SCOPE`, by which evidence finds it in a graph, in a program
or in a profile.
"""

from __future__ import annotations

import importlib
from typing import Any

import keras

from workloads.models.canonical_weights import CanonicalLayer, StackShape, from_buffer, to_buffer
from workloads.models.fused.call import LibraryCall
from workloads.settings.recurrent import StackSettings

library = importlib.import_module(f"workloads.models.fused.{keras.backend.backend()}")


class FusedStack(keras.layers.Layer):
    """Layers, directions, and the dropout between layers, run by the library in one call.

    The variable `weights_buffer` is cuDNN's opaque buffer (`workloads.models.canonical_weights`),
    on every
    backend: the library reads it as it stands, an optimizer has one variable to move, and mixed
    precision casts it at once. It begins as zeros: give it weights with `write`.

    Outputs are those of stacked Keras layers, directions concatenated. One difference: where a
    mask ends a sequence, its later outputs are zero (as with Keras' own cuDNN layers), while
    Keras' portable ones repeat the last; the mask is passed on, so that what respects it sees no
    difference. Masks have to pad on the right.

    Args:
        settings: cell, units, layers, bidirectional, dropout (between the layers, in training
            only) and stateful (each batch goes on from the last one's final states).
        return_sequences: outputs of all steps, and not of the last one only.
        seed: of the dropout, where the library takes one.
        tf32: allow TF32 on JAX, where it is an argument; elsewhere it is the framework's switch.
        options: Keras' own: name, dtype.
    """

    def __init__(
        self,
        settings: StackSettings,
        *,
        return_sequences: bool,
        seed: int = 0,
        tf32: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.settings = settings
        self.return_sequences = return_sequences
        self.seed = seed
        self.tf32 = tf32
        self.supports_masking = True
        self.states: list[Any] = []

    def build(self, sequences_shape: tuple[int | None, ...]) -> None:
        """Make the buffer, and the states if the stack keeps them.

        Raises:
            ValueError: the number of features is open, or a stateful stack's batch size.
        """
        batch, _, inputs = sequences_shape
        if inputs is None or (self.settings.stateful and batch is None):
            raise ValueError(
                f"{self.name}: expected a known number of features, and of samples if it is"
                f" stateful; received sequences of shape {sequences_shape}: give keras.Input both"
            )
        settings = self.settings
        self.stack_shape = StackShape(
            settings.cell, inputs, settings.units, settings.layers, settings.bidirectional
        )
        dropout = settings.dropout if settings.layers > 1 else 0.0
        self.library_call = LibraryCall(self.stack_shape, dropout, self.seed, self.tf32)
        self.weights_buffer = self.add_weight(
            name="weights_buffer", shape=(sum(self.stack_shape.sizes),), initializer="zeros"
        )
        if settings.stateful:
            self.states = [self._add_state(name, batch) for name in self._state_names]

    def call(self, sequences: Any, mask: Any = None, training: bool = False) -> Any:
        """Outputs (batch, steps, directions·units), or those of the last step without steps.

        Args:
            sequences: (batch, steps, features).
            mask: (batch, steps), true where a step counts.
            training: whether there is dropout.

        Raises:
            ValueError: a mask for a stateful stack.
        """
        if self.settings.stateful and mask is not None:
            raise ValueError(
                f"{self.name}: expected no mask, because the stack is stateful; received one: give"
                " it sequences of one length"
            )
        outputs, states = library.run_stack(
            self.library_call,
            sequences,
            self.weights_buffer.value,
            self._initial_states(sequences),
            mask,
            training=training,
        )
        for kept, final in zip(self.states, states, strict=False):
            kept.assign(final)
        return (
            outputs if self.return_sequences else library.last_output(self.stack_shape, states[0])
        )

    def compute_output_shape(self, sequences_shape: tuple[int | None, ...]) -> Any:
        """The shape of the outputs; the library is not called for it."""
        batch, steps, _ = sequences_shape
        width = self.settings.units * (2 if self.settings.bidirectional else 1)
        return (batch, steps, width) if self.return_sequences else (batch, width)

    def compute_mask(self, sequences: Any, previous_mask: Any = None) -> Any:
        """The mask of the inputs, where there still are steps."""
        return previous_mask if self.return_sequences else None

    def reset_state(self) -> None:
        """Begin new sequences: the states are zero again."""
        for state in self.states:
            state.assign(keras.ops.zeros(state.shape, state.dtype))

    def read(self) -> list[CanonicalLayer]:
        """The weights in their canonical layout."""
        buffer = keras.ops.convert_to_numpy(self.weights_buffer)
        return from_buffer(buffer, self.stack_shape)

    def write(self, stack: list[CanonicalLayer]) -> None:
        """Take weights in their canonical layout, of as many layers and of these sizes."""
        self.weights_buffer.assign(to_buffer(stack))

    @property
    def _state_names(self) -> tuple[str, ...]:
        return ("hidden", "carry") if self.settings.cell == "lstm" else ("hidden",)

    def _add_state(self, name: str, batch: int | None) -> Any:
        return self.add_weight(
            name=name,
            shape=library.states_shape(self.stack_shape, batch),
            initializer="zeros",
            trainable=False,
            autocast=False,  # on PyTorch, assigning to a variable that autocasts is lost
        )

    def _initial_states(self, sequences: Any) -> tuple[Any, ...]:
        if self.states:  # copies: PyTorch overwrites a variable while its graph still holds it
            return tuple(
                keras.ops.cast(keras.ops.copy(state), self.compute_dtype) for state in self.states
            )
        shape = library.states_shape(self.stack_shape, keras.ops.shape(sequences)[0])
        return (keras.ops.zeros(shape, self.compute_dtype),) * len(self._state_names)
