"""Specs as a user writes them: what is read, and which errors are reported together."""

import copy
import json
import pickle
from typing import Any

import pytest

from orchestrator.core.arms import Usage
from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    PublishedRow,
    ReportCriteria,
    ResultMargin,
    Timing,
)
from orchestrator.spec import Choices, Objective, Range, SpecError
from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.orchestrator.spec.example_specs import (
    LISTED_CONFIGS,
    QUICK_SPEC,
    edit_spec,
    line_number,
    precise_spec_text,
    problems_of,
    read_spec,
)

PRICES = "prices=[{hardware: cpu, usd_per_hour: 1, source: us, date: 2026-11-21}]"
MIXED = "arms.hardware=[gpu, {class: cpu, measure: timing}]"
PRECISE = precise_spec_text()
PUBLISHED: dict[str, Any] = {
    "source": "a paper",
    "implementation": "tensorflow/cudnn",
    "hardware": "Tesla P100",
    "config": {"units": 128},
    "metrics": {"fit_s": 39.82, "val_accuracy": 0.985, "slices": 3},
}


def test_the_good_spec_is_read() -> None:
    spec = read_spec(QUICK_SPEC)
    assert spec.search.space["units"] == Range(low=16, high=128, log=True)
    assert spec.search.space["batch_size"] == Choices(choices=(32, 64))
    assert spec.search.objectives["step_ms"] == Objective(direction="minimize", over="mean")
    assert [entry.selector for entry in spec.arms.hardware] == ["cpu", "gpu"]
    assert (spec.name, spec.repeats, spec.seed, spec.baseline) == ("quick", 2, 0, None)
    assert (spec.limits.trial_s, spec.limits.idle_s, spec.limits.attempts) == (86_400, 300, 3)
    assert (spec.timing, spec.disturbance_limits) == (Timing(), DisturbanceLimits())
    assert (spec.auto_blocks, spec.criteria(), spec.most_blocks) == (None, ReportCriteria(), 4)


@pytest.mark.parametrize(
    ("written", "workload"),
    [
        ("model: mine.py", "mine:build with random data"),
        ("model: ./models/mine.py:make", "models.mine:make with random data"),
        ("model: mine.py\ndata: mine.py", "mine:build with mine:load"),
        (
            "model: mine.py\ndata: mine.py\ncallbacks: mine.py",
            "mine:build with mine:load with mine:callbacks",
        ),
        ("workload: mine.py:run", "mine:run"),
    ],
)
def test_a_file_stands_for_its_module(written: str, workload: str) -> None:
    spec = read_spec(edit_spec(QUICK_SPEC, {"workload": written}))
    assert spec.workload_name == workload


def test_trainers_are_fresh_where_memory_is_compared() -> None:
    warm = edit_spec(QUICK_SPEC, added="trainer: warm")
    fresh = edit_spec(QUICK_SPEC, added="trainer: fresh")
    memory = edit_spec(QUICK_SPEC, {"step_ms": "peak_rss_mib: minimize"})
    assert read_spec(warm).fresh_trainer_reason is None
    assert read_spec(fresh).fresh_trainer_reason == "the spec has trainer: fresh"
    assert read_spec(memory).fresh_trainer_reason == "peak_rss_mib is an objective"


def test_a_missing_key_is_reported_where_its_parent_is() -> None:
    text = "name: quick\nsearch: {}\narms: {}\n"
    locations = {problem.key: problem.location for problem in problems_of(text)}
    assert locations == {"workload": "x.yaml:1", "arms.implementations": "x.yaml:3"}
    overrides = "workload=image_rows", "arms.implementations=[a/b]"
    locations = {problem.key: problem.location for problem in problems_of(text, *overrides)}
    assert locations["search.configs"] == locations["search.objectives"] == "x.yaml:2"


def expect_all_reported(wrong: dict[str, str], added: str) -> None:
    text = edit_spec(QUICK_SPEC, wrong, added)
    lines = [line_number(text, line) for line in (*wrong.values(), added)]
    assert [problem.location for problem in problems_of(text)] == [
        f"x.yaml:{line}" for line in lines
    ]


def test_problems_are_reported_together_in_the_order_of_the_file() -> None:
    wrong_by_themselves = {
        "name": "name: no",
        "sampler": "sampler: tpx",
        "layers": "layers: {low: 5, high: 2}",
        "val_accuracy": "val_accuracy: up",
        "- tensorflow/portable": "- 3",
        "repeats": "repeats: 0",
    }
    expect_all_reported(wrong_by_themselves, added="limits: {attempts: few}")
    wrong_for_the_workload = {
        "epochs": "epochs: 0",
        "units": "unit: [1, 2]",
        "step_ms": "step_msec: minimize",
        "- tensorflow/cudnn": "- tensorflow/cudn",
    }
    expect_all_reported(wrong_for_the_workload, added="margins: {sped: 0.1}")


@pytest.mark.parametrize(
    ("wrong", "added", "keys"),
    [
        ({"workload": "worklod: image_rows"}, "", ["worklod"]),
        ({"- tensorflow/portable": "- torch/fussed"}, "baseline: x/y", ["arms.implementations[0]"]),
        (
            {"layers": "layers: {choices: [1], when: {unit: [1]}}", "cell": "cell: lstn"},
            "",
            ["search.space.layers.when.unit"],
        ),
    ],
)
def test_no_problem_is_a_consequence_of_another_one(
    wrong: dict[str, str], added: str, keys: list[str]
) -> None:
    assert [p.key for p in problems_of(edit_spec(QUICK_SPEC, wrong, added))] == keys


def test_a_users_own_workload_takes_any_settings_data_metrics_and_implementations() -> None:
    replaced = {
        "workload": "workload: my.module:train",
        "dataset": "depth: 3",
        "cell": "nested: {a: [1, 2]}",
        "units": "dataset: [a, b]",
        "val_accuracy": "val_acuracy: maximize",
        "- tensorflow/cudnn": "- mine/fast+odd",
    }
    text = edit_spec(QUICK_SPEC, replaced)
    spec = read_spec(text, "arms.hardware=[{class: cpu, settings: {depth: 2}}]")
    assert spec.arms.implementations == ("tensorflow/portable", "mine/fast+odd")
    assert spec.written_settings() == {"depth": 3, "nested": {"a": [1, 2]}, "epochs": 2}


@pytest.mark.parametrize(
    ("names", "override"),
    [
        (("time_to_accuracy_s",), "settings.target_accuracy=0.9"),
        (("step_ms", "cost_usd"), "measure=timing"),
        (("val_accuracy",), MIXED),
    ],
)
def test_an_objective_may_be_any_metric_of_a_trial(names: tuple[str, ...], override: str) -> None:
    text = precise_spec_text(objectives=dict.fromkeys(names, "minimize"))
    assert tuple(read_spec(text, PRICES, override).search.objectives) == names


def test_an_objective_of_a_users_own_workload_has_any_name_that_keras_gives() -> None:
    text = build_spec_text(USER_WORKLOAD, objectives={"val_out-1_auc": "maximize"})
    assert [*read_spec(text).search.objectives] == ["val_out-1_auc"]


def test_a_grid_needs_neither_configs_nor_objectives_and_takes_only_its_size() -> None:
    removed = dict.fromkeys(["configs", "units", "objectives", "val_accuracy", "step_ms"], "")
    grid = {**removed, "sampler": "sampler: grid"}
    assert read_spec(edit_spec(QUICK_SPEC, grid)).search.count() == 4
    assert read_spec(edit_spec(QUICK_SPEC, {**grid, "configs": "configs: 4"})).search.count() == 4
    (problem,) = problems_of(edit_spec(QUICK_SPEC, {**grid, "configs": "configs: 3"}))
    assert "4, the size of the grid" in problem.expected


def test_arms_have_one_spelling() -> None:
    arm, spelt = "tensorflow/portable+xla+unroll", "tensorflow/portable+unroll+xla"
    overs = {
        f"{arm} on gpu": f"{spelt} on gpu",
        "* on  *H200*": "* on *H200*",
        "gpu": "* on gpu",
        "min": "min",
    }
    names = ("step_ms", "val_loss", "loss", "accuracy")
    objectives = {
        name: {"direction": "minimize", "over": over}
        for name, over in zip(names, overs, strict=True)
    }
    replaced = {"- tensorflow/cudnn": f"- {arm}"}
    text = edit_spec(QUICK_SPEC, replaced, added=f"baseline: {arm} on NVIDIA H200")
    spec = read_spec(text, f"search.objectives={json.dumps(objectives)}")
    assert spec.arms.implementations[1] == spelt
    assert [objective.over for objective in spec.search.objectives.values()] == list(overs.values())
    assert spec.baseline == f"{spelt} on NVIDIA H200"


OWN_USE = """\
hardware:
  - cpu
  - {class: cpu, threads: 4, settings: {epochs: 1}}
  - {class: "*H200*", cpus: 8}
  - labels: {ray.io/accelerator-type: T4, market-type: "!in(spot, on-demand)"}
    wait_s: 900
"""
HARDWARE_WITH_OPTIONS = edit_spec(QUICK_SPEC, {"hardware": OWN_USE})


def test_hardware_has_options_for_its_use() -> None:
    _, slow, many, late = read_spec(HARDWARE_WITH_OPTIONS).arms.hardware
    assert slow.usage == Usage(threads=4, settings={"epochs": 1})
    assert many.usage == Usage(cpus=8)
    assert (late.selector, late.wait_s) == (None, 900)
    assert list(map(str, (slow, many, late))) == [
        "cpu [4 threads, epochs 1]",
        "*H200* [8 CPUs]",
        "nodes with ray.io/accelerator-type=T4, market-type=!in(spot, on-demand)",
    ]


def test_a_list_needs_neither_sampler_nor_space_nor_objectives() -> None:
    search = read_spec(LISTED_CONFIGS).search
    assert (search.sampler.name, search.count(), search.space) == ("list", 3, {})
    assert search.listed[1] == {"units": 16, "layers": 2, "use_bias": True}
    said = edit_spec(LISTED_CONFIGS, {"search": "search:\n  sampler: list\n  space: {}"})
    assert read_spec(said).search == search
    objectives = {"search": "search:\n  objectives: {step_ms: minimize}"}
    assert set(read_spec(edit_spec(LISTED_CONFIGS, objectives)).search.objectives) == {"step_ms"}
    removed = {"- {units: 8, layers: 1": "", "- {units: 16": ""}
    shorter = read_spec(edit_spec(LISTED_CONFIGS, removed))
    assert shorter.comparable_search() == read_spec(LISTED_CONFIGS).comparable_search()


def test_everything_but_the_list_and_the_number_makes_another_search() -> None:
    spec = read_spec(QUICK_SPEC)
    more = read_spec(edit_spec(QUICK_SPEC, {"configs": "configs: 9\nopen_blocks: 3"}))
    assert spec.comparable_search() == more.comparable_search()
    assert json.loads(json.dumps(spec.comparable_search())) == spec.comparable_search()
    other = read_spec(edit_spec(QUICK_SPEC, {"batch_size": "batch_size: [32, 128]"}))
    assert spec.comparable_search() != other.comparable_search()
    precision = read_spec(
        precise_spec_text(measure="timing", disturbed={"others_cpu_pct": 20}, published=[PUBLISHED])
    )
    assert precision.comparable_search() == read_spec(PRECISE).comparable_search()


def test_an_override_inside_of_a_short_form_keeps_the_meaning_of_the_word() -> None:
    spec = read_spec(
        PRECISE, "measure=timing", "measure.slices=[8, 20]", "search.configs.at_most=9"
    )
    assert (spec.measure.mode, spec.timing) == ("timing", Timing(least=8, most=20))
    assert spec.auto_blocks == AutoBlocks(most=9)


def test_what_other_rooms_read_of_a_sweep() -> None:
    timed = read_spec(PRECISE, "measure=timing", "arms.hardware=[gpu, {class: cpu, measure: full}]")
    assert [entry.usage.measure for entry in timed.hardware] == ["timing", "full"]
    assert [str(entry) for entry in read_spec(PRECISE, MIXED).hardware] == [
        "gpu",
        "cpu [timing]",
    ]
    spec = read_spec(
        precise_spec_text(published=[PUBLISHED], baseline="tensorflow/portable"),
        "margins={speed: 0.1, val_loss: 5 %, val_accuracy: 0.02}",
    )
    row = PublishedRow(**{**PUBLISHED, "metrics": {**PUBLISHED["metrics"], "slices": 3.0}})
    results = {"val_loss": ResultMargin(0.05, is_share=True), "val_accuracy": ResultMargin(0.02)}
    margins = Margins(0.1, results=results)
    criteria = ReportCriteria("tensorflow/portable", margins, AutoBlocks(), (row,))
    assert spec.criteria() == criteria
    assert read_spec(PRECISE).most_blocks == 57, "the space is used up"
    assert read_spec(PRECISE, "search.space.units={low: 1, high: 500}").most_blocks == 60
    assert read_spec(PRECISE, "search.configs=3").most_blocks == 3


def test_a_spec_and_its_errors_survive_copies_to_other_processes() -> None:
    spec = read_spec(HARDWARE_WITH_OPTIONS)
    assert pickle.loads(pickle.dumps(spec)) == spec == copy.deepcopy(spec)
    error = SpecError("x.yaml", problems_of("name: 3"))
    restored = pickle.loads(pickle.dumps(error))
    assert (str(restored), restored.problems) == (str(error), error.problems)
