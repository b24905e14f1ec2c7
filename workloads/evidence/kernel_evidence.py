"""Which kernel really ran: read from what a backend was given to run, never from the request.

TensorFlow shows the graphs that it traced, JAX the program that it lowered, PyTorch the operations
that its profiler saw in one step; each has a module here. What they count is judged alike.
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

_TOLD = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernel that ran, in the grammar of implementations (`portable+xla`), and what shows it.

    `ran` may also be `mixed` (parts ran different kernels) or `unknown`.
    """

    ran: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The recurrent layers that are looked for: `steps` is the length of their sequences."""

    layers: int
    directions: int
    steps: int

    @property
    def passes(self) -> int:
        """Passes over the sequence: a layer has one in each direction."""
        return self.layers * self.directions


@dataclass(slots=True)
class OperationCounts:
    """What a forward (and maybe backward) pass holds, as counted in a backend's evidence."""

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
    """Which kernel the train steps of a run used; after its warm-up, which it leaves as it was.

    Args:
        run: whose steps have run.
        stack: its recurrent layers.
    """
    module = importlib.import_module(f"workloads.evidence.{keras.backend.backend()}")
    proof: Proof = module.prove(run, stack)
    return proof


def prove_passes(passes: Passes, batch: Any, stack: Stack, implementation: Implementation) -> Proof:
    """Which kernel a forward and backward pass uses, after it has run once.

    Args:
        passes: those of a model.
        batch: what they have run on.
        stack: the model's recurrent layers.
        implementation: tells whether there is a graph to look at.
    """
    module = importlib.import_module(f"workloads.evidence.{implementation.backend}")
    proof: Proof = module.prove_passes(passes, batch, stack, implementation)
    return proof


def identify_kernel(
    seen: OperationCounts, stack: Stack, *, eager: bool = False, tf32: bool = False
) -> tuple[str, ...]:
    """The kernel and its options that can have made what was seen.

    Args:
        seen: the counts.
        stack: the layers that were looked for.
        eager: whether Python ran the operations one by one: a loop then leaves its products.
        tf32: whether products of float32 are rounded to TF32 here.

    Returns:
        For instance ("portable", "bf16", "unroll"); ("mixed",) and ("unknown",) have no options.
    """
    enough = stack.passes * stack.steps
    often = {kind for kind, times in seen.products.items() if times >= enough}
    if seen.fused_calls or seen.library_calls:
        kernel, types = _library(seen, stack), set(seen.types)
    elif seen.loops >= stack.passes:
        kernel, types = "portable", set(seen.types)
    elif seen.loops == 0 and often:
        kernel, types = "portable" if eager else "portable+unroll", often
    else:
        return ("unknown",)
    if kernel == "mixed" or len(types) != 1:
        return ("mixed",)
    (kind,) = types
    precision = _TOLD.get(kind) or ("tf32" if tf32 and kind == "float32" else None)
    base, *options = kernel.split("+")
    return (base, *sorted([*options, *([precision] if precision else [])]))


def _library(seen: OperationCounts, stack: Stack) -> str:
    if seen.loops or (seen.fused_calls and seen.library_calls):
        return "mixed"
    if seen.fused_calls:
        return "fused" if seen.fused_calls == 1 else "mixed"
    if seen.library_calls == stack.passes:
        return "cudnn"
    # PyTorch's and JAX's layers of two directions make one call for both
    looped = max(seen.products.values(), default=0) >= stack.steps
    return "cudnn" if seen.library_calls == stack.layers and not looped else "mixed"


def format_kernel(parts: tuple[str, ...], *options: str) -> str:
    """A kernel and its options as `kernel_ran` tells them."""
    kernel, *known = parts
    return (
        kernel
        if kernel in ("mixed", "unknown")
        else "+".join([kernel, *sorted([*known, *options])])
    )


def format_counts(counts: Mapping[str, int]) -> str:
    """Counts for people: `While × 2, MatMul × 8`; those of 0 are left out."""
    found = ", ".join(f"{name} × {count}" for name, count in counts.items() if count)
    return found or "no recurrent operation"


def combine_proofs(proofs: set[Proof]) -> Proof:
    """The one proof of all that was traced; where they differ, that they do."""
    if not proofs:
        return Proof("unknown", "no train step was seen")
    if len({proof.ran for proof in proofs}) > 1:
        seen = sorted(f"{proof.ran} ({proof.evidence})" for proof in proofs)
        return Proof("mixed", f"the train steps that were seen differ: {'; '.join(seen)}")
    return min(proofs, key=lambda proof: proof.evidence)
