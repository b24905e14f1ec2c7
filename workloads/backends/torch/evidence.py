"""Evidence on PyTorch: the operations that its profiler records in a forward pass.

The pass is one of training, or of prediction where predictions are timed. It runs the model on its
first batch. Its loops over time run for the first steps of their sequences only: a profile takes
some kilobytes per operation, and the kinds of operations do not depend on the number. A library's
calls run over the whole sequences, whose length may decide whether the library takes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import torch
from torch.profiler import ProfilerActivity, profile

from workloads.backends import kernel_evidence
from workloads.backends.kernel_evidence import RecurrentPart
from workloads.backends.passes import Passes
from workloads.backends.stack_call import SCOPE
from workloads.protocol import TimedWork

_STEPS = 100
_CALLS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_CUDNN = "aten::_cudnn_rnn"
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution")
_SHOWN = (*_CALLS, _CUDNN, "aten::mkldnn_rnn_layer", *_PRODUCTS)
_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
}


def prove_eager(
    step: kernel_evidence.EagerStep, parts: Sequence[RecurrentPart]
) -> kernel_evidence.Proof:
    """Identify the kernel of the model's layers."""
    return _prove_layers(step.model, step.batch[0], parts, step.timed_work)


def prove_passes(
    passes: Passes, batch: Any, parts: Sequence[RecurrentPart], timed_work: TimedWork
) -> kernel_evidence.Proof:
    """Identify the kernel of a model's layers on a batch."""
    return _prove_layers(passes.model, batch, parts, timed_work)


def _prove_layers(
    model: Any, inputs: Any, parts: Sequence[RecurrentPart], timed_work: TimedWork
) -> kernel_evidence.Proof:
    """Identify the kernel in a forward pass of a model, as in the timed work."""
    tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    on_gpu = any(tensor.device.type == "cuda" for tensor in keras.tree.flatten(tensors))
    with _short_sequences(parts):
        events = _profile_forward(model, tensors, timed_work)
    shown_parts = [replace(part, steps=min(part.steps, _STEPS)) for part in parts]
    counts = count_operations(events, on_gpu=on_gpu)
    if any(part.steps > _STEPS for part in parts) and not _has_loop(counts, shown_parts):
        shown_parts = list(parts)
        counts = count_operations(_profile_forward(model, tensors, timed_work), on_gpu=on_gpu)
    longest = max((part.steps for part in shown_parts), default=0)
    profiled = "forward" if timed_work == "train" else "prediction"
    return kernel_evidence.make_proof(
        f"PyTorch's profiler, {profiled} over {longest} steps",
        counts,
        shown_parts,
        eager=True,
        tf32=on_gpu and rounds_to_tf32(),
    )


def _profile_forward(model: Any, tensors: Any, timed_work: TimedWork) -> list[Any]:
    is_training = timed_work == "train"
    with (
        torch.set_grad_enabled(is_training),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler,
    ):
        model(tensors, training=is_training)
    return list(profiler.profiler.kineto_results.events())


def _has_loop(counts: kernel_evidence.OperationCounts, parts: Sequence[RecurrentPart]) -> bool:
    return any(
        number >= part.steps
        for index, part in enumerate(parts)
        for number in counts.of_part(index).products.values()
    )


@contextmanager
def _short_sequences(parts: Sequence[RecurrentPart]) -> Iterator[None]:
    """Let recurrent layers compute the first steps of long sequences, and return zeros after."""
    layers = [part.layer for part in parts]
    calls = [layer.call for layer in layers]
    for layer, call in zip(layers, calls, strict=True):
        layer.call = _ShortCall(call, has_steps=layer.return_sequences)
    try:
        yield
    finally:
        for layer, call in zip(layers, calls, strict=True):
            layer.call = call


@dataclass(frozen=True, slots=True)
class _ShortCall:
    """The call of a recurrent layer, on the first steps of its sequences alone."""

    call: Callable[..., Any]
    has_steps: bool
    """The layer returns the outputs of all steps."""

    def __call__(self, sequences: Any, *arguments: Any, mask: Any = None, **named: Any) -> Any:
        missing = sequences.shape[1] - _STEPS
        if mask is not None:
            named["mask"] = mask[:, :_STEPS]
        outputs = self.call(sequences[:, :_STEPS], *arguments, **named)
        if missing <= 0 or not self.has_steps:
            return outputs
        is_alone = not isinstance(outputs, list | tuple)  # else final states follow
        first, *states = [outputs] if is_alone else outputs
        longer = torch.cat([first, first.new_zeros(first.shape[0], missing, *first.shape[2:])], 1)
        return longer if is_alone else type(outputs)([longer, *states])


def count_operations(events: Iterable[Any], *, on_gpu: bool) -> kernel_evidence.OperationCounts:
    """Count the recurrent operations of a profile; on a GPU only the calls that cuDNN ran."""
    counts, events = kernel_evidence.OperationCounts(), list(events)
    calls = [event for event in events if event.name() in _CALLS]
    scopes = [event for event in events if event.name() == SCOPE]
    cudnn = [event for event in events if event.name() == _CUDNN]
    parts = [event for event in events if kernel_evidence.is_part_scope(event.name())]
    for event in events:
        if (name := event.name()) in _SHOWN:
            counts.shown[name] += 1
        if name in _PRODUCTS and not happened_in(event, calls):
            counts.at(_name_around(event, parts)).products[operand_type(event)] += 1
    for call in calls:
        is_fused = happened_in(call, scopes)
        if any(happened_in(event, [call]) for event in cudnn) or (is_fused and not on_gpu):
            scope = _name_around(call, parts)
            counts.add_library_call(operand_type(call), f"{scope}/{SCOPE}" if is_fused else scope)
    return counts


def _name_around(event: Any, scopes: list[Any]) -> str:
    """Return the name of the scope that an event happened in; empty outside of all."""
    return next((scope.name() for scope in scopes if happened_in(event, [scope])), "")


def happened_in(event: Any, enclosing: list[Any]) -> bool:
    """Return True if an event of a profile happened within one of the enclosing events."""
    began_ns, ended_ns = event.start_ns(), event.start_ns() + event.duration_ns()
    return any(
        outer.start_ns() <= began_ns and ended_ns <= outer.start_ns() + outer.duration_ns()
        for outer in enclosing
    )


def operand_type(event: Any) -> str:
    """Return the type of the first operand."""
    types = event.dtypes()
    return _TYPES.get(types[0], types[0]) if types else "no type"


def rounds_to_tf32() -> bool:
    """Return True if the switches are on, and the GPU has the format."""
    allowed = torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    return allowed and torch.cuda.get_device_capability()[0] >= kernel_evidence.TF32_CAPABILITY
