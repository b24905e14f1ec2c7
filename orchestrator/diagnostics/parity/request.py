"""A request to `rnnsweep parity`: implementations, devices and settings, cell by cell."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from orchestrator.core.errors import Refusal
from orchestrator.spec import yaml_locations
from workloads import registry
from workloads.eligibility import Cell, ineligibility_reason
from workloads.implementations import (
    BACKENDS,
    KERNELS,
    Implementation,
    ImplementationError,
    parse_implementation,
)
from workloads.protocol import Device
from workloads.settings.tasks import ImageRowsSettings

USUAL: Mapping[str, Any] = {
    "units": 32,
    "layers": 2,
    "bidirectional": True,
    "dropout": 0.0,
    "batch_size": 64,
    "samples": 320,
    "validation_samples": 320,
    "epochs": 1,
    "learning_rate": 0.01,
}
"""Settings of `image_rows` that differ from its defaults: a stack that has everything a conversion
can get wrong, and steps enough that no weight is left where it began."""


@dataclass(frozen=True, slots=True)
class Participant:
    """An implementation on a device with one cell: it saves weights and loads those of others."""

    implementation: Implementation
    device: Device
    cell: Cell

    @property
    def label(self) -> str:
        """Implementation and device, as shown to people."""
        return f"{self.implementation} on {self.device}"


@dataclass(frozen=True, slots=True)
class Impossible:
    """An implementation that runs the cell on no device of this machine."""

    implementation: Implementation
    cell: Cell
    reason: str


@dataclass(frozen=True, slots=True)
class ParityRequest:
    """Implementations and devices to compare, with the settings that the user gave."""

    implementations: tuple[Implementation, ...]
    devices: tuple[Device, ...]
    settings: Mapping[str, Any]

    def cells(self) -> tuple[Cell, ...]:
        """Return the cell that the settings name, or all cells."""
        chosen = self.settings.get("cell")
        return (chosen,) if chosen is not None else typing.get_args(Cell)

    def resolved(self, cell: Cell, base_settings: Mapping[str, Any] = USUAL) -> ImageRowsSettings:
        """Return the complete settings of a cell, the user's over `base_settings`.

        Raises:
            Refusal: `image_rows` does not take them.
        """
        try:
            return ImageRowsSettings.model_validate(
                {**base_settings, **self.settings, "cell": cell}
            )
        except ValidationError as error:
            raise Refusal(registry.explain_invalid_settings(error, ImageRowsSettings)) from None

    def participants(
        self, cell: Cell, base_settings: Mapping[str, Any] = USUAL
    ) -> Iterator[Participant | Impossible]:
        """Yield every implementation on each device that it can run that cell on."""
        traits = self.resolved(cell, base_settings).traits()
        for implementation in self.implementations:
            verdicts = {
                device: ineligibility_reason(implementation, traits, device)
                for device in self.devices
            }
            able = [device for device, reason in verdicts.items() if reason is None]
            yield from (Participant(implementation, device, cell) for device in able)
            if not able:
                yield Impossible(implementation, cell, str(verdicts[self.devices[-1]]))


def ask(names: Sequence[str], overrides: Sequence[str], devices: Sequence[Device]) -> ParityRequest:
    """Read a user's request.

    Args:
        names: implementations; none for all that may run here.
        overrides: settings of `image_rows`, as `KEY=YAML`.
        devices: those of this machine. A refusal gives the reason for the last one.

    Raises:
        Refusal: a name is no implementation.
        SpecError: an override is not `KEY=VALUE`.
    """
    document = yaml_locations.read("{}", source="--set", overrides=overrides, example="cell=gru")
    try:
        named = tuple(dict.fromkeys(parse_implementation(name) for name in names))
    except ImplementationError as error:
        raise Refusal(f"IMPLEMENTATION: {error}") from None
    return ParityRequest(named or _every(), tuple(devices), document.data)


def _every() -> tuple[Implementation, ...]:
    """Return each backend with each kernel; also with XLA where that is an option."""
    plain = [Implementation(backend, kernel) for backend in BACKENDS for kernel in KERNELS]
    return (*plain, Implementation("tensorflow", "portable", ("xla",)))
