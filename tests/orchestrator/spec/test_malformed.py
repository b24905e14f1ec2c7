"""Malformed specs, one row of malformed.yaml each: its one problem is reported at its line."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.orchestrator.sample_specs import spec_text
from tests.orchestrator.spec.spec_lines import LINES, LISTED, precise, refused, written

ROWS: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_name("malformed.yaml").read_text())
OBJECTIVES = {"val_accuracy": "maximize", "val_loss": {"direction": "minimize", "over": "cpu"}}
PRUNED = {"settings": {"epochs": 8}, "objectives": {"val_accuracy": "maximize"}}
CASES = [(LINES, *row) for row in ROWS["lines"]] + [(LISTED, *row) for row in ROWS["lists"]]
CASES += [(LINES, {23: f"seed: {'9' * 5000}"}, 23, "seed", "64 bits", "999")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[3]} {case[5]}")
def test_a_wrong_spec_is_reported_with_its_place(case: Any) -> None:
    good, lines, line, key, expected, received, *hint = case
    (problem,) = refused(written(lines, good))
    assert (problem.place, problem.key) == (f"x.yaml:{line}", key)
    assert expected in problem.expected
    assert received in problem.received
    assert "".join(hint) in problem.hint


@pytest.mark.parametrize(("changes", "key", "expected"), ROWS["pruners"])
def test_a_pruner_that_cannot_prune_is_refused(
    changes: dict[str, Any], key: str, expected: str
) -> None:
    problems = refused(spec_text(**{**PRUNED, **changes}))
    assert [expected in one.expected for one in problems if one.key == key] == [True]


@pytest.mark.parametrize(("override", "key", "expected", "hint"), ROWS["overrides"])
def test_a_wrong_precision_is_reported_at_its_key(
    override: str, key: str, expected: str, hint: str
) -> None:
    problem = {one.key: one for one in refused(precise(objectives=OBJECTIVES), override)}[key]
    assert expected in problem.expected
    assert hint in problem.hint
