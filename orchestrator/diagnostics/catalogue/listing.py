"""The catalogue as data: what a command shows of it, and its JSON object."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic.fields import FieldInfo

from orchestrator.diagnostics.catalogue.kernel_support import needs
from orchestrator.hardware import HardwareClass
from workloads import registry
from workloads.eligibility import ineligibility_reason
from workloads.implementations import BACKENDS, KERNELS, OPTIONS, Implementation
from workloads.registry import TIMING_METRICS, Workload

FORMAT, VERSION = "rnnsweep-workloads", 2


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Workloads, hardware, and the settings that eligibility is asked with beside the defaults.

    `is_whole` is false where one workload alone was asked for.
    """

    workloads: tuple[Workload, ...]
    hardware: tuple[HardwareClass, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = True

    def why_not(self, each: Implementation, hardware: HardwareClass) -> dict[str, str | None]:
        """Why an implementation cannot run there, or None, for each workload by name."""
        return {
            workload.name: ineligibility_reason(
                each, workload.traits(self.settings), hardware.device
            )
            for workload in self.workloads
        }


def whole(hardware: Sequence[HardwareClass]) -> Catalogue:
    """Every built-in workload with its defaults."""
    return Catalogue(registry.built_in_workloads(), tuple(hardware))


def plain_implementations() -> list[Implementation]:
    """Every backend with every kernel, without options."""
    return [Implementation(backend, kernel) for backend in BACKENDS for kernel in KERNELS]


def with_options(each: Implementation) -> list[Implementation]:
    """The implementation with each option alone."""
    return [Implementation(each.backend, each.kernel, (option,)) for option in OPTIONS]


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The values of a setting that takes one of a few texts; empty for any other."""
    found = typing.get_args(field.annotation)
    return found if all(isinstance(each, str) for each in found) else ()


def as_json(catalogue: Catalogue) -> dict[str, Any]:
    """The catalogue as one versioned object."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "hardware": [each.name for each in catalogue.hardware],
        "asked": dict(catalogue.settings),
        "workloads": [_workload(each, catalogue) for each in catalogue.workloads],
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
                "implementation": str(each),
                "hardware": hardware.name,
                "reason": catalogue.why_not(each, hardware)[workload.name],
            }
            for plain in plain_implementations()
            for each in (plain, *with_options(plain))
            for hardware in catalogue.hardware
        ],
    }
