"""Implementations that take part in a parity check, their pairs, and those that took no part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator

from workloads.eligibility import Cell
from workloads.implementations import Implementation, Precision, parse_implementation
from workloads.protocol import Device

TOLERANCES: Mapping[Precision, float] = {"float32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 3e-2}
"""The largest relative differences explained by rounding alone, by the coarser precision.

Observed between two-layer stacks on digits: 4e-7 in float32, 6e-4 in float16 and 5e-3 in bfloat16.
TF32 keeps as many bits of a factor as float16. Gates in another order, a transposed matrix or a
lost bias differ by more than 1e-3 in float32.
"""


def _parsed(name: Any) -> Implementation:
    return name if isinstance(name, Implementation) else parse_implementation(str(name))


class Participant(BaseModel):
    """An implementation on a device with one cell: it saves weights and loads those of others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: Annotated[Implementation, PlainValidator(_parsed), PlainSerializer(str)]
    device: Device
    cell: Cell

    @property
    def label(self) -> str:
        """Implementation and device, as shown to people."""
        return f"{self.implementation} on {self.device}"

    def tolerance(self, other: Participant) -> float:
        """Return the tolerance of the coarser of the two precisions."""
        return max(TOLERANCES[one.implementation.precision] for one in (self, other))


@dataclass(frozen=True, slots=True)
class Excluded:
    """An implementation without results for a cell: it failed on a device, or runs on none."""

    implementation: Implementation
    cell: Cell
    reason: str
    failed_on: Device | None = None


@dataclass(frozen=True, slots=True)
class ParityPair:
    """Weights of one participant, loaded by another; see `workloads.settings`."""

    saved: Participant
    loaded: Participant
    difference: float | None
    exact: bool
    tolerance: float

    @property
    def is_within(self) -> bool:
        """True if the outputs are within the tolerance and the weights exactly the same."""
        return self.exact and self.excess <= 1

    @property
    def excess(self) -> float:
        """The difference over the tolerance; infinite if an output is not finite."""
        return float("inf") if self.difference is None else self.difference / self.tolerance
