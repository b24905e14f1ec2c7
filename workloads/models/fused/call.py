"""What a library call is told of its stack, whatever the backend."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.models.canonical_weights import StackShape

SCOPE = "fused_stack"


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Sizes and switches of one stack; `dropout` is that between layers, in training only."""

    shape: StackShape
    dropout: float
    seed: int
    tf32: bool


LEFT_PADDED = (
    "mask: expected padding on the right, after at least one step that counts; received another"
    " one, which the library's call would quietly misread: pad on the right, or use the portable"
    " kernel"
)
