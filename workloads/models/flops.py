"""Floating-point operations of a model's step, counted from its sizes.

Only matrix products count, a multiplication and an addition as two operations. This is the
convention of DeepBench for recurrent layers (`8·h·(x + h)` for an LSTM's step) and of "model FLOPs"
in the PaLM report (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Activations of gates,
embeddings and losses are left out. Recomputation never counts, so the figure depends on the model
and not on its implementation.
"""

from __future__ import annotations

from workloads.models.canonical_weights import GATES
from workloads.settings.recurrent import StackSettings

_FORWARD_AND_BACKWARD = 3
"""The backward pass has two products for every product of the forward pass: by the inputs and by
the weights (Kaplan et al. 2020, arXiv 2001.08361, section 2.1)."""


def recurrent_flops(settings: StackSettings, *, inputs: int, steps: int) -> int:
    """Return the FLOPs of one sample's forward pass through the recurrent layers.

    A layer has `2 · g · u · (x + u)` per direction and time step, with g gates, u units and x
    inputs: every gate has a product with the input and one with the state. A layer above the first
    has as many inputs as the layer below has outputs.

    Args:
        settings: cell, units, layers, directions.
        inputs: features of the sequence.
        steps: length of the sequence.
    """
    directions = 2 if settings.bidirectional else 1
    units, gates = settings.units, GATES[settings.cell]
    widths = [inputs, *[directions * units] * (settings.layers - 1)]
    return sum(directions * steps * 2 * gates * units * (width + units) for width in widths)


def dense_flops(inputs: int, units: int) -> int:
    """Return the FLOPs of one vector's forward pass through a dense layer: `2 · x · u`."""
    return 2 * inputs * units


def training_flops(forward: int) -> int:
    """Return the FLOPs of forward and backward pass together, from those of the forward pass."""
    return _FORWARD_AND_BACKWARD * forward
