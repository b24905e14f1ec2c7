"""PyTorch's fused RNN `torch._VF`, which `nn.LSTM` calls, on a CPU too.

See `StackCall`. The weights are views of one buffer in cuDNN's layout, so that cuDNN
copies nothing (`nn.LSTM.flatten_parameters` has the same purpose).
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence

from workloads.backends.stack_call import LEFT_PADDED, SCOPE, StackCall, StackShape


def run_stack(call: StackCall) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and final states; `ValueError` if the mask pads left, or covers a sequence."""
    sequences, shape = call.sequences, call.shape
    lengths = None if call.lengths is None else _lengths_on_host(call)
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
        packed = pack_padded_sequence(sequences, lengths, batch_first=True, enforce_sorted=False)
        outputs, *final = function(packed.data, packed.batch_sizes, initial, views, *options)
        # `pad_packed_sequence` would also copy the order of the sequences back, and wait for that.
        padded, _ = torch._VF._pad_packed_sequence(
            outputs, packed.batch_sizes, True, 0.0, sequences.shape[1]
        )
        return (
            padded.index_select(0, packed.unsorted_indices),
            tuple(state.index_select(1, packed.unsorted_indices) for state in final),
        )


def _lengths_on_host(call: StackCall) -> torch.Tensor:
    """Return the lengths of the sequences; raise `ValueError` if the mask does not pad right."""
    # One copy for both: each copy from a GPU waits for all the work before it.
    is_right_padded = call.is_right_padded.to(call.lengths.dtype).reshape(1)
    on_host = torch.cat((call.lengths, is_right_padded)).cpu()
    if not on_host[-1]:
        raise ValueError(LEFT_PADDED)
    return on_host[:-1]


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
