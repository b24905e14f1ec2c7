"""Malformed searches: samplers, spaces, conditions, objectives, lists of configs and pruners."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.building.specs import build_spec_text
from tests.orchestrator.spec.example_specs import LISTED_CONFIGS, MalformedSpec, problems_of

MALFORMED_SEARCHES = [
    MalformedSpec(
        name="a first config outside of the space",
        replaced={"configs": "configs: 4\nfirst: [{units: 256, layers: 1, batch_size: 32}]"},
        line="first",
        key="search.first[0].units",
        expected="search.space.units",
    ),
    MalformedSpec(
        name="a first config without a parameter",
        replaced={"configs": "configs: 4\nfirst: [{units: 64, batch_size: 32}]"},
        line="first",
        key="search.first[0]",
        received="missing: layers",
    ),
    MalformedSpec(
        name="more configs than the space has",
        replaced={"configs": "configs: 5", "units": ""},
        key="search.configs",
        expected="at most 4",
    ),
    MalformedSpec(
        name="a grid of a continuous range",
        replaced={
            "sampler": "sampler: grid",
            "configs": "",
            "units": "dropout: {low: 0.0, high: 0.5}",
        },
        line="dropout",
        key="search.space.dropout",
        received="continuous",
    ),
    MalformedSpec(
        name="a grid that is too large",
        replaced={
            "sampler": "sampler: grid",
            "configs": "",
            "units": "units: {low: 1, high: 16384}",
            "layers": "dense_units: {low: 1, high: 16384}",
        },
        line="space",
        key="search.space",
        expected="100,000",
    ),
    MalformedSpec(
        name="a range that is too wide",
        replaced={"units": "dropout: {low: -1.0e+308, high: 1.0e+308}"},
        key="search.space.dropout.high",
        expected="at most 1e+15 above low",
    ),
    MalformedSpec(
        name="a range with too many steps",
        replaced={"units": "dropout: {low: 0.0, high: 0.5, step: 1.0e-300}"},
        key="search.space.dropout.step",
        expected="at most 1,000,000 steps",
    ),
    MalformedSpec(
        name="a bound that is no number",
        replaced={"units": "units: {low: x, high: 128}"},
        key="search.space.units.low",
        expected="a number",
    ),
    MalformedSpec(
        name="a range whose low is above its high",
        replaced={"units": "units: {low: 16, high: 8}"},
        key="search.space.units.low",
        received="low (16)",
    ),
    MalformedSpec(
        name="a logarithmic range from zero",
        replaced={"units": "dropout: {low: 0.0, high: 0.5, log: true}"},
        key="search.space.dropout.low",
        expected="more than 0",
    ),
    MalformedSpec(
        name="a negative step",
        replaced={"units": "units: {low: 1, high: 9, step: -2}"},
        key="search.space.units.step",
        expected="more than 0",
    ),
    MalformedSpec(
        name="a step with log",
        replaced={"units": "units: {low: 1, high: 9, log: true, step: 2}"},
        key="search.space.units.step",
        received="not both",
    ),
    MalformedSpec(
        name="a step that does not reach high",
        replaced={"units": "dropout: {low: 0.1, high: 0.45, step: 0.1}"},
        key="search.space.dropout.high",
        expected="such as 0.4",
    ),
    MalformedSpec(
        name="a range without high",
        replaced={"units": "units: {low: 16}"},
        key="search.space.units.high",
        received="missing",
    ),
    MalformedSpec(
        name="a misspelt key of a dimension",
        replaced={"batch_size": "batch_size: {choice: [1, 2]}"},
        key="search.space.batch_size.choice",
        expected="choices",
        hint="'choices'",
    ),
    MalformedSpec(
        name="a single value in place of choices",
        replaced={"batch_size": "batch_size: 32"},
        key="search.space.batch_size",
        expected="a list of choices, or {low",
    ),
    MalformedSpec(
        name="the same choice twice",
        replaced={"batch_size": "batch_size: [32, 64, 32]"},
        key="search.space.batch_size",
        received="32 is listed twice",
    ),
    MalformedSpec(
        name="null for a setting that has a number",
        replaced={"batch_size": "batch_size:\n  - 32\n  - null"},
        line="- null",
        key="search.space.batch_size[1]",
        expected="a whole number",
    ),
    MalformedSpec(
        name="a list for a setting that has a number",
        replaced={"batch_size": "batch_size: [[32, 64], 32]"},
        key="search.space.batch_size[0]",
        expected="a whole number",
    ),
    MalformedSpec(
        name="a choice that is a mapping",
        replaced={"batch_size": "batch_size: [{size: 32}]"},
        key="search.space.batch_size[0]",
        expected="a number, a text",
    ),
    MalformedSpec(
        name="a choice that the setting cannot take beside a condition",
        replaced={"batch_size": "batch_size: {choices: [8, 0], when: {layers: 2}}"},
        key="search.space.batch_size.choices[1]",
        expected="at least 1",
    ),
    MalformedSpec(
        name="data as a parameter",
        replaced={"dataset": "", "units": "dataset: [mnist, digits]"},
        line="dataset",
        key="search.space.dataset",
        received="the same data",
    ),
    MalformedSpec(
        name="a condition on a later parameter",
        replaced={"layers": "layers: {choices: [1, 2], when: {batch_size: 32}}"},
        key="search.space.layers.when.batch_size",
        expected="before layers",
        received="'batch_size'",
        hint="above layers",
    ),
    MalformedSpec(
        name="a condition on an unknown parameter",
        replaced={"batch_size": "batch_size: {choices: [8, 9], when: {layer: 1}}"},
        key="search.space.batch_size.when.layer",
        expected="before batch_size",
        received="'layer'",
        hint="'layers'",
    ),
    MalformedSpec(
        name="a condition outside of the range",
        replaced={"batch_size": "batch_size: {choices: [8, 9], when: {layers: [1, 3]}}"},
        key="search.space.batch_size.when.layers",
        expected="1 to 2",
    ),
    MalformedSpec(
        name="a condition on a continuous range",
        replaced={
            "layers": "dropout: {low: 0.1, high: 0.3}",
            "batch_size": "batch_size: {choices: [8, 9], when: {dropout: 0.2}}",
        },
        line="batch_size",
        key="search.space.batch_size.when.dropout",
        received="dropout is continuous",
    ),
    MalformedSpec(
        name="conditions that are never met together",
        replaced={
            "layers": "layers: {choices: [1, 2], when: {use_bias: true}}",
            "units": "use_bias: [true, false]",
            "batch_size": "batch_size: {choices: [8, 9], when: {layers: 1, use_bias: false}}",
        },
        line="batch_size",
        key="search.space.batch_size.when",
        received="never be used",
    ),
    MalformedSpec(
        name="a misspelt direction",
        replaced={"val_accuracy": "val_accuracy: maximise"},
        key="search.objectives.val_accuracy",
        expected="'maximize' or 'minimize'",
        hint="'maximize'",
    ),
    MalformedSpec(
        name="a misspelt objective",
        replaced={"val_accuracy": "val_acuracy: maximize"},
        key="search.objectives.val_acuracy",
        expected="a metric of image_rows",
        hint="'val_accuracy'",
    ),
    MalformedSpec(
        name="an objective of costs without prices",
        replaced={"step_ms": "cost_usd: minimize"},
        key="search.objectives.cost_usd",
        received="prices",
    ),
    MalformedSpec(
        name="a misspelt word in over",
        replaced={"step_ms": "step_ms: {direction: minimize, over: maen}"},
        key="search.objectives.step_ms.over",
        expected="mean, min, max",
        hint="'mean'",
    ),
    MalformedSpec(
        name="an objective over hardware that the sweep lacks",
        replaced={
            "step_ms": "step_ms: {direction: minimize, over: tensorflow/cudnn on gpu}",
            "hardware": "hardware: [cpu]",
        },
        key="search.objectives.step_ms.over",
        expected="hardware of this sweep (cpu)",
    ),
    MalformedSpec(
        name="an objective that needs a target accuracy",
        replaced={"step_ms": "time_to_accuracy_s: minimize"},
        key="search.objectives.time_to_accuracy_s",
        received="settings.target_accuracy",
    ),
    MalformedSpec(
        name="no objective for a sampler that learns",
        replaced={"objectives": "objectives: {}", "val_accuracy": "", "step_ms": ""},
        key="search.objectives",
        received="missing",
    ),
]


@pytest.mark.parametrize("case", MALFORMED_SEARCHES, ids=lambda case: case.name)
def test_a_wrong_search_is_reported_at_its_line(case: MalformedSpec) -> None:
    case.expect_its_problem_alone()


MALFORMED_LISTS = [
    MalformedSpec(
        name="a list of configs with a sampler",
        text=LISTED_CONFIGS,
        replaced={"search": "search:\n  sampler: grid"},
        line="sampler",
        key="search.sampler",
        received="grid",
    ),
    MalformedSpec(
        name="a list of configs with a space",
        text=LISTED_CONFIGS,
        replaced={"search": "search:\n  space: {epochs: [1, 2]}"},
        line="space",
        key="search.space",
        received="no space",
    ),
    MalformedSpec(
        name="the sampler list with a number of configs",
        text=LISTED_CONFIGS,
        replaced={
            "configs": "sampler: list\nconfigs: 3",
            "- {units: 8, layers: 1": "",
            "- {units: 16, layers: 2": "",
            "- {units: 8, layers: 2": "",
        },
        line="configs",
        key="search.configs",
        expected="a list of configs",
    ),
    MalformedSpec(
        name="an empty list of configs",
        text=LISTED_CONFIGS,
        replaced={
            "configs": "configs: []",
            "- {units: 8, layers: 1": "",
            "- {units: 16, layers: 2": "",
            "- {units: 8, layers: 2": "",
        },
        key="search.configs",
        received="empty",
    ),
    MalformedSpec(
        name="configs without dashes",
        text=LISTED_CONFIGS,
        replaced={
            "- {units: 8, layers: 1": "units: 8",
            "- {units: 16, layers: 2": "layers: 1",
            "- {units: 8, layers: 2": "",
        },
        line="configs",
        key="search.configs",
        expected="a whole number, auto, or a list",
        hint="a dash before",
    ),
    MalformedSpec(
        name="a config that lacks a parameter",
        text=LISTED_CONFIGS,
        replaced={"- {units: 16, layers: 2": "- {units: 16, layers: 2}"},
        key="search.configs[1]",
        received="missing: use_bias",
    ),
    MalformedSpec(
        name="a config with a misspelt parameter",
        text=LISTED_CONFIGS,
        replaced={"- {units: 8, layers: 2": "- {units: 8, layer: 2, use_bias: true}"},
        key="search.configs[2].layer",
        expected="the parameters of search.configs[0]",
        hint="'layers'",
    ),
    MalformedSpec(
        name="a config again with another kind of number",
        text=LISTED_CONFIGS,
        replaced={
            "- {units: 8, layers: 1": "- {dropout: 0}",
            "- {units: 16, layers: 2": "- {dropout: 0.0}",
            "- {units: 8, layers: 2": "",
        },
        line="- {dropout: 0.0}",
        key="search.configs[1]",
        received="search.configs[0]",
    ),
    MalformedSpec(
        name="a whole number as text in a config",
        text=LISTED_CONFIGS,
        replaced={"- {units: 16, layers: 2": "- units: 16\n  layers: '2'\n  use_bias: true"},
        line="layers",
        key="search.configs[1].layers",
        expected="a whole number",
        hint="write 2",
    ),
    MalformedSpec(
        name="a config whose settings do not fit together",
        text=LISTED_CONFIGS,
        replaced={
            "dataset": "activation: relu",
            "- {units: 8, layers: 1": "- {cell: lstm}",
            "- {units: 16, layers: 2": "- {cell: rnn_tanh}",
            "- {units: 8, layers: 2": "",
        },
        line="- {cell: rnn_tanh}",
        key="search.configs[1]",
        received="has a fixed activation",
    ),
]


@pytest.mark.parametrize("case", MALFORMED_LISTS, ids=lambda case: case.name)
def test_a_wrong_list_of_configs_is_reported_at_its_line(case: MalformedSpec) -> None:
    case.expect_its_problem_alone()


class WrongPruner(NamedTuple):
    """Changes of a good spec (see `spec_data`), and parts of a problem that they cause."""

    name: str
    changes: Mapping[str, Any]
    key: str
    expected: str = ""
    received: str = ""


WRONG_PRUNERS = [
    WrongPruner(
        name="an option of another pruner",
        changes={"pruner": {"name": "median", "p_threshold": 0.1}},
        key="search.pruner.p_threshold",
        expected="one of name, n_startup_trials",
    ),
    WrongPruner(
        name="a pruner with two objectives",
        changes={
            "pruner": "median",
            "objectives": {
                "val_accuracy": "maximize",
                "val_loss": {"direction": "minimize", "over": "cpu"},
            },
        },
        key="search.pruner",
        received="one objective",
    ),
    WrongPruner(
        name="a pruner for an objective that no epoch has",
        changes={"pruner": "median", "objectives": {"step_ms": "minimize"}},
        key="search.pruner",
        expected="a metric of each epoch (loss",
    ),
    WrongPruner(
        name="a pruner where all is timed",
        changes={"pruner": "median", "measure": "timing"},
        key="search.pruner",
        received="no epochs",
    ),
    WrongPruner(
        name="a pruner with variants",
        changes={"pruner": "median", "variants": [{"cell": "lstm"}, {"cell": "gru"}]},
        key="search.pruner",
        received="variants",
    ),
    WrongPruner(
        name="a pruner that needs more epochs",
        changes={"pruner": {"name": "median", "n_warmup_steps": 3}, "settings": {"epochs": 4}},
        key="search.pruner",
        received="after epoch 4",
    ),
]


@pytest.mark.parametrize("case", WRONG_PRUNERS, ids=lambda case: case.name)
def test_a_pruner_that_cannot_prune_is_refused(case: WrongPruner) -> None:
    can_prune = {"settings": {"epochs": 8}, "objectives": {"val_accuracy": "maximize"}}
    problems = problems_of(build_spec_text(**{**can_prune, **case.changes}))
    [problem] = [problem for problem in problems if problem.key == case.key]
    assert case.expected in problem.expected
    assert case.received in problem.received
