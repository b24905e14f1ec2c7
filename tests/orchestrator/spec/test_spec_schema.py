"""The JSON Schema of a spec. `example_specs.read_spec` checks that it accepts good specs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.spec import spec_schema, yaml_locations
from orchestrator.spec.reading import MODELS
from orchestrator.spec.sections import AutoConfigs, MeasureSpec
from orchestrator.spec.spec_errors import Path as KeyPath
from orchestrator.spec.spec_errors import key_text
from tests.documents import ROOT, blocks
from tests.orchestrator.spec.example_specs import QUICK_SPEC, VALIDATOR
from workloads.registry import BUILT_IN

SWEEPS = sorted((ROOT / "sweeps").rglob("*.yaml"))


def test_the_schema_describes_every_key() -> None:
    schema = spec_schema.spec_schema()
    VALIDATOR.check_schema(schema)
    sections: list[Any] = [schema, *schema["$defs"].values()]
    sections += [form for section in sections for form in section.get("anyOf", ())]
    keys = [item for section in sections for item in section.get("properties", {}).items()]
    assert len(keys) > 150
    assert not [name for name, key in keys if key and "description" not in key]
    for section in (MeasureSpec, AutoConfigs):
        assert schema["$defs"][section.__name__]["anyOf"][0]["enum"] == list(section.words)
    names = [workload.name for workload in BUILT_IN]
    assert schema["properties"]["workload"]["anyOf"][0]["enum"] == names


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_every_sweep_file_names_the_schema_and_is_accepted(path: Path) -> None:
    first, *_ = path.read_text().splitlines()
    relative = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / relative).resolve() == spec_schema.SCHEMA_FILE
    VALIDATOR.validate(yaml_locations.parse_yaml(path.read_text(), source="x").data)


EXAMPLES: list[Any] = [yaml.safe_load(path.read_text()) for path in SWEEPS]
PAGES = [ROOT / "docs" / name for name in ("spec.md", "own_keras.md")]
EXAMPLES += [yaml.safe_load(block) for page in PAGES for _, block in blocks("yaml", page)]
KINDS = [("search", key) for key in ("sampler", "pruner", "configs")] + [("search", "space", "*")]
"""Sections that are of one of several kinds."""


def is_written(path: KeyPath, part: Any) -> bool:
    """Return whether a part of a spec has this key; `*` is any name or index."""
    if not path:
        return True
    first, rest = path[0], path[1:]
    if first == "*":
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return any(is_written(rest, value) for value in inner)
    return isinstance(part, dict) and first in part and is_written(rest, part[first])


def keys_of_specs() -> list[KeyPath]:
    return [
        (*(path[:-1] if path[:-1] in KINDS else path), field.alias or name)
        for path, model in MODELS.items()
        for name, field in model.model_fields.items()
    ]


def test_every_key_has_an_example_that_somebody_would_copy() -> None:
    unwritten = [
        key_text(key)
        for key in keys_of_specs()
        if not any(is_written(key, example) for example in EXAMPLES)
    ]
    assert not unwritten


@pytest.mark.parametrize(
    "override",
    [
        "nam=x",
        "workload=image_row",
        "prices=3",
        "settings.epoch=2",
        "settings.cell=lst",
        "search.sampler=tpee",
        "search.pruner=media",
        "search.space.unit=[1]",
        "search.configs={at_lest: 9}",
        "search.space.units={low: 1, hig: 2}",
        "search.objectives.val_acuracy=maximize",
        "arms.implementations=[tensorflow/cudn]",
        "arms.hardware=[{class: cpu, thread: 2}]",
        "arms.variants=[{name: a, setings: {}}]",
        "measure=timed",
    ],
)
def test_typical_errors_are_refused(override: str) -> None:
    data = yaml_locations.parse_yaml(QUICK_SPEC, source="x", overrides=[override]).data
    assert not VALIDATOR.is_valid(data)
