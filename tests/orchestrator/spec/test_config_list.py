"""Specs that list their configs: valid lists, and every wrong list reported with its place."""
# ruff: noqa: E501  a table is read by its columns

from __future__ import annotations

import json

import pytest
import yaml

from orchestrator.spec import Search, SweepSpec, parse
from tests.orchestrator.spec.test_load import refused
from tests.orchestrator.spec.test_malformed import Case

LINES = """\
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
LISTED = (
    {"units": 8, "layers": 1, "use_bias": True},
    {"units": 16, "layers": 2, "use_bias": True},
    {"units": 8, "layers": 2, "use_bias": False},
)


def written(lines: dict[int, str]) -> str:
    """The good spec with some of its lines (from 1) replaced; line 10 is free, in the search."""
    text = list(LINES)
    for line, replacement in lines.items():
        text[line - 1] = replacement
    return "\n".join(text) + "\n"


def test_a_list_needs_neither_sampler_nor_space_nor_objectives() -> None:
    search = parse(written({}), source="x.yaml").search
    assert (search.sampler, search.listed, search.count()) == ("list", LISTED, 3)
    assert search.space == {}
    assert parse(written({10: "  sampler: list"}), source="x.yaml").search == search
    assert parse(written({10: "  space: {}"}), source="x.yaml").search.listed == LISTED


def test_a_number_of_configs_is_no_list() -> None:
    search = Search.model_validate({"configs": 4})
    assert (search.sampler, search.listed, search.count()) == ("tpe", (), 4)


def test_objectives_may_come_with_a_list() -> None:
    spec = parse(written({10: "  objectives: {step_ms: minimize}"}), source="x.yaml")
    assert set(spec.search.objectives) == {"step_ms"}


def test_the_list_is_no_part_of_what_makes_trials_comparable() -> None:
    spec = parse(written({}), source="x.yaml")
    shorter = parse(written({7: "", 8: ""}), source="x.yaml")
    assert spec.comparable_search() == {"sampler": "list", "space": {}, "objectives": {}}
    assert shorter.comparable_search() == spec.comparable_search()


def test_a_list_survives_the_journal_and_the_store() -> None:
    spec = parse(written({}), source="x.yaml")
    assert SweepSpec.model_validate(json.loads(spec.model_dump_json())) == spec
    dumped = yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True))
    assert parse(dumped, source="dumped.yaml").search == spec.search


CASES = [
    # the list and keys that it excludes
    Case("sampler with it", {10: "  sampler: grid"}, 10, "search.sampler", "list, or no sampler", "'grid'", "remove the sampler"),
    Case("learning sampler with it", {10: "  sampler: tpe"}, 10, "search.sampler", "list, or no sampler", "'tpe'", "remove the sampler"),
    Case("unknown sampler with it", {10: "  sampler: lsit"}, 10, "search.sampler", "'list'", "'lsit'", "'list'"),
    Case("space with it", {10: "  space: {epochs: [1, 2]}"}, 10, "search.space", "no space", "{epochs}", "settings"),
    Case("sampler list alone", {6: "  sampler: list", 7: "", 8: "", 9: ""}, 5, "search.configs", "a list of configs", "nothing", "- {units: 64}"),
    Case("sampler list with a number", {6: "  sampler: list", 7: "  configs: 3", 8: "", 9: ""}, 7, "search.configs", "a list of configs", "3", "- {units: 64}"),
    Case("empty list", {6: "  configs: []", 7: "", 8: "", 9: ""}, 6, "search.configs", "at least one config", "[]"),
    Case("no dashes", {7: "    units: 8", 8: "    layers: 1", 9: ""}, 6, "search.configs", "a whole number, or a list", "{units, layers}", "a dash before"),
    # each config
    Case("text as config", {8: "    - units"}, 8, "search.configs[1]", "a mapping", "'units'"),
    Case("null config", {8: "    -"}, 8, "search.configs[1]", "a mapping", "nothing"),
    Case("list as value", {8: "    - {units: [8, 16], layers: 2, use_bias: true}"}, 8, "search.configs[1].units", "a number, a text, true or false", "[8, 16]"),
    Case("null as value", {8: "    - units:\n      layers: 2\n      use_bias: true"}, 8, "search.configs[1].units", "a number, a text", "nothing"),
    Case("infinite value", {8: "    - {units: .inf, layers: 2, use_bias: true}"}, 8, "search.configs[1].units", "a finite number", ".inf"),
    Case("key twice", {8: "    - {units: 8, units: 16, layers: 2, use_bias: true}"}, 8, "search.configs[1].units", "each key once", "again"),
    Case("bad name", {2: "workload: a.b:c", 7: "    - {a-b: 1}", 8: "", 9: ""}, 7, "search.configs[0].a-b", "shape", "'a-b'"),
    # all of them
    Case("one less", {8: "    - {units: 16, layers: 2}"}, 8, "search.configs[1]", "the parameters of search.configs[0] (units, layers, use_bias)", "no use_bias", "every parameter"),
    Case("two less", {9: "    - {units: 16}"}, 9, "search.configs[2]", "(units, layers, use_bias)", "no layers and no use_bias", "every parameter"),
    Case("one more", {9: "    - {units: 8, layers: 2, use_bias: true, cell: gru}"}, 9, "search.configs[2].cell", "the parameters of search.configs[0]", "'cell'"),
    Case("misspelt in one", {9: "    - {units: 8, layer: 2, use_bias: true}"}, 9, "search.configs[2].layer", "the parameters of search.configs[0]", "'layer'", "'layers'"),
    Case("twice", {9: "    - {use_bias: true, layers: 1, units: 8}"}, 9, "search.configs[2]", "each config once", "search.configs[0] again"),
    Case("twice as a float", {7: "    - {dropout: 0}", 8: "    - {dropout: 0.0}", 9: ""}, 8, "search.configs[1]", "each config once", "search.configs[0] again"),
    # the workload
    Case("fixed too", {4: "  units: 8"}, 4, "settings.units", "a fixed setting or a searched parameter", "search.configs[0].units"),
    Case("unknown everywhere", {7: "    - {unit: 8}", 8: "    - {unit: 9}", 9: ""}, 7, "search.configs[0].unit", "a setting of image_rows", "'unit'", "'units'"),
    Case("data", {4: "", 3: "settings: {}", 7: "    - {dataset: digits}", 8: "    - {dataset: mnist}", 9: ""}, 7, "search.configs[0].dataset", "a fixed setting", "'dataset'", "move dataset to settings"),
    Case("value not allowed", {8: "    - {units: 0, layers: 2, use_bias: true}"}, 8, "search.configs[1].units", "at least 1", "0"),
    Case("value's type", {8: "    - units: 16\n      layers: '2'\n      use_bias: true"}, 9, "search.configs[1].layers", "a whole number", "'2'", "write 2"),
    Case("values that do not fit", {7: "    - {cell: lstm, activation: relu}", 8: "    - {cell: rnn_tanh, activation: relu}", 9: ""}, 8, "search.configs[1]", "fit together", "has a fixed activation"),
    Case("a value and a setting that do not fit", {4: "  activation: relu", 7: "    - {cell: lstm}", 8: "    - {cell: rnn_tanh}", 9: ""}, 8, "search.configs[1]", "fit together", "has a fixed activation"),
    Case("settings that do not fit", {4: "  data_path: x.npz"}, 3, "settings", "fit together", "data_path is read for dataset mnist"),
    Case("a wrong setting", {4: "  epochs: 0"}, 4, "settings.epochs", "at least 1", "0"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_list_is_reported_with_its_place(case: Case) -> None:
    [problem] = refused(written(case.lines))
    assert problem.place == f"x.yaml:{case.line}"
    assert problem.key == case.key
    assert case.expected in problem.expected
    assert case.received in problem.received
    assert case.hint in problem.hint


def test_everything_wrong_in_a_list_is_reported_together() -> None:
    text = written(
        {7: "    - {units: 8, layers: x, use_bias: true}", 8: "    - 3", 10: "  sampler: qmc"}
    )
    keys = [problem.key for problem in refused(text)]
    assert keys == ["search.configs[1]"]  # what is no config, before the values of the others


def test_a_true_is_no_one() -> None:
    text = written({2: "workload: a.b:c", 7: "    - {a: 1}", 8: "    - {a: true}", 9: ""})
    assert parse(text, source="x.yaml").search.count() == 2


def test_a_list_is_overridden_as_a_whole() -> None:
    spec = parse(written({}), source="x.yaml", overrides=["search.configs=[{units: 4}]"])
    assert spec.search.listed == ({"units": 4},)
    number = "search.configs=12"
    sampled = [number, "search.sampler=random", "search.space={units: {low: 4, high: 40}}"]
    assert parse(written({}), source="x.yaml", overrides=sampled).search.count() == 12
    back = ["search.configs=[{units: 4}]", "search.sampler=list", "search.space={}"]
    assert parse(written({}), source="x.yaml", overrides=[*sampled, *back]).search.count() == 1
    (problem,) = refused(written({10: "  sampler: list"}), number)
    assert (problem.place, problem.key) == (f"--set {number}", "search.configs")
    wrong = "search.configs=[{units: 4}, {units: 0}]"
    (problem,) = refused(written({}), wrong)
    assert (problem.place, problem.key) == (f"--set {wrong}", "search.configs[1].units")
    (problem,) = refused(written({}), "search.configs.0.units=9")
    assert "--set search.configs=" in problem.hint
