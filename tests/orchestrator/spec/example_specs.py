"""Good specs to read, to edit line by line, and to break; and the problems of the result."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import jsonschema
import pytest

from orchestrator.spec import Problem, SpecError, SweepSpec, parse_spec, yaml_locations
from orchestrator.spec.sections import SHORT_FORMS
from orchestrator.spec.spec_schema import SCHEMA_FILE
from tests.building.specs import build_spec_text

QUICK_SPEC = """\
name: quick
workload: image_rows
settings:
  dataset: digits
  cell: lstm
  epochs: 2
search:
  sampler: tpe
  configs: 4
  space:
    units: {low: 16, high: 128, log: true}
    layers: {low: 1, high: 2}
    batch_size: [32, 64]
  objectives:
    val_accuracy: maximize
    step_ms: minimize
arms:
  implementations:
    - tensorflow/portable
    - tensorflow/cudnn
  hardware: [cpu, gpu]
repeats: 2
"""
"""A good spec with a space, objectives and hardware."""

LISTED_CONFIGS = """\
name: rows
workload: image_rows
settings:
  dataset: digits
search:
  configs:
    - {units: 8, layers: 1, use_bias: true}
    - {units: 16, layers: 2, use_bias: true}
    - {units: 8, layers: 2, use_bias: false}
arms:
  implementations: [tensorflow/portable]
"""
"""A good spec with a list of configs."""

VALIDATOR = jsonschema.Draft7Validator(json.loads(SCHEMA_FILE.read_text()))


def edit_spec(text: str, replaced: Mapping[str, str] = {}, added: str = "") -> str:
    """Return the spec with some lines replaced, and lines added at its end.

    `replaced` has the beginning of each line, such as `units`, and what replaces it, at the
    same indentation. An empty replacement removes the line's text and keeps the numbers of others.
    """
    lines = text.splitlines()
    edited = list(lines)
    for beginning, replacement in replaced.items():
        index = _line_index(lines, beginning)
        indentation = " " * (len(lines[index]) - len(lines[index].lstrip()))
        edited[index] = textwrap.indent(replacement, indentation)
    return "\n".join([*edited, added]) + "\n"


def line_number(text: str, beginning: str) -> int:
    """Return the number, from 1, of the only line that begins so after its indentation."""
    return _line_index(text.splitlines(), beginning) + 1


def _line_index(lines: list[str], beginning: str) -> int:
    [index] = [i for i, line in enumerate(lines) if line.lstrip().startswith(beginning)]
    return index


def precise_spec_text(**changes: Any) -> str:
    """Return a spec of automatic configs on a GPU and a CPU (see `build_spec_data`)."""
    usual = {"configs": "auto", "space": {"units": {"low": 8, "high": 64}}}
    return build_spec_text(**{**usual, "hardware": ["gpu", "cpu"], **changes})


def read_spec(text: str, *overrides: str) -> SweepSpec:
    """Return a good spec, which the JSON Schema has to accept as well."""
    spec = parse_spec(text, source="x.yaml", overrides=overrides)
    data = yaml_locations.parse_yaml(
        text, source="x", overrides=overrides, short_forms=SHORT_FORMS
    ).data
    VALIDATOR.validate(data)
    return spec


def problems_of(text: str, *overrides: str) -> list[Problem]:
    """Return the problems for which this spec is refused."""
    with pytest.raises(SpecError) as caught:
        read_spec(text, *overrides)
    return list(caught.value.problems)


class MalformedSpec(NamedTuple):
    """An edit of a good spec, and parts of the one problem that it causes."""

    name: str
    key: str
    expected: str = ""
    received: str = ""
    hint: str = ""
    text: str = QUICK_SPEC
    replaced: Mapping[str, str] = {}
    """Beginnings of lines, and what replaces them (see `edit_spec`)."""
    added: str = ""
    line: str = ""
    """How the line of the problem begins; the added one, else the first replaced, if empty."""

    def expect_its_problem_alone(self) -> None:
        edited = edit_spec(self.text, self.replaced, self.added)
        wrong = self.line or self.added or next(iter(self.replaced.values()))
        [problem] = problems_of(edited)
        location = f"x.yaml:{line_number(edited, wrong.splitlines()[0])}"
        assert (problem.location, problem.key) == (location, self.key)
        assert self.expected in problem.expected
        assert self.received in problem.received
        assert self.hint in problem.hint
