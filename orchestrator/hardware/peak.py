"""A class's measured peaks as plain data; `orchestrator.diagnostics.peaks` measures and keeps
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_QUIET = 1.5
"""Rounds of an idle device differ by less; on shared virtual cores by a third."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate per second: the median of several rounds, and the slowest and fastest of them."""

    median: float
    low: float
    high: float

    @property
    def disturbed(self) -> bool:
        """True where the rounds differ so much that other work must have taken the machine."""
        return self.high > _QUIET * self.low


@dataclass(frozen=True, slots=True)
class Peak:
    """The measured peaks of a device under one backend, in one precision.

    Args:
        hardware: id of the hardware class.
        backend: whose matrix product and copy it was.
        precision: `float32`, `tf32` or `bf16`.
        flops_per_s: of a matrix product.
        bytes_per_s: of a copy, read and written bytes counted; None with `tf32`, which is one of
            products only.
        versions: of what it may depend on: packages, driver, CUDA, cuDNN.
        node: where it was measured.
        at: when, in UTC (`2026-11-21T16:20:00Z`).
    """

    hardware: str
    backend: str
    precision: str
    flops_per_s: Rate
    bytes_per_s: Rate | None
    versions: Mapping[str, str]
    node: str
    at: str
