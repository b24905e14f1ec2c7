"""Specs as a user writes them: what is read, and which errors are reported together."""

import copy
import json
import pickle
from typing import Any

import pytest
import yaml

from orchestrator.core.arms import Usage
from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    PublishedRow,
    ReportCriteria,
    Timing,
)
from orchestrator.spec import Choices, Objective, Range, SpecError, SweepSpec
from tests.orchestrator.spec.spec_lines import LISTED, precise, read, refused, written

PRICES = "prices=[{hardware: cpu, usd_per_hour: 1, source: us, date: 2026-11-21}]"
MIXED = "arms.hardware=[gpu, {class: cpu, measure: timing}]"
PUBLISHED: dict[str, Any] = {
    "source": "a paper",
    "implementation": "tensorflow/cudnn",
    "hardware": "Tesla P100",
    "config": {"units": 128},
    "metrics": {"fit_s": 39.82, "val_accuracy": 0.985, "slices": 3},
}


def test_the_good_spec_is_read() -> None:
    spec = read(written({}))
    assert spec.search.space["units"] == Range(low=16, high=128, log=True)
    assert spec.search.space["batch_size"] == Choices(choices=(32, 64))
    assert spec.search.objectives["step_ms"] == Objective(direction="minimize", over="mean")
    assert [entry.selector for entry in spec.arms.hardware] == ["cpu", "gpu"]
    assert (spec.name, spec.repeats, spec.seed, spec.baseline) == ("quick", 2, 0, None)
    assert (spec.limits.trial_s, spec.limits.idle_s, spec.limits.attempts) == (86_400, 300, 3)
    assert (spec.timing, spec.disturbance_limits) == (Timing(), DisturbanceLimits())
    assert (spec.auto_blocks, spec.criteria(), spec.most_blocks) == (None, ReportCriteria(), 4)


def test_trainers_are_fresh_where_memory_is_compared() -> None:
    def reason(lines: dict[int, str]) -> str | None:
        return read(written(lines)).fresh_trainer_reason

    assert reason({23: "trainer: warm"}) is None
    assert reason({23: "trainer: fresh"}) == "the spec has trainer: fresh"
    assert reason({16: "    peak_rss_mib: minimize"}) == "peak_rss_mib is an objective"


def test_a_missing_key_is_reported_where_its_parent_is() -> None:
    text = "name: quick\nsearch: {}\narms: {}\n"
    places = {problem.key: problem.place for problem in refused(text)}
    assert places == {"workload": "x.yaml:1", "arms.implementations": "x.yaml:3"}
    overrides = "workload=image_rows", "arms.implementations=[a/b]"
    places = {problem.key: problem.place for problem in refused(text, *overrides)}
    assert places["search.configs"] == places["search.objectives"] == "x.yaml:2"


def test_all_problems_of_a_round_are_reported_together_in_the_order_of_the_file() -> None:
    values = {1: "name: no", 2: "worklod: image_rows", 8: "  sampler: tpx",
              12: "    layers: {low: 5, high: 2}", 15: "    val_accuracy: up", 20: "    - cudnn",
              22: "repeats: 0", 23: "limits: {attempts: few}"}  # fmt: skip
    together = {6: "  epochs: 0", 11: "    unit: [1, 2]"}
    problems = refused(written(together | values))
    assert [problem.place for problem in problems] == [f"x.yaml:{line}" for line in values]
    assert (problems[1].key, problems[1].hint) == ("worklod", "did you mean 'workload'?")
    assert str(problems[3]).startswith("x.yaml:12: search.space.layers.low: expected low at most")
    second = [problem.place for problem in refused(written(together))]
    assert second == ["x.yaml:6", "x.yaml:11"]


def test_a_users_own_workload_takes_any_settings_data_metrics_and_implementations() -> None:
    text = written({2: "workload: my.module:train", 4: "  depth: 3", 5: "  nested: {a: [1, 2]}",
                    11: "    dataset: [a, b]", 15: "    val_acuracy: maximize",
                    20: "    - mine/fast+odd"})  # fmt: skip
    spec = read(text, "arms.hardware=[{class: cpu, settings: {depth: 2}}]")
    assert spec.arms.implementations == ("tensorflow/portable", "mine/fast+odd")
    assert spec.written_settings() == {"depth": 3, "nested": {"a": [1, 2]}, "epochs": 2}


@pytest.mark.parametrize(
    ("names", "override"),
    [
        (("setup_s", "queue_s", "peak_rss_mib"), "seed=1"),
        (("time_to_accuracy_s",), "settings.target_accuracy=0.9"),
        (("step_ms", "cost_usd"), "measure=timing"),
        (("val_accuracy",), MIXED),
    ],
)
def test_an_objective_may_be_any_metric_of_a_trial(names: tuple[str, ...], override: str) -> None:
    text = precise(objectives=dict.fromkeys(names, "minimize"))
    assert tuple(read(text, PRICES, override).search.objectives) == names


def test_a_grid_needs_neither_configs_nor_objectives_and_takes_only_its_size() -> None:
    grid = {8: "  sampler: grid", 9: "", 11: "", 14: "", 15: "", 16: ""}
    assert read(written(grid)).search.count() == 4
    assert read(written({**grid, 9: "  configs: 4"})).search.count() == 4
    (problem,) = refused(written({**grid, 9: "  configs: 3"}))
    assert problem.expected == "4, the size of the grid, or no configs at all"


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
    text = written({20: f"    - {arm}", 23: f"baseline: {arm} on NVIDIA H200"})
    spec = read(text, f"search.objectives={json.dumps(objectives)}")
    assert spec.arms.implementations[1] == spelt
    assert [one.over for one in spec.search.objectives.values()] == list(overs.values())
    assert spec.baseline == f"{spelt} on NVIDIA H200"


OWN_USE = """  hardware:
    - cpu
    - {class: cpu, threads: 4, settings: {epochs: 1}}
    - {class: "*H200*", cpus: 8}
    - labels: {ray.io/accelerator-type: T4, market-type: "!in(spot, on-demand)"}
      wait_s: 900"""


def test_hardware_has_options_for_its_use() -> None:
    _, slow, many, late = read(written({21: OWN_USE})).arms.hardware
    assert slow.usage == Usage(threads=4, settings={"epochs": 1})
    assert many.usage == Usage(cpus=8)
    assert (late.selector, late.wait_s) == (None, 900)
    assert list(map(str, (slow, many, late))) == [
        "cpu [4 threads, epochs 1]",
        "*H200* [8 CPUs]",
        "nodes with ray.io/accelerator-type=T4, market-type=!in(spot, on-demand)",
    ]


def test_a_list_needs_neither_sampler_nor_space_nor_objectives() -> None:
    search = read(written({}, LISTED)).search
    assert (search.sampler.name, search.count(), search.space) == ("list", 3, {})
    assert search.listed[1] == {"units": 16, "layers": 2, "use_bias": True}
    assert read(written({10: "  sampler: list\n  space: {}"}, LISTED)).search == search
    with_objectives = read(written({10: "  objectives: {step_ms: minimize}"}, LISTED))
    assert set(with_objectives.search.objectives) == {"step_ms"}
    shorter = read(written({7: "", 8: ""}, LISTED))
    assert shorter.comparable_search() == read(written({}, LISTED)).comparable_search()


def test_everything_but_the_list_and_the_number_makes_another_search() -> None:
    spec = read(written({}))
    more = read(written({9: "  configs: 9\n  open_blocks: 3"}))
    assert spec.comparable_search() == more.comparable_search()
    assert json.loads(json.dumps(spec.comparable_search())) == spec.comparable_search()
    other = read(written({13: "    batch_size: [32, 128]"}))
    assert spec.comparable_search() != other.comparable_search()
    precision = read(precise(measure="timing", disturbed={"canary": 2}, published=[PUBLISHED]))
    assert precision.comparable_search() == read(precise()).comparable_search()


@pytest.mark.parametrize("measure", ["measure=timing", "measure={mode: timing}"])
def test_an_override_inside_of_a_short_form_keeps_the_meaning_of_the_word(measure: str) -> None:
    spec = read(precise(), measure, "measure.slices=[8, 20]", "blocks.at_most=9")
    assert (spec.measure.mode, spec.timing) == ("timing", Timing(least=8, most=20))
    assert spec.auto_blocks == AutoBlocks(most=9)
    quiet = read(precise(), "disturbed=mark", "disturbed.canary=2").disturbance_limits
    assert quiet == DisturbanceLimits(canary=2.0)


def test_what_other_rooms_read_of_a_sweep() -> None:
    timed = read(precise(), "measure=timing", "arms.hardware=[gpu, {class: cpu, measure: full}]")
    assert [entry.usage.measure for entry in timed.hardware] == ["timing", "full"]
    assert [str(entry) for entry in read(precise(), MIXED).hardware] == ["gpu", "cpu [timing]"]
    spec = read(precise(published=[PUBLISHED], baseline="tensorflow/portable"), "margins.speed=0.1")
    row = PublishedRow(**{**PUBLISHED, "metrics": {**PUBLISHED["metrics"], "slices": 3.0}})
    criteria = ReportCriteria("tensorflow/portable", Margins(0.1), AutoBlocks(), (row,))
    assert spec.criteria() == criteria
    assert read(precise()).most_blocks == 57, "the space is used up"
    assert read(precise(), "search.space.units={low: 1, high: 500}").most_blocks == 60
    assert read(precise(), "blocks=null", "search.configs=3").most_blocks == 3


@pytest.mark.parametrize(
    "text",
    [
        written({21: OWN_USE}),
        written({}, LISTED),
        precise(measure="timing", disturbed={"canary": 2}, published=[PUBLISHED]),
    ],
)
def test_a_spec_survives_copies_the_journal_and_the_store(text: str) -> None:
    spec = read(text)
    assert pickle.loads(pickle.dumps(spec)) == spec == copy.deepcopy(spec)
    assert SweepSpec.model_validate(json.loads(spec.model_dump_json())) == spec
    dumped = spec.model_dump(mode="json", exclude_unset=True)
    assert read(yaml.safe_dump(dumped)) == spec
    assert dumped["arms"].get("hardware", ["cpu"])[0] in ("cpu", "gpu")
    error = SpecError("x.yaml", refused("name: 3"))
    restored = pickle.loads(pickle.dumps(error))
    assert (str(restored), restored.problems) == (str(error), error.problems)
