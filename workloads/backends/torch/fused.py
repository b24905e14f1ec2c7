"""PyTorch's fused RNN `torch._VF`, which `nn.LSTM` calls, on a CPU too.

See `StackCall`. The weights are views of one buffer in cuDNN's layout, so that cuDNN
copies nothing (`nn.LSTM.flatten_parameters` has the same purpose).
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from workloads.backends.stack_call import LEFT_PADDED, SCOPE, StackCall, StackShape


def run_stack(call: StackCall) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and final states; `ValueError` if the mask pads left, or covers a sequence."""
    sequences, lengths = call.sequences, call.lengths
    if lengths is not None and not call.is_right_padded:
        raise ValueError(LEFT_PADDED)
    shape = call.shape
    function = getattr(torch._VF, shape.cell)
    initial = call.states if shape.cell == "lstm" else call.states[0]
    options = (
        True,  # biases
        shape.layers,
        call.dropout if call.training else 0.0,
        call.training or torch.is_grad_enabled(),  # cuDNN keeps what its backward pass needs
        shape.bidirectional,
    )
    # The scope names the call in a profile; without a profile it would cost 1 %.
    is_profiled = torch.autograd._profiler_enabled()
    with torch.profiler.record_function(SCOPE) if is_profiled else nullcontext():
        views = _views(shape, call.weights)
        if lengths is None:
            outputs, *final = function(sequences, initial, views, *options, True)
            return outputs, tuple(final)
        packed = pack_padded_sequence(
            sequences, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, *final = function(packed.data, packed.batch_sizes, initial, views, *options)
        return (
            pad_packed_sequence(
                packed._replace(data=outputs), batch_first=True, total_length=sequences.shape[1]
            )[0],
            tuple(state.index_select(1, packed.unsorted_indices) for state in final),
        )


def _views(shape: StackShape, weights: Any) -> list[Any]:
    """Return weight_ih, weight_hh, bias_ih and bias_hh of every pseudo-layer."""
    # A recurrent bias that is not trained is detached, and its gradient is zero.
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
