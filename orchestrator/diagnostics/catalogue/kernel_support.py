"""What each kernel needs of the layers that it runs, told by asking the rules.

Nothing is written down twice: each row is one question to `workloads.eligibility`.
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
    """One thing that is not as it is by default: a trait of the layers, or an option."""

    name: str
    traits: LayerTraits = field(default_factory=LayerTraits)
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """Whether an implementation can do a change on a device; `reason` is None where it can."""

    change: str
    implementation: Implementation
    device: Device
    reason: str | None


def changes() -> Iterator[Change]:
    """Nothing changed, each trait changed alone, and each option."""
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
    """Every backend with every kernel that runs on that device at all, options aside."""
    plain = (Implementation(backend, kernel) for backend in BACKENDS for kernel in KERNELS)
    return tuple(each for each in plain if _why_not(each, LayerTraits(), device) is None)


def needs() -> Iterator[Need]:
    """Every change on every implementation that runs on a device at all, whatever is installed."""
    for device in DEVICES:
        for change in changes():
            for each in runners(device):
                asked = replace(each, options=change.options)
                yield Need(change.name, each, device, _why_not(asked, change.traits, device))


def _why_not(each: Implementation, traits: LayerTraits, device: Device) -> str | None:
    return ineligibility_reason(each, traits, device, has_package=lambda _: True)
