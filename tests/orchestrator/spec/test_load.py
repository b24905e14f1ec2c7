"""Specs as a user writes them: a SweepSpec, or errors that are reported with their places."""

from __future__ import annotations

import copy
import json
import pathlib
import pickle
import subprocess
import sys

import pydantic
import pytest

from orchestrator.core.arms import Usage
from orchestrator.spec import Choices, Objective, Problem, Range, SpecError, SweepSpec, load, parse

ROOT = pathlib.Path(__file__).parents[3]

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


def written(lines: dict[int, str]) -> str:
    """The good spec with some of its lines (from 1) replaced; line 23 is free."""
    text = [*LINES, ""]
    for line, replacement in lines.items():
        text[line - 1] = replacement
    return "\n".join(text) + "\n"


def refused(text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        parse(text, source="x.yaml", overrides=overrides)
    return list(caught.value.problems)


def test_the_good_spec_is_read() -> None:
    spec = parse(written({}), source="x.yaml")
    assert spec.name == "quick"
    assert spec.search.space["units"] == Range(low=16, high=128, log=True)
    assert spec.search.space["batch_size"] == Choices(choices=(32, 64))
    assert spec.search.objectives["step_ms"] == Objective(direction="minimize", over="mean")
    assert [entry.selector for entry in spec.arms.hardware] == ["cpu", "gpu"]
    assert (spec.repeats, spec.seed, spec.baseline) == (2, 0, None)
    assert (spec.limits.trial_s, spec.limits.idle_s, spec.limits.attempts) == (86_400, 300, 3)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ({}, None),
        ({23: "trainer: warm"}, None),
        ({23: "trainer: fresh"}, "the spec has trainer: fresh"),
        ({16: "    peak_rss_mib: minimize"}, "peak_rss_mib is an objective"),
    ],
)
def test_trainers_are_fresh_where_memory_is_compared(
    lines: dict[int, str], reason: str | None
) -> None:
    assert parse(written(lines), source="x.yaml").fresh_trainer_reason == reason


def test_an_objective_may_be_the_time_to_an_accuracy_that_is_given() -> None:
    lines = {6: "  target_accuracy: 0.9", 16: "    time_to_accuracy_s: minimize"}
    assert "time_to_accuracy_s" in parse(written(lines), source="x.yaml").search.objectives


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("name: quick\n", 1, "workload"),
        (written({7: "search: {}", **dict.fromkeys(range(8, 17), "")}), 7, "search.configs"),
        (written({7: "search: {}", **dict.fromkeys(range(8, 17), "")}), 7, "search.objectives"),
        (written({17: "arms: {}", **dict.fromkeys(range(18, 22), "")}), 17, "arms.implementations"),
    ],
)
def test_a_missing_key_is_reported_where_its_parent_is(text: str, line: int, key: str) -> None:
    [problem] = [problem for problem in refused(text) if problem.key == key]
    assert problem.place == f"x.yaml:{line}"
    assert problem.received == "nothing"


@pytest.mark.parametrize("key", ["settings", "search", "arms", "limits", "repeats", "name"])
@pytest.mark.parametrize(
    "value", ["[1, 2]", "{a: {b: 1}}", "3", "text", "null", "true", "2001-01-01"]
)
def test_any_value_at_any_key_ends_in_a_message_or_a_spec(key: str, value: str) -> None:
    try:
        parse(written({}), source="x.yaml", overrides=[f"{key}={value}"])
    except SpecError as error:
        assert all(problem.expected and problem.received for problem in error.problems)


def test_all_problems_of_a_round_are_reported_together_in_the_order_of_the_file() -> None:
    values = {1: "name: no", 8: "  sampler: tpx", 12: "    layers: {low: 5, high: 2}",
              15: "    val_accuracy: up", 20: "    - cudnn", 22: "repeats: 0",
              23: "limits: {attempts: few}"}  # fmt: skip
    together = {6: "  epochs: 0", 11: "    unit: [1, 2]"}
    problems = refused(written(together | values))
    assert [problem.place for problem in problems] == [f"x.yaml:{line}" for line in values]
    assert str(problems[2]) == (
        "x.yaml:12: search.space.layers.low: expected low at most high (2); received 5"
    )
    second = [problem.place for problem in refused(written(together))]
    assert second == ["x.yaml:6", "x.yaml:11"]


def test_a_wrong_parameter_is_not_blamed_on_what_depends_on_it() -> None:
    text = written({12: "    layers: {low: x, high: 2}",
                    13: "    batch_size: {choices: [8, 9], when: {layers: 1}}"})  # fmt: skip
    assert [problem.key for problem in refused(text)] == ["search.space.layers.low"]


def test_a_value_that_only_a_conditional_parameter_takes_is_checked() -> None:
    text = written({13: "    batch_size: {choices: [8, 0], when: {layers: 2}}"})
    [problem] = refused(text)
    assert problem.key == "search.space.batch_size.choices[1]"
    assert problem.expected == "at least 1"


@pytest.mark.parametrize("settings", ["  data_path: a.npz", "  units: 8"])
@pytest.mark.parametrize("choices", ["[mnist]", "[mnist, digits]", "[digits, nothing]"])
def test_the_data_of_a_sweep_is_not_searched(settings: str, choices: str) -> None:
    text = written({4: settings, 11: f"    dataset: {choices}"})
    problems = [problem for problem in refused(text) if problem.key.startswith("search")]
    [problem] = problems
    assert (problem.place, problem.key) == ("x.yaml:11", "search.space.dataset")
    assert "the same data, and a sweep has one digest" in problem.expected
    assert "move dataset to settings" in problem.hint


def test_the_file_of_the_data_is_not_searched() -> None:
    text = written({4: "  dataset: mnist", 11: "    data_path: [a.npz, b.npz]"})
    assert [problem.key for problem in refused(text)] == ["search.space.data_path"]


def test_a_users_own_workload_may_search_its_data() -> None:
    text = written({2: "workload: my.module:train", 4: "", 11: "    dataset: [a, b]"})
    assert "dataset" in parse(text, source="x.yaml").search.space


def test_a_misspelt_objective_is_reported_with_the_nearest_metric() -> None:
    [problem] = refused(written({15: "    val_acuracy: maximize"}))
    assert (problem.place, problem.key) == ("x.yaml:15", "search.objectives.val_acuracy")
    assert problem.received == "'val_acuracy'"
    assert problem.hint == "did you mean 'val_accuracy'?"


@pytest.mark.parametrize("metric", ["setup_s", "queue_s", "peak_rss_mib", "evaluate_s"])
def test_an_objective_may_be_any_metric_of_a_trial(metric: str) -> None:
    spec = parse(written({16: f"    {metric}: minimize"}), source="x.yaml")
    assert metric in spec.search.objectives


def test_a_users_own_workload_reports_any_metric() -> None:
    text = written({2: "workload: my.module:train", 15: "    val_acuracy: maximize"})
    assert "val_acuracy" in parse(text, source="x.yaml").search.objectives


def test_booleans_are_choices_in_any_of_yamls_spellings() -> None:
    spec = parse(written({13: "    use_bias: [on, off]"}), source="x.yaml")
    assert spec.search.space["use_bias"].grid_values() == (True, False)


@pytest.mark.parametrize("low", ["1e-4", "1E-4", "0.0001", ".0001", "1.0e-4"])
def test_floats_are_read_as_people_write_them(low: str) -> None:
    line = f"    learning_rate: {{low: {low}, high: 1e-2, log: true}}"
    spec = parse(written({13: line}), source="x.yaml")
    assert spec.search.space["learning_rate"] == Range(low=1e-4, high=1e-2, log=True)


def test_a_users_own_workload_takes_any_settings_and_implementations() -> None:
    text = written({2: "workload: my.module:train", 4: "  depth: 3", 5: "  nested: {a: [1, 2]}",
                    11: "    width: [1, 2]", 20: "    - mine/fast+odd"})  # fmt: skip
    spec = parse(text, source="x.yaml")
    assert spec.arms.implementations == ("tensorflow/portable", "mine/fast+odd")
    assert spec.written_settings() == {"depth": 3, "nested": {"a": [1, 2]}, "epochs": 2}


@pytest.mark.parametrize("sampler", ["grid", "random", "qmc"])
def test_samplers_that_read_no_objective_need_none(sampler: str) -> None:
    lines = {8: f"  sampler: {sampler}", 11: "", 14: "", 15: "", 16: ""}
    spec = parse(written(lines), source="x.yaml")
    assert spec.search.objectives == {}


def test_a_grid_needs_no_configs_and_takes_only_its_size() -> None:
    grid = {8: "  sampler: grid", 9: "", 11: ""}
    assert parse(written(grid), source="x.yaml").search.count() == 4
    assert parse(written({**grid, 9: "  configs: 4"}), source="x.yaml").search.count() == 4
    [problem] = refused(written({**grid, 9: "  configs: 3"}))
    assert (problem.place, problem.received) == ("x.yaml:9", "3")
    assert problem.expected == "4, the size of the grid, or no configs at all"


def test_arms_have_one_spelling() -> None:
    arm = "tensorflow/portable+xla+unroll"
    text = written({16: f"    step_ms: {{direction: minimize, over: {arm} on gpu}}",
                    20: f"    - {arm}", 23: f"baseline: {arm}"})  # fmt: skip
    spec = parse(text, source="x.yaml")
    assert spec.arms.implementations[1] == "tensorflow/portable+unroll+xla"
    assert spec.search.objectives["step_ms"].over == "tensorflow/portable+unroll+xla on gpu"
    assert spec.baseline == "tensorflow/portable+unroll+xla"


def test_wrong_hardware_is_not_taken_for_a_class() -> None:
    text = written({21: "  hardware: [cpu, {gpu: 1}]", 23: "baseline: tensorflow/cudnn on cpu"})
    assert [problem.key for problem in refused(text)] == ["arms.hardware[1].gpu"]


OWN_USE = """  hardware:
    - cpu
    - {class: cpu, threads: 4, settings: {epochs: 1}}
    - {class: "*H200*", cpus: 8}
    - labels: {ray.io/accelerator-type: T4, market-type: "!in(spot, on-demand)"}
      wait_s: 900"""


def test_hardware_has_options_for_its_use() -> None:
    spec = parse(written({21: OWN_USE}), source="x.yaml")
    _, slow, many, late = spec.arms.hardware
    assert (slow.usage, str(slow)) == (
        Usage(threads=4, settings={"epochs": 1}),
        "cpu [4 threads, epochs 1]",
    )
    assert (many.usage, str(many)) == (Usage(cpus=8), "*H200* [8 CPUs]")
    assert (late.selector, late.wait_s) == (None, 900)
    assert str(late) == ("nodes with ray.io/accelerator-type=T4, market-type=!in(spot, on-demand)")


def test_a_spec_is_written_back_as_it_was_read() -> None:
    spec = parse(written({21: OWN_USE}), source="x.yaml")
    dumped = spec.model_dump(mode="json")
    assert dumped["arms"]["hardware"][0] == "cpu"
    assert dumped["arms"]["hardware"][2]["class"] == "*H200*"
    assert SweepSpec.model_validate(dumped) == spec
    short = spec.model_dump(mode="json", exclude_unset=True)["arms"]["hardware"]
    assert short[2] == {"class": "*H200*", "cpus": 8}


@pytest.mark.parametrize(
    ("over", "kept"),
    [("gpu", "* on gpu"), ("* on  *H200*", "* on *H200*"), ("min", "min")],
)
def test_an_objective_may_read_hardware(over: str, kept: str) -> None:
    line = f'    step_ms: {{direction: minimize, over: "{over}"}}'
    spec = parse(written({16: line}), source="x.yaml")
    assert spec.search.objectives["step_ms"].over == kept


def test_a_users_own_workload_may_do_less_work_by_its_settings() -> None:
    lines = {2: "workload: my.module:run", 3: "settings:", 4: "  rounds: 9", 5: "", 6: ""}
    use = "  hardware: [{{class: cpu, settings: {{{}: 2}}}}]"
    parse(written(lines | {21: use.format("rounds")}), source="x.yaml")
    (problem,) = refused(written(lines | {21: use.format("round")}))
    assert (problem.key, problem.hint) == (
        "arms.hardware[0].settings.round",
        "did you mean 'rounds'?",
    )


def test_an_exact_hardware_class_may_be_named_where_probes_decide() -> None:
    spec = parse(written({23: "baseline: tensorflow/cudnn on NVIDIA H200"}), source="x.yaml")
    assert spec.baseline == "tensorflow/cudnn on NVIDIA H200"


def test_a_spec_is_frozen_and_survives_copies() -> None:
    spec = parse(written({}), source="x.yaml")
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        spec.repeats = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(spec)) == spec == copy.deepcopy(spec)
    assert SweepSpec.model_validate(spec.model_dump()) == spec


def test_the_comparable_search_leaves_out_what_may_grow() -> None:
    spec = parse(written({}), source="x.yaml")
    more = parse(written({9: "  configs: 9\n  open_blocks: 3"}), source="x.yaml")
    assert spec.comparable_search() == more.comparable_search()
    assert set(spec.comparable_search()) == {"sampler", "space", "objectives"}
    assert json.loads(json.dumps(spec.comparable_search())) == spec.comparable_search()
    long = parse(written({13: "    batch_size: {choices: [32, 64]}"}), source="x.yaml")
    assert spec.comparable_search() == long.comparable_search()
    other = parse(written({13: "    batch_size: [32, 128]"}), source="x.yaml")
    assert spec.comparable_search() != other.comparable_search()


def test_written_settings_are_a_copy() -> None:
    spec = parse(written({}), source="x.yaml")
    spec.written_settings()["cell"] = "gru"
    assert spec.written_settings() == {"dataset": "digits", "cell": "lstm", "epochs": 2}


@pytest.mark.parametrize(
    "path",
    sorted({*(ROOT / "sweeps").glob("*.yaml")} - {ROOT / "sweeps/prices.yaml"}),
    ids=lambda path: path.name,
)
def test_every_file_in_sweeps_is_a_spec_that_states_its_purpose(path: pathlib.Path) -> None:
    assert load(path).search.count() >= 1
    assert path.read_text().startswith("# ")


def test_a_spec_error_travels_between_processes() -> None:
    with pytest.raises(SpecError) as caught:
        parse("name: 3", source="x.yaml")
    restored = pickle.loads(pickle.dumps(caught.value))
    assert (str(restored), restored.problems) == (str(caught.value), caught.value.problems)


def test_reading_specs_imports_nothing_heavy() -> None:
    heavy = "('numpy', 'tensorflow', 'keras', 'ray', 'optuna', 'mlflow', 'sklearn')"
    code = f"import sys, orchestrator.spec; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
