"""PyTorch's fused RNN `torch._VF`, which `nn.LSTM` calls, on a CPU too.

See `workloads.models.fused`.

The weights are views of one buffer in cuDNN's layout, so that cuDNN copies nothing
(`nn.LSTM.flatten_parameters` has the same purpose).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from workloads.models.canonical_weights import StackShape
from workloads.models.fused import LEFT_PADDED, SCOPE, LibraryCall


def run_stack(
    call: LibraryCall,
    sequences: Any,
    weights: Any,
    states: tuple[Any, ...],
    mask: Any,
    *,
    training: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs (batch, steps, directions·units), final states (pseudo-layers, batch, units).

    Raises:
        ValueError: the mask pads on the left, or covers a whole sequence.
    """
    shape = call.shape
    function = getattr(torch._VF, shape.cell)
    initial = states if shape.cell == "lstm" else states[0]
    options = (
        True,  # biases
        shape.layers,
        call.dropout if training else 0.0,
        training or torch.is_grad_enabled(),  # cuDNN keeps what its backward pass needs
        shape.bidirectional,
    )
    # The scope names the call in a profile; without a profile it would cost 1 %.
    is_profiled = torch.autograd._profiler_enabled()
    with torch.profiler.record_function(SCOPE) if is_profiled else nullcontext():
        views = _views(shape, weights)
        if mask is None:
            outputs, *final = function(sequences, initial, views, *options, True)
            return outputs, tuple(final)
        packed = pack_padded_sequence(
            sequences, _lengths(mask), batch_first=True, enforce_sorted=False
        )
        outputs, *final = function(packed.data, packed.batch_sizes, initial, views, *options)
        return (
            pad_packed_sequence(
                packed._replace(data=outputs), batch_first=True, total_length=sequences.shape[1]
            )[0],
            tuple(state.index_select(1, packed.unsorted_indices) for state in final),
        )


def states_shape(shape: StackShape, batch: Any) -> tuple[Any, ...]:
    """Return the shape of the states."""
    return (shape.pseudo_layers, batch, shape.units)


def last_output(shape: StackShape, hidden: Any) -> Any:
    """Return the last layer's final hidden states: (batch, directions·units)."""
    return torch.cat([hidden[-2], hidden[-1]], dim=-1) if shape.bidirectional else hidden[-1]


def _views(shape: StackShape, weights: Any) -> list[Any]:
    """Return weight_ih, weight_hh, bias_ih and bias_hh of every pseudo-layer.

    A recurrent bias that is not trained is detached, and its gradient is zero.
    """
    pieces = weights.split(shape.sizes)
    count = len(shape.matrices)
    views = []
    for n in range(0, count, 2):
        bias_hh = pieces[count + n + 1]
        views += [
            pieces[n].view(shape.matrices[n]),
            pieces[n + 1].view(shape.matrices[n + 1]),
            pieces[count + n],
            bias_hh if shape.cell == "gru" else bias_hh.detach(),
        ]
    return views


def _lengths(mask: Any) -> Any:
    """Return the steps of every sequence, on the CPU, where PyTorch needs them."""
    mask = mask.cpu()
    if not (mask[:, 0].all() and (mask[:, 1:] <= mask[:, :-1]).all()):
        raise ValueError(LEFT_PADDED)
    return mask.sum(1)
