"""The catalogue as data, and as a JSON object."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.catalogue.kernel_support import needs
from orchestrator.hardware import HardwareClass
from orchestrator.spec import yaml_locations
from workloads import registry
from workloads.eligibility import ineligibility_reason
from workloads.implementations import BACKENDS, KERNELS, OPTIONS, Implementation
from workloads.registry import TIMING_METRICS, Workload

FORMAT, VERSION = "rnnsweep-workloads", 2


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Workloads, hardware, and the user's settings for which eligibility is checked.

    `is_full` is false for a catalogue of one workload.
    """

    workloads: tuple[Workload, ...]
    hardware: tuple[HardwareClass, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_full: bool = True

    def reasons(
        self, implementation: Implementation, hardware: HardwareClass
    ) -> dict[str, str | None]:
        """Return by workload why an implementation cannot run there; None if it can."""
        return {
            workload.name: ineligibility_reason(
                implementation, workload.traits(self.settings), hardware.device
            )
            for workload in self.workloads
        }


def full_catalogue(hardware: Sequence[HardwareClass]) -> Catalogue:
    """Return the catalogue of all built-in workloads with their defaults."""
    return Catalogue(registry.built_in_workloads(), tuple(hardware))


def workload_catalogue(
    name: str, overrides: Sequence[str], hardware: Sequence[HardwareClass]
) -> Catalogue:
    """Return the catalogue of one workload with its defaults and these settings (`KEY=YAML`).

    Raises:
        Refusal: it is no built-in workload, or does not take the settings.
        SpecError: an override is not `KEY=VALUE`.
    """
    try:
        workload = registry.find_workload(name)
    except registry.UnknownWorkload as error:
        raise Refusal(str(error)) from None
    if not workload.is_built_in:
        names = ", ".join(built_in.name for built_in in registry.built_in_workloads())
        raise Refusal(
            f"{name} is a workload of your own; its rules are unknown here. Expected a built-in "
            f"one: {names}"
        )
    document = yaml_locations.read("{}", source="--set", overrides=overrides, example="cell=gru")
    try:
        workload.resolve(document.data)
    except ValidationError as error:
        raise Refusal(registry.explain_invalid_settings(error, workload.settings_model)) from None
    return Catalogue((workload,), tuple(hardware), document.data, is_full=False)


def plain_implementations() -> list[Implementation]:
    """Return every backend with every kernel, without options."""
    return [Implementation(backend, kernel) for backend in BACKENDS for kernel in KERNELS]


def with_options(plain: Implementation) -> list[Implementation]:
    """Return the implementation with each option alone."""
    return [Implementation(plain.backend, plain.kernel, (option,)) for option in OPTIONS]


def choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the values of a setting that takes one of a few texts; nothing for any other."""
    values = typing.get_args(field.annotation)
    return values if all(isinstance(value, str) for value in values) else ()


def as_json(catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue as one versioned object."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "hardware": [hardware.name for hardware in catalogue.hardware],
        "asked": dict(catalogue.settings),
        "workloads": [_workload(workload, catalogue) for workload in catalogue.workloads],
        "needs": [
            {
                "change": need.change,
                "implementation": str(need.implementation),
                "device": need.device,
                "reason": need.reason,
            }
            for need in needs()
        ],
        "backends": dict(BACKENDS),
        "kernels": dict(KERNELS),
        "options": dict(OPTIONS),
    }


def _workload(workload: Workload, catalogue: Catalogue) -> dict[str, Any]:
    model = workload.settings_model
    assert model is not None  # the built-in ones have settings
    return {
        "name": workload.name,
        "summary": workload.summary,
        "settings": [
            {
                "name": name,
                "default": field.default,
                "description": field.description or "",
                "choices": list(choices(field)),
                "searchable": name not in workload.data_settings,
            }
            for name, field in model.model_fields.items()
        ],
        "metrics": list(workload.metrics),
        "timing_metrics": list(TIMING_METRICS),
        "implementations": [
            {
                "implementation": str(implementation),
                "hardware": hardware.name,
                "reason": catalogue.reasons(implementation, hardware)[workload.name],
            }
            for plain in plain_implementations()
            for implementation in (plain, *with_options(plain))
            for hardware in catalogue.hardware
        ],
    }
