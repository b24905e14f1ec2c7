"""The Keras layer of the kernel `fused`. Imports Keras."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras

from workloads.backends.framework import Framework
from workloads.backends.loading import load_framework_of_keras
from workloads.backends.stack_call import StackCall, StackShape
from workloads.layer_traits import Cell
from workloads.models.buffer_regularizer import BufferRegularizer, LayerPenalties
from workloads.models.canonical_weights import CanonicalLayer, from_buffer, to_buffer

States: TypeAlias = tuple[Any, ...]
"""The hidden states, and for an LSTM the carries, each (layers·directions, batch, units)."""


@keras.saving.register_keras_serializable(package="rnnsweep")
class FusedStack(keras.layers.Layer):
    """A stack of recurrent layers with directions and dropout, run by the library in one call.

    `weights_buffer` is cuDNN's opaque buffer (`workloads.models.canonical_weights`) on every
    backend: the library reads it directly, and an optimizer updates one variable. It starts as
    zeros: set the weights with `write`. Outputs and states are as of stacked Keras layers,
    directions concatenated. Masks must pad on the right.

    `dropout` is applied between the layers, in training only; `seed` is the seed of the dropout, if
    the library takes one. `return_sequences`, `return_state` and `zero_output_for_mask` are as in
    Keras' last layer. `stateful`: a batch starts from the final states of the previous one.
    `penalties` are the regularizers, an entry for each layer and direction in the order of the
    canonical layout; none by default. The `framework` has the library: by default the framework of
    Keras' backend. Other arguments are as for any Keras layer.
    """

    def __init__(  # noqa: PLR0913 - a layer has them by name, as Keras' own
        self,
        cell: Cell,
        units: int,
        layer_count: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        stateful: bool = False,
        zero_output_for_mask: bool = False,
        penalties: Sequence[LayerPenalties] = (),
        seed: int = 1,
        framework: Framework | None = None,
        **layer_arguments: Any,
    ) -> None:
        super().__init__(**layer_arguments)
        self.cell, self.units, self.layer_count = cell, units, layer_count
        self.bidirectional, self.stateful = bidirectional, stateful
        self.dropout, self.seed = dropout if layer_count > 1 else 0.0, seed
        self.return_sequences, self.return_state = return_sequences, return_state
        self.zero_output_for_mask = zero_output_for_mask
        self.penalties = tuple(
            LayerPenalties(*((l1, l2) for l1, l2 in layer)) for layer in penalties
        )
        self.framework = framework or load_framework_of_keras()
        self.supports_masking = True
        self.states: list[Any] = []
        self.replaced_variables: tuple[str, ...] = ()
        """The paths of the variables that `weights_buffer` replaces, in canonical order."""

    def build(
        self, sequences_shape: tuple[int | None, ...], initial_state_shape: Any = None
    ) -> None:
        """Create buffer and states; `ValueError` for unknown features or (stateful) batches."""
        batch, _, inputs = sequences_shape
        if inputs is None or (self.stateful and batch is None):
            raise ValueError(
                f"{self.name}: the number of features (and of samples, if stateful) is unknown in"
                f" the shape {sequences_shape}: give it to keras.Input"
            )
        self.stack_shape = StackShape(
            self.cell, inputs, self.units, self.layer_count, self.bidirectional
        )
        self.weights_buffer = self.add_weight(
            name="weights_buffer",
            shape=(sum(self.stack_shape.sizes),),
            initializer="zeros",
            regularizer=BufferRegularizer.of(self.stack_shape, self.penalties),
        )
        if self.stateful:
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

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False
    ) -> Any:
        """Return outputs (batch, steps, directions·units), or (batch, directions·units).

        `sequences` have the shape (batch, steps, features). `initial_state` has the states of each
        direction, as for Keras' layers, and is for a stack of one layer. `mask`, of shape
        (batch, steps), is True for every step that is not padding; a stateful stack takes none
        (`ValueError`). `training` applies dropout. With `return_state` the final states of the last
        layer follow the outputs, in Keras' order.
        """
        if self.stateful and mask is not None:
            raise ValueError(
                f"{self.name}: a stateful stack takes no mask: give it sequences of one length"
            )
        lengths, is_right_padded = None, None
        if mask is not None:
            lengths, is_right_padded = _padding(mask)
        outputs, states = self.framework.run_stack(
            StackCall(
                shape=self.stack_shape,
                weights=self.weights_buffer.value,
                sequences=sequences,
                states=self._initial_states(sequences, initial_state),
                lengths=lengths,
                is_right_padded=is_right_padded,
                dropout=self.dropout,
                seed=self.seed,
                training=training,
            )
        )
        for state, final in zip(self.states, states, strict=False):
            state.assign(final)
        if not self.return_sequences:
            last = [states[0][n] for n in range(-self.stack_shape.directions, 0)]
            outputs = keras.ops.concatenate(last, axis=-1) if len(last) > 1 else last[0]
        elif mask is not None and not self.zero_output_for_mask:
            # Keras repeats the last output of a sequence; the libraries return zeros.
            steps = keras.ops.expand_dims(mask, -1)
            outputs = keras.ops.where(steps, outputs, keras.ops.expand_dims(states[0][-1], 1))
        return (outputs, *self._keras_states(states)) if self.return_state else outputs

    def compute_output_shape(
        self, sequences_shape: tuple[int | None, ...], initial_state_shape: Any = None
    ) -> Any:
        """Return the shape of the outputs, and of the states, without calling the library."""
        batch, steps, _ = sequences_shape
        width = self.units * self._directions
        outputs = (batch, steps, width) if self.return_sequences else (batch, width)
        if not self.return_state:
            return outputs
        return (outputs, *[(batch, self.units)] * (self._directions * len(self._state_names)))

    def compute_mask(self, sequences: Any, previous_mask: Any = None) -> Any:
        """Return the mask of the inputs if the outputs have steps; final states have none."""
        mask = keras.tree.flatten(previous_mask)[0] if self.return_sequences else None
        if not self.return_state:
            return mask
        return [mask, *[None] * (self._directions * len(self._state_names))]

    def reset_state(self) -> None:
        """Reset the states to zero, for new sequences."""
        for state in self.states:
            state.assign(keras.ops.zeros(state.shape, state.dtype))

    def read(self) -> list[CanonicalLayer]:
        """Return the weights in their canonical layout."""
        buffer = keras.ops.convert_to_numpy(self.weights_buffer)
        return from_buffer(buffer, self.stack_shape)

    def write(self, stack: Sequence[CanonicalLayer]) -> None:
        """Set the weights from their canonical layout; layers and sizes must match."""
        self.weights_buffer.assign(to_buffer(stack))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal layer on any backend with such a library."""
        return super().get_config() | {
            "cell": self.cell,
            "units": self.units,
            "layer_count": self.layer_count,
            "bidirectional": self.bidirectional,
            "dropout": self.dropout,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "stateful": self.stateful,
            "zero_output_for_mask": self.zero_output_for_mask,
            "penalties": [[list(pair) for pair in layer] for layer in self.penalties],
            "seed": self.seed,
        }

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _state_names(self) -> tuple[str, ...]:
        return ("hidden", "carry") if self.cell == "lstm" else ("hidden",)

    def _states_shape(self, batch: Any) -> tuple[Any, ...]:
        return (self.layer_count * self._directions, batch, self.units)

    def _initial_states(self, sequences: Any, given: Any) -> States:
        if given is not None:
            return self._library_states(keras.tree.flatten(given))
        if self.states:  # copies: PyTorch overwrites a variable while its graph still needs it
            return tuple(
                keras.ops.cast(keras.ops.copy(state), self.compute_dtype) for state in self.states
            )
        shape = self._states_shape(keras.ops.shape(sequences)[0])
        return (keras.ops.zeros(shape, self.compute_dtype),) * len(self._state_names)

    def _library_states(self, given: Sequence[Any]) -> States:
        """Return Keras' list of states, all states of a direction together, as the library's."""
        kinds = len(self._state_names)
        if len(given) != kinds * self.layer_count * self._directions:
            raise ValueError(
                f"{self.name}: expected {kinds * self._directions} initial states for one layer;"
                f" received {len(given)} for {self.layer_count}"
            )
        return tuple(
            keras.ops.cast(keras.ops.stack(given[kind::kinds]), self.compute_dtype)
            for kind in range(kinds)
        )

    def _keras_states(self, states: States) -> list[Any]:
        """Return the final states of the last layer in Keras' order."""
        return [state[n] for n in range(-self._directions, 0) for state in states]


def _padding(mask: Any) -> tuple[Any, Any]:
    """Return the unmasked steps of every sequence, and whether all padding is behind them."""
    counts = keras.ops.cast(mask, "int32")
    has_begun = keras.ops.all(counts[:, 0] == 1)
    never_again = keras.ops.all(counts[:, 1:] <= counts[:, :-1])
    return keras.ops.sum(counts, axis=1), keras.ops.logical_and(has_begun, never_again)
