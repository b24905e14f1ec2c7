"""Good specs whose lines tests replace, and the problems of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.spec import Problem, SpecError, SweepSpec, parse
from tests.orchestrator.sample_specs import spec_text

LINES = """\
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

""".splitlines()
LISTED = """\
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
""".splitlines()


def written(lines: dict[int, str], good: Sequence[str] = LINES) -> str:
    """Return a good spec with some of its lines (from 1) replaced; empty ones are free."""
    text = [lines.get(number, line) for number, line in enumerate(good, 1)]
    return "\n".join(text) + "\n"


def precise(**changes: Any) -> str:
    """Return a spec of automatic blocks on two kinds of hardware."""
    usual = {"configs": None, "space": {"units": {"low": 8, "high": 64}}, "blocks": "auto"}
    return spec_text(**{**usual, "hardware": ["gpu", "cpu"], **changes})


def read(text: str, *overrides: str) -> SweepSpec:
    return parse(text, source="x.yaml", overrides=overrides)


def refused(text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        read(text, *overrides)
    return list(caught.value.problems)
