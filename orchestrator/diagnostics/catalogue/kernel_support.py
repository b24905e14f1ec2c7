"""The requirements of each kernel on its layers.

They are read from `workloads.eligibility`, which is the only place that states them.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from workloads.eligibility import Cell, LayerTraits, ineligibility_reason
from workloads.implementations import BACKENDS, KERNELS, OPTIONS, Implementation
from workloads.protocol import Device

DEVICES: tuple[Device, ...] = ("gpu", "cpu")


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the defaults: a trait of the layers, or an option."""

    name: str
    traits: LayerTraits = field(default_factory=LayerTraits)
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """Support of a change by an implementation on a device; `reason` is None if it is supported."""

    change: str
    implementation: Implementation
    device: Device
    reason: str | None


def changes() -> Iterator[Change]:
    """Yield no change, each trait changed alone, and each option."""
    usual = LayerTraits()
    yield Change("one lstm layer")
    for cell in typing.get_args(Cell):
        if cell != usual.cell:
            yield Change(f"cell {cell}", replace(usual, cell=cell))
    yield Change("activation relu", replace(usual, activation="relu"))
    yield Change("recurrent_activation relu", replace(usual, recurrent_activation="relu"))
    yield Change("recurrent_dropout", replace(usual, recurrent_dropout=0.2))
    yield Change("use_bias false", replace(usual, use_bias=False))
    yield Change("layers 2", replace(usual, layers=2))
    yield Change("layers 2 with dropout", replace(usual, layers=2, dropout=0.2))
    yield Change("bidirectional", replace(usual, bidirectional=True))
    yield Change("padding right, masked", replace(usual, mask="right"))
    yield Change("padding left, masked", replace(usual, mask="left"))
    yield Change("stateful", replace(usual, stateful=True))
    for option in OPTIONS:
        yield Change(f"+{option}", options=(option,))


def runners(device: Device) -> tuple[Implementation, ...]:
    """Return every backend with every kernel that runs on that device, without options."""
    plain = (Implementation(backend, kernel) for backend in BACKENDS for kernel in KERNELS)
    return tuple(one for one in plain if _reason(one, LayerTraits(), device) is None)


def needs() -> Iterator[Need]:
    """Yield every change on every implementation for a device, installed or not."""
    for device in DEVICES:
        for change in changes():
            for runner in runners(device):
                changed = replace(runner, options=change.options)
                yield Need(change.name, runner, device, _reason(changed, change.traits, device))


def _reason(implementation: Implementation, traits: LayerTraits, device: Device) -> str | None:
    return ineligibility_reason(implementation, traits, device, has_package=lambda _: True)
