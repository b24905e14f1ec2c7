"""A whole stack of recurrent layers in one library call: the kernel `fused`.

`fused_stack` has the Keras layer. The library call of each backend is in a module of its own, with
three functions:

* `run_stack(call, sequences, weights, states, mask, training=…)` returns the outputs of the last
  layer at every step `(batch, steps, directions·units)`, and the final states of all layers;
* `states_shape(shape, batch)` returns the shape of the library's states;
* `last_output(shape, hidden)` returns the last layer's part of the final hidden states
  `(batch, directions·units)`.

The call has a scope named `SCOPE`, by which evidence recognises it in a graph, a program or a
profile.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.models.canonical_weights import StackShape

SCOPE = "fused_stack"

LEFT_PADDED = (
    "mask: expected padding on the right, after at least one unmasked step; received another mask,"
    " which the library's call would silently misread: pad on the right, or use the portable"
    " kernel"
)


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Sizes and switches of a stack; `dropout` is the rate between layers, in training only."""

    shape: StackShape
    dropout: float
    seed: int
    tf32: bool
