"""The JSON Schema of a spec. `example_specs.read_spec` checks that it accepts good specs."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.spec import json_schema, yaml_locations
from orchestrator.spec.sections import AutoConfigs, DisturbedSpec, MeasureSpec
from tests.orchestrator.spec.example_specs import QUICK_SPEC, VALIDATOR
from workloads.registry import BUILT_IN

SWEEPS = sorted((Path(__file__).parents[3] / "sweeps").rglob("*.yaml"))


def test_the_schema_describes_every_key() -> None:
    schema = json_schema.spec_schema()
    VALIDATOR.check_schema(schema)
    sections: list[Any] = [schema, *schema["$defs"].values()]
    sections += [form for section in sections for form in section.get("anyOf", ())]
    keys = [item for section in sections for item in section.get("properties", {}).items()]
    assert len(keys) > 150
    assert not [name for name, key in keys if key and "description" not in key]
    for section in (MeasureSpec, AutoConfigs, DisturbedSpec):
        assert schema["$defs"][section.__name__]["anyOf"][0]["enum"] == list(section.words)
    names = [workload.name for workload in BUILT_IN]
    assert schema["properties"]["workload"]["anyOf"][0]["enum"] == names


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_every_sweep_file_names_the_schema_and_is_accepted(path: Path) -> None:
    first, *_ = path.read_text().splitlines()
    relative = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / relative).resolve() == json_schema.SCHEMA_FILE
    VALIDATOR.validate(yaml_locations.parse_yaml(path.read_text(), source="x").data)


@pytest.mark.parametrize(
    "override",
    [
        "nam=x",
        "workload=image_row",
        "repeats=0",
        "prices=3",
        "arms=null",
        "limits.trial_s=long",
        "settings.epoch=2",
        "settings.epochs=0",
        "settings.cell=lst",
        "search.sampler=tpee",
        "search.pruner=media",
        "search.configs=[3]",
        "search.space.unit=[1]",
        "search.space.units=[]",
        "search.space.units={low: 1, hig: 2}",
        "search.objectives.val_acuracy=maximize",
        "search.objectives.step_ms=maximise",
        "arms.implementations=[tensorflow/cudn]",
        "arms.implementations=[]",
        "arms.hardware=[{class: cpu, thread: 2}]",
        "arms.variants=[{name: a, setings: {}}]",
        "measure=timed",
        "measure.slices=[12]",
        "disturbed=rerun",
    ],
)
def test_typical_errors_are_refused(override: str) -> None:
    data = yaml_locations.parse_yaml(QUICK_SPEC, source="x", overrides=[override]).data
    assert not VALIDATOR.is_valid(data)
