"""Evidence of the kernel that really ran, read from the backend and never from the request.

TensorFlow has the graphs that it traced, JAX the program that it lowered, PyTorch the operations
that its profiler recorded in one step. Each backend has a module here; the same rules identify the
kernel from their counts.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras

from workloads.implementations import Implementation

if TYPE_CHECKING:
    from workloads.models.passes import Passes
    from workloads.models.run import TrainingRun

TF32_CAPABILITY = 8
"""The first compute capability of NVIDIA's GPUs with TF32 (Ampere)."""

_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernel that ran, in the grammar of implementations (`portable+xla`), and its evidence.

    `ran` may also be `mixed` (parts ran different kernels) or `unknown`.
    """

    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The recurrent layers of a model; `steps` is the length of their sequences."""

    layers: int
    directions: int
    steps: int

    @property
    def passes(self) -> int:
        """Passes over the sequence: a layer has one per direction."""
        return self.layers * self.directions


@dataclass(slots=True)
class OperationCounts:
    """Counts of operations in a forward (and perhaps backward) pass, from a backend's evidence."""

    library_calls: int = 0
    """Calls of a library's recurrent kernel, in the forward pass, outside of the marker."""

    fused_calls: int = 0
    """The same, inside of the marker."""

    loops: int = 0
    """Loops over time that compute matrix products."""

    products: Counter[str] = field(default_factory=Counter)
    """Matrix products outside of loops, by the type of their operands."""

    types: Counter[str] = field(default_factory=Counter)
    """Types of operands in the loops and the library's calls."""


def prove(run: TrainingRun, stack: Stack) -> Proof:
    """Identify the kernel of a run's train steps after its warm-up; leave the state as it was.

    Args:
        run: a run whose steps have run.
        stack: its recurrent layers.
    """
    module = importlib.import_module(f"workloads.evidence.{keras.backend.backend()}")
    proof: Proof = module.prove(run, stack)
    return proof


def prove_passes(passes: Passes, batch: Any, stack: Stack, implementation: Implementation) -> Proof:
    """Identify the kernel of a forward and backward pass that has run once.

    Args:
        passes: the passes of a model.
        batch: the batch that they ran on.
        stack: the model's recurrent layers.
        implementation: decides whether there is a graph to inspect.
    """
    module = importlib.import_module(f"workloads.evidence.{implementation.backend}")
    proof: Proof = module.prove_passes(passes, batch, stack, implementation)
    return proof


def identify_kernel(
    counts: OperationCounts, stack: Stack, *, eager: bool = False, tf32: bool = False
) -> tuple[str, ...]:
    """Return the kernel and its options that explain the counts.

    Args:
        counts: the counted operations.
        stack: the recurrent layers of the model.
        eager: Python ran the operations one by one, so that a loop appears as its products.
        tf32: products of float32 are rounded to TF32 on this device.

    Returns:
        For instance ("portable", "bf16", "unroll"); ("mixed",) and ("unknown",) have no options.
    """
    min_products = stack.passes * stack.steps
    step_types = {kind for kind, number in counts.products.items() if number >= min_products}
    if counts.fused_calls or counts.library_calls:
        kernel, types = _library_kernel(counts, stack), set(counts.types)
    elif counts.loops >= stack.passes:
        kernel, types = "portable", set(counts.types)
    elif counts.loops == 0 and step_types:
        kernel, types = "portable" if eager else "portable+unroll", step_types
    else:
        return ("unknown",)
    if kernel == "mixed" or len(types) != 1:
        return ("mixed",)
    (kind,) = types
    precision = _PRECISIONS.get(kind) or ("tf32" if tf32 and kind == "float32" else None)
    base, *options = kernel.split("+")
    return (base, *sorted([*options, *([precision] if precision else [])]))


def _library_kernel(counts: OperationCounts, stack: Stack) -> str:
    if counts.loops or (counts.fused_calls and counts.library_calls):
        return "mixed"
    if counts.fused_calls:
        return "fused" if counts.fused_calls == 1 else "mixed"
    if counts.library_calls == stack.passes:
        return "cudnn"
    # PyTorch's and JAX's layers of two directions make one call for both
    has_loop = max(counts.products.values(), default=0) >= stack.steps
    return "cudnn" if counts.library_calls == stack.layers and not has_loop else "mixed"


def format_kernel(parts: tuple[str, ...], *options: str) -> str:
    """Return a kernel and its options as the text of `kernel_ran`."""
    kernel, *kernel_options = parts
    return (
        kernel
        if kernel in ("mixed", "unknown")
        else "+".join([kernel, *sorted([*kernel_options, *options])])
    )


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as a text such as `While × 2, MatMul × 8`, without those of 0."""
    text = ", ".join(f"{name} × {count}" for name, count in counts.items() if count)
    return text or "no recurrent operation"


def combine_proofs(proofs: set[Proof]) -> Proof:
    """Return the common proof of all tracings; `mixed` if they differ."""
    if not proofs:
        return Proof("unknown", "no train step was traced")
    if len({proof.ran for proof in proofs}) > 1:
        texts = sorted(f"{proof.ran} ({proof.evidence})" for proof in proofs)
        return Proof("mixed", f"the traced train steps differ: {'; '.join(texts)}")
    return min(proofs, key=lambda proof: proof.evidence)
