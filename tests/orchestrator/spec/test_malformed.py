"""Malformed specs: the one problem of each is reported at its line, with what was expected.

Wrong searches are in `test_malformed_search`, wrong arms in `test_malformed_arms`.
"""

from typing import NamedTuple

import pytest

from tests.orchestrator.spec.example_specs import MalformedSpec, precise_spec_text, problems_of

MALFORMED = [
    MalformedSpec(
        name="a name that YAML reads as true",
        replaced={"name": "name: yes"},
        key="name",
        expected="text",
        hint="quotes",
    ),
    MalformedSpec(
        name="a name that is a path",
        replaced={"name": "name: ../quick"},
        key="name",
        expected="shape",
    ),
    MalformedSpec(
        name="a misspelt workload",
        replaced={"workload": "workload: image_row"},
        key="workload",
        expected="package.module:function",
    ),
    MalformedSpec(
        name="a workload in a module that hides one of ours",
        replaced={"workload": "workload: workloads.mine:run"},
        key="workload",
        received="'workloads'",
    ),
    MalformedSpec(
        name="a workload and a model",
        added="model: mine:build",
        line="workload: image_rows",
        key="workload",
        received="not both",
    ),
    MalformedSpec(
        name="a model that no module name reaches",
        replaced={"workload": "model: my-models/mine.py:build"},
        key="model",
        expected="module:function",
        hint="mine.py:build",
    ),
    MalformedSpec(
        name="data without a model",
        added="data: mine:load",
        line="workload: image_rows",
        key="workload",
        received="need a model",
    ),
    MalformedSpec(
        name="callbacks of a loop of the user's own",
        replaced={"workload": "workload: mine:run"},
        added="callbacks: mine:callbacks",
        line="workload: mine:run",
        key="workload",
        received="need a model",
    ),
    MalformedSpec(
        name="an own model as a workload",
        replaced={"workload": "workload: mine:build with random data with mine:callbacks"},
        key="workload",
        received="own",
        hint="write model: mine:build and callbacks: mine:callbacks",
    ),
    MalformedSpec(
        name="a setting that is not finite",
        replaced={"epochs": "dropout: .nan"},
        key="settings.dropout",
        expected="finite",
    ),
    MalformedSpec(
        name="a setting that is searched as well",
        replaced={"epochs": "units: 32"},
        key="settings.units",
        received="the search varies",
    ),
    MalformedSpec(
        name="a data path for a dataset that has none",
        replaced={"dataset": "data_path: x.npz"},
        line="settings",
        key="settings",
        received="data_path is only for dataset mnist",
    ),
    MalformedSpec(
        name="memory as an objective of warm trainers",
        replaced={"step_ms": "peak_rss_mib: minimize"},
        added="trainer: warm",
        key="trainer",
        expected="fresh, for the objective peak_rss_mib",
    ),
    MalformedSpec(
        name="a price without an amount",
        added="prices: [{hardware: cpu, source: a, date: 2026-11-21}]",
        key="prices[0]",
        received="missing: usd_per_hour",
    ),
    MalformedSpec(
        name="a price without a day",
        added="prices: [{hardware: cpu, usd_per_hour: 1, source: a, date: last year}]",
        key="prices[0].date",
        expected="the day of the price",
    ),
    MalformedSpec(
        name="a setting at the top level",
        added="epochs: 3",
        key="epochs",
        expected="repeats",
        hint="'settings.epochs'",
    ),
    MalformedSpec(
        name="a seed of thousands of digits",
        added=f"seed: {'9' * 5000}",
        key="seed",
        expected="64 bits",
    ),
]


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_a_wrong_key_or_value_is_reported_at_its_line(case: MalformedSpec) -> None:
    case.expect_its_problem_alone()


class WrongOverride(NamedTuple):
    """A `--set` for a good spec of automatic configs, and parts of a problem that it causes."""

    name: str
    override: str
    key: str
    expected: str = ""
    received: str = ""
    hint: str = ""


WRONG_OVERRIDES = [
    WrongOverride(
        name="a misspelt word of measure",
        override="measure=timming",
        key="measure",
        expected="full or timing",
        hint="'timing'",
    ),
    WrongOverride(
        name="fewest slices above the most",
        override="measure={mode: timing, slices: [9, 7]}",
        key="measure.slices",
        received="(9)",
    ),
    WrongOverride(
        name="an interval without slices",
        override="measure.interval=0.02",
        key="measure.interval",
        received="timing",
    ),
    WrongOverride(
        name="the same hardware class twice but for its measure",
        override="arms.hardware=[cpu, {class: cpu, measure: full}]",
        key="arms.hardware[1]",
        received="listed twice",
    ),
    WrongOverride(
        name="a misspelt key of automatic configs",
        override="search.configs.at_lest=8",
        key="search.configs.at_lest",
        expected="at_least",
        hint="'at_least'",
    ),
    WrongOverride(
        name="at_most below at_least",
        override="search.configs={at_least: 9, at_most: 8}",
        key="search.configs.at_most",
        received="at_least (9)",
    ),
    WrongOverride(
        name="a space that is too small for automatic configs",
        override="search.space.units=[1, 2, 3]",
        key="search.space",
        expected="at least 6 configs",
    ),
    WrongOverride(
        name="a misspelt margin",
        override="margins={sped: 0.1}",
        key="margins.sped",
        expected="speed, accuracy",
        hint="'speed'",
    ),
    WrongOverride(
        name="a margin of nothing",
        override="margins={val_loss: 0 %}",
        key="margins.val_loss",
        expected="a number above 0",
    ),
    WrongOverride(
        name="no number of configs",
        override="search.configs=null",
        key="search.configs",
        hint="auto",
        received="missing",
    ),
    WrongOverride(
        name="a misspelt auto",
        override="search.configs=aut",
        key="search.configs",
        expected="a whole number, auto, or a list",
        hint="'auto'",
    ),
    WrongOverride(
        name="an objective over hardware that is timed",
        override="arms.hardware=[gpu, {class: cpu, measure: timing}]",
        key="search.objectives.val_loss",
        received="to the end",
    ),
    WrongOverride(
        name="a misspelt metric of a published row",
        override="published=[{source: x, implementation: y, hardware: z, metrics: {step_m: 1}}]",
        key="published[0].metrics.step_m",
        expected="a metric of rnnsweep",
        hint="'step_ms'",
    ),
]


@pytest.mark.parametrize("case", WRONG_OVERRIDES, ids=lambda case: case.name)
def test_a_wrong_precision_is_reported_at_its_key(case: WrongOverride) -> None:
    val_loss = {"direction": "minimize", "over": "cpu"}
    text = precise_spec_text(objectives={"val_accuracy": "maximize", "val_loss": val_loss})
    problem = {problem.key: problem for problem in problems_of(text, case.override)}[case.key]
    assert case.expected in problem.expected
    assert case.received in problem.received
    assert case.hint in problem.hint


@pytest.mark.parametrize(
    ("override", "instead"),
    [
        ("blocks.at_most=9", "search.configs: auto"),
        ("disturbed.action=mark", "remove it"),
        ("disturbed.accept_provisional=true", "remove it"),
        ("disturbed.canary=1.5", "remove it"),
        ("disturbed.clock_drop_pct=20", "remove it"),
        ("disturbed.throttled_pct=20", "remove it"),
        ("disturbed=mark", "remove it"),
        ("search.pruner={name: median, n_min_trials: 2}", "optuna.pruners:MedianPruner"),
        ("search.pruner=wilcoxon", "optuna.pruners:WilcoxonPruner"),
        ("search.sampler={name: gp}", "optuna.samplers:GPSampler"),
    ],
)
def test_a_key_or_name_of_an_earlier_release_is_refused_with_what_to_write_instead(
    override: str, instead: str
) -> None:
    [problem] = problems_of(precise_spec_text(), override)
    assert instead in problem.hint
