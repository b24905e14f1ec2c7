"""Who takes part in a parity check: each implementation on each device here that it can run on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator

from orchestrator import hardware
from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.workload_catalogue import PLAIN
from workloads.backends.registry import parse_known_implementation
from workloads.eligibility import ineligibility_reason
from workloads.implementations import AUTO, Implementation, ImplementationError, Precision
from workloads.layer_traits import Cell, LayerTraits
from workloads.protocol import Device

TOLERANCES: Mapping[Precision, float] = {"float32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 3e-2}
"""The largest relative differences explained by rounding alone, by the coarser precision.

Observed between two-layer stacks on digits: 4e-7 in float32, 6e-4 in float16 and 5e-3 in bfloat16.
TF32 keeps as many bits of a factor as float16. Gates in another order, a transposed matrix or a
lost bias differ by more than 1e-3 in float32.
"""


def _parsed(name: Any) -> Implementation:
    return parse_known_implementation(str(name))


class Participant(BaseModel):
    """An implementation on a device with one cell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: Annotated[Implementation, PlainValidator(_parsed), PlainSerializer(str)]
    device: Device
    cell: Cell

    @property
    def label(self) -> str:
        """Implementation and device, as shown to people."""
        return f"{self.implementation} on {self.device}"

    def tolerance(self, loader: Participant) -> float:
        """Return the tolerance of the coarser of the two precisions."""
        return max(
            TOLERANCES[participant.implementation.precision] for participant in (self, loader)
        )


@dataclass(frozen=True, slots=True)
class Excluded:
    """An implementation without results for a cell: it failed on a device, or runs on none."""

    implementation: Implementation
    cell: Cell
    reason: str
    failed_on: Device | None = None


def devices() -> tuple[Device, ...]:
    """Return the devices of this machine, the GPU last."""
    return ("cpu", "gpu") if hardware.probe().gpus else ("cpu",)


def parse_implementations(names: Sequence[str]) -> tuple[Implementation, ...]:
    """Return the implementations of these names; without names each backend with each kernel.

    The kernel `auto` is left out then: Keras chooses one of the others.
    """
    if not names:
        return tuple(implementation for implementation in PLAIN if implementation.kernel != AUTO)
    try:
        return tuple(dict.fromkeys(map(parse_known_implementation, names)))
    except ImplementationError as error:
        raise Refusal(f"IMPLEMENTATION: {error}") from None


def find_participants(
    implementations: Sequence[Implementation],
    cells: Sequence[Cell],
    traits_of: Callable[[Cell], LayerTraits],
) -> tuple[list[Participant], list[Excluded]]:
    """Return who can run on this machine, and who cannot.

    Raises:
        Refusal: None of the implementations can run here.
    """
    participants, excluded, here = list[Participant](), list[Excluded](), devices()
    for cell, implementation in itertools.product(cells, implementations):
        reasons = {
            device: ineligibility_reason(implementation, traits_of(cell), device) for device in here
        }
        participants += [
            Participant(implementation=implementation, device=device, cell=cell)
            for device, reason in reasons.items()
            if reason is None
        ]
        if None not in reasons.values():
            excluded.append(Excluded(implementation, cell, str(reasons[here[-1]])))
    if not participants:
        lines = sorted({f"\n  {without.implementation}: {without.reason}" for without in excluded})
        raise Refusal(f"none of the implementations can run on this machine{''.join(lines)}")
    return participants, excluded
