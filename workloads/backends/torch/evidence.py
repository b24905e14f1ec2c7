"""Evidence on PyTorch: the operations that its profiler records in a forward pass of training.

The pass runs the model's layers on its first batch, over the first steps of the sequences only: a
profile takes some kilobytes per operation, and the kinds of operations do not depend on the number.
"""

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import keras
import torch
from torch.profiler import ProfilerActivity, profile

from workloads.backends import kernel_evidence
from workloads.backends.passes import Passes
from workloads.backends.stack_call import SCOPE

_STEPS = 100
_CALLS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_CUDNN = "aten::_cudnn_rnn"
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
_SHOWN = (*_CALLS, _CUDNN, "aten::mkldnn_rnn_layer", *_PRODUCTS)
_TYPES = {"float": "float32", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}


def prove_eager(
    step: kernel_evidence.EagerStep, stack: kernel_evidence.Stack
) -> kernel_evidence.Proof:
    """Identify the kernel of the model's layers."""
    inputs, _ = step.batch
    return _prove_layers(step.model, inputs, stack)


def prove_passes(passes: Passes, batch: Any, stack: kernel_evidence.Stack) -> kernel_evidence.Proof:
    """Identify the kernel of a model's layers on a batch."""
    return _prove_layers(passes.model, batch, stack)


def _prove_layers(model: Any, inputs: Any, stack: kernel_evidence.Stack) -> kernel_evidence.Proof:
    """Identify the kernel in a forward pass of a model, as in training.

    The layers of a sequential model run on the first steps only; any other model runs whole.
    """
    is_chain = isinstance(model, keras.Sequential)
    steps = min(stack.steps, _STEPS) if is_chain else stack.steps
    outputs = keras.ops.convert_to_tensor(inputs[:, :steps] if is_chain else inputs)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        if is_chain:
            for layer in model.layers:
                has_argument = "training" in inspect.signature(layer.call).parameters
                outputs = layer(outputs, training=True) if has_argument else layer(outputs)
        else:
            outputs = model(outputs, training=True)
    on_gpu = outputs.device.type == "cuda"
    return kernel_evidence.make_proof(
        f"PyTorch's profiler, forward over {steps} steps",
        count_operations(profiler.profiler.kineto_results.events(), on_gpu=on_gpu),
        replace(stack, steps=steps),
        eager=True,
        tf32=on_gpu and _rounds_to_tf32(),
    )


def count_operations(events: Iterable[Any], *, on_gpu: bool) -> kernel_evidence.OperationCounts:
    """Count the recurrent operations of a profile; on a GPU only the calls that cuDNN ran."""
    counts, events = kernel_evidence.OperationCounts(), list(events)
    calls = [event for event in events if event.name() in _CALLS]
    scopes = [event for event in events if event.name() == SCOPE]
    cudnn = [event for event in events if event.name() == _CUDNN]
    for event in events:
        if (name := event.name()) in _SHOWN:
            counts.shown[name] += 1
        if name in _PRODUCTS and not _is_in(event, calls):
            counts.products[_type_of(event)] += 1
    for call in calls:
        is_fused = _is_in(call, scopes)
        if any(_is_in(event, [call]) for event in cudnn) or (is_fused and not on_gpu):
            counts.add_library_call(_type_of(call), SCOPE if is_fused else "")
    return counts


def _is_in(event: Any, enclosing: list[Any]) -> bool:
    """Return True if an event of a profile happened within one of the enclosing events."""
    began_ns, ended_ns = event.start_ns(), event.start_ns() + event.duration_ns()
    return any(
        outer.start_ns() <= began_ns and ended_ns <= outer.start_ns() + outer.duration_ns()
        for outer in enclosing
    )


def _type_of(event: Any) -> str:
    """Return the type of the first operand."""
    types = event.dtypes()
    return _TYPES.get(types[0], types[0]) if types else "no type"


def _rounds_to_tf32() -> bool:
    """Return True if the switches are on, and the GPU has the format."""
    allowed = torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    return allowed and torch.cuda.get_device_capability()[0] >= kernel_evidence.TF32_CAPABILITY
