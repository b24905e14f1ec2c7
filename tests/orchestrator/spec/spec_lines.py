"""Good specs whose lines tests replace, and the problems of the result."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchestrator.spec import Problem, SpecError, SweepSpec, parse_spec, yaml_locations
from orchestrator.spec.json_schema import SCHEMA_FILE
from orchestrator.spec.sections import SHORT_FORMS
from tests.orchestrator.sample_specs import spec_text

LINES, LISTED = (
    Path(__file__).with_name(name).read_text().splitlines()[1:]
    for name in ("good.yaml", "listed.yaml")
)

VALIDATOR = jsonschema.Draft7Validator(json.loads(SCHEMA_FILE.read_text()))


def written(lines: dict[int, str], good: Sequence[str] = LINES) -> str:
    """Return a good spec with some of its lines (from 1) replaced; empty ones are free."""
    text = [lines.get(number, line) for number, line in enumerate(good, 1)]
    return "\n".join(text) + "\n"


def precise(**changes: Any) -> str:
    usual = {"configs": None, "space": {"units": {"low": 8, "high": 64}}, "blocks": "auto"}
    return spec_text(**{**usual, "hardware": ["gpu", "cpu"], **changes})


def read(text: str, *overrides: str) -> SweepSpec:
    """Return a good spec, which the JSON Schema has to accept as well."""
    spec = parse_spec(text, source="x.yaml", overrides=overrides)
    data = yaml_locations.parse_yaml(
        text, source="x", overrides=overrides, short_forms=SHORT_FORMS
    ).data
    VALIDATOR.validate(data)
    return spec


def refused(text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        read(text, *overrides)
    return list(caught.value.problems)
