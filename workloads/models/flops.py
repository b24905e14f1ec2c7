"""Floating-point operations of a model's step, counted from its sizes.

Matrix products only, a multiplication and an addition counted as two operations: the convention
of DeepBench for recurrent layers (`8·h·(x + h)` for an LSTM's step) and of "model FLOPs" in the
PaLM report (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Gates' activations, embeddings
and losses are left out; recomputation never counts, so that the figure belongs to the model and
not to its implementation.
"""

from __future__ import annotations

from workloads.models.canonical_weights import GATES
from workloads.settings.recurrent import StackSettings

_FORWARD_AND_BACKWARD = 3
"""The backward pass has two products for each of the forward pass: by the inputs and by the
weights (Kaplan et al. 2020, arXiv 2001.08361, section 2.1)."""


def recurrent_flops(settings: StackSettings, *, inputs: int, steps: int) -> int:
    """FLOPs of one sample's forward pass through the recurrent layers.

    For each layer and direction and time step: `2 · g · u · (x + u)`, with g gates, u units and
    x inputs: each gate has a product with the input and one with the state. A layer above the
    first has as many inputs as the one below has outputs.

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
    """FLOPs of one vector's forward pass through a dense layer: `2 · x · u`."""
    return 2 * inputs * units


def training_flops(forward: int) -> int:
    """FLOPs of forward and backward pass together, given those of the forward pass."""
    return _FORWARD_AND_BACKWARD * forward
