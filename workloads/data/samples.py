"""Samples for supervised training: inputs with their targets, in an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays whose first axis counts samples; `targets` has one entry (or row) per input.

    The arrays may be memory-mapped: no method copies more than it returns.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, order: Order) -> Samples:
        """Return the samples at these indices, in this order."""
        return Samples(self.inputs[order], self.targets[order])

    def first(self, count: int | None) -> Samples:
        """Return the first `count` samples; all for None, or if there are fewer."""
        return self if count is None else Samples(self.inputs[:count], self.targets[:count])

    @property
    def nbytes(self) -> int:
        """Size of both arrays in bytes."""
        return self.inputs.nbytes + self.targets.nbytes
