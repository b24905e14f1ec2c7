"""`rnnsweep workloads NAME --set KEY=VALUE`: what one workload runs with some settings."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.catalogue.listing import Catalogue
from orchestrator.hardware import HardwareClass
from orchestrator.spec import SpecError, yaml_locations
from workloads import registry


def one(name: str, overrides: Sequence[str], hardware: Sequence[HardwareClass]) -> Catalogue:
    """One workload, asked with its defaults and these settings (`KEY=YAML`).

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
            f"{name} is a workload of your own: expected a built-in one ({names}), whose rules are"
            " known here"
        )
    document = yaml_locations.read("{}", source="--set", overrides=overrides, example="cell=gru")
    if problems := document.problems(()):
        raise SpecError("--set", problems)
    try:
        workload.resolve(document.data)
    except ValidationError as error:
        raise Refusal(registry.explain_invalid_settings(error, workload.settings_model)) from None
    return Catalogue((workload,), tuple(hardware), document.data, is_whole=False)
