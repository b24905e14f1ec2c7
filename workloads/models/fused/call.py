"""Arguments of a fused library call that are the same on every backend."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.models.canonical_weights import StackShape

SCOPE = "fused_stack"


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Sizes and switches of a stack; `dropout` is the rate between layers, in training only."""

    shape: StackShape
    dropout: float
    seed: int
    tf32: bool


LEFT_PADDED = (
    "mask: expected padding on the right, after at least one unmasked step; received another mask,"
    " which the library's call would silently misread: pad on the right, or use the portable"
    " kernel"
)
