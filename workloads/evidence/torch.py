"""Evidence on PyTorch: the operations that its profiler records in a forward pass of training.

The pass runs the model's own layers on its first batch, over the first steps of the sequences
only: a profile takes some kilobytes per operation, and a Python loop has dozens of operations per
step. The kind of operations in a layer does not depend on the number of steps.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras
import torch
from torch.profiler import ProfilerActivity, profile

from workloads.evidence.kernel_evidence import (
    TF32_CAPABILITY,
    OperationCounts,
    Proof,
    Stack,
    make_proof,
)
from workloads.implementations import Implementation
from workloads.models.fused import SCOPE
from workloads.models.run import StartState

if TYPE_CHECKING:
    from workloads.models.passes import TorchPasses
    from workloads.models.run import TrainingRun

_STEPS = 100
_CALLS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_CUDNN = ("aten::_cudnn_rnn",)
_CPU_KERNELS = ("aten::mkldnn_rnn_layer",)
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
_TYPES = {"float": "float32", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}


def prove_eager(run: TrainingRun, stack: Stack) -> Proof:
    """Identify the kernel of the model's layers; leave its state as it was."""
    start = StartState(run.model)
    try:
        return _prove_layers(run.model, run.train.first(run.batch_size).inputs, stack)
    finally:
        start.restore()


def prove_passes(
    passes: TorchPasses, batch: Any, stack: Stack, implementation: Implementation
) -> Proof:
    """Identify the kernel of a model's layers on a batch."""
    return _prove_layers(passes.model, batch, stack)


def _prove_layers(model: Any, inputs: Any, stack: Stack) -> Proof:
    """Identify the kernel in a forward pass of a sequential model's layers, as in training."""
    steps = min(stack.steps, _STEPS)
    outputs = keras.ops.convert_to_tensor(inputs[:, :steps])
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for layer in model.layers:
            has_argument = "training" in inspect.signature(layer.call).parameters
            outputs = layer(outputs, training=True) if has_argument else layer(outputs)
    events = [ProfiledOperation(event) for event in profiler.profiler.kineto_results.events()]
    on_gpu = outputs.device.type == "cuda"
    counts, operations = count_operations(events, on_gpu=on_gpu)
    return make_proof(
        f"PyTorch's profiler, forward over {steps} steps",
        counts,
        operations,
        replace(stack, steps=steps),
        eager=True,
        tf32=on_gpu and _rounds_to_tf32(),
    )


class ProfiledOperation:
    """One event of a profile: its name, its time, and the type of its first operand."""

    def __init__(self, event: Any) -> None:
        self.name: str = event.name()
        self.began_ns: int = event.start_ns()
        self.ended_ns: int = self.began_ns + event.duration_ns()
        types = event.dtypes()
        self.type: str = _TYPES.get(types[0], types[0]) if types else "no type"

    def is_in(self, others: list[ProfiledOperation]) -> bool:
        """Return True if it ran within one of the others."""
        return any(o.began_ns <= self.began_ns and self.ended_ns <= o.ended_ns for o in others)


def count_operations(
    events: list[ProfiledOperation], *, on_gpu: bool
) -> tuple[OperationCounts, Counter[str]]:
    """Count the recurrent operations of a profile.

    A library's call is counted if cuDNN ran it. In a fused layer on a CPU, where the library has
    kernels of its own, every call is counted.
    """
    counts, operations = OperationCounts(), Counter[str]()
    calls = [event for event in events if event.name in _CALLS]
    scopes = [event for event in events if event.name == SCOPE]
    cudnn = [event for event in events if event.name in _CUDNN]
    for event in events:
        if event.name in (*_CALLS, *_CUDNN, *_CPU_KERNELS, *_PRODUCTS):
            operations[event.name] += 1
        if event.name in _PRODUCTS and not event.is_in(calls):
            counts.products[event.type] += 1
    for call in calls:
        by_cudnn, is_fused = any(event.is_in([call]) for event in cudnn), call.is_in(scopes)
        if by_cudnn or (is_fused and not on_gpu):
            counts.add_library_call(call.type, SCOPE if is_fused else "")
    return counts, operations


def _rounds_to_tf32() -> bool:
    """Return True if the switches are on, and the GPU has the format."""
    allowed = torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    return allowed and torch.cuda.get_device_capability()[0] >= TF32_CAPABILITY
