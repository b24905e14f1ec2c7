"""Malformed specs, one row each: its one problem is reported at its line, with the expectation."""
# ruff: noqa: E501  a table is read by its columns

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator.sample_specs import spec_text
from tests.orchestrator.spec.spec_lines import LINES, LISTED, precise, refused, written

# Lines of the good spec that are replaced; then line, key, expected, received and hint, in parts.
WRONG = [
    ({1: "name: yes"}, 1, "name", "text", "true", "quotes"),
    ({1: "name: ../quick"}, 1, "name", "shape", "'../quick'"),
    ({23: "repeat: 3"}, 23, "repeat", "repeats", "'repeat'", "'repeats'"),
    ({23: "epochs: 3"}, 23, "epochs", "repeats", "'epochs'", "'settings.epochs'"),
    ({23: "implementation: [torch/fused]"}, 23, "implementation", "repeats", "'implementation'", "'arms.implementations'"),
    ({22: "repeats: two"}, 22, "repeats", "a whole number", "'two'"),
    ({22: "repeats: 0"}, 22, "repeats", "at least 1", "0"),
    ({23: f"seed: {'9' * 5000}"}, 23, "seed", "64 bits", "999"),
    ({2: "workload: image_row"}, 2, "workload", "package.module:function", "'image_row'", "image_rows"),
    ({2: "workload: workloads.mine:run"}, 2, "workload", "another name", "'workloads.mine:run'", "rename 'workloads'"),
    ({6: "  epoch: 2"}, 6, "settings.epoch", "a setting of image_rows", "'epoch'", "'epochs'"),
    ({6: "  epochs: 0"}, 6, "settings.epochs", "at least 1", "0"),
    ({6: "  dropout: .nan"}, 6, "settings.dropout", "finite", ".nan"),
    ({6: "  units: 32"}, 6, "settings.units", "fixed setting or a searched", "search.space.units"),
    ({8: "  sampler: tpee"}, 8, "search.sampler", "'random'", "'tpee'", "'tpe'"),
    ({9: "  config: 3"}, 9, "search.config", "configs", "'config'", "configs"),
    ({9: "  configs: 5", 11: ""}, 9, "search.configs", "at most 4", "5"),
    ({8: "  sampler: grid", 9: "", 11: "    dropout: {low: 0.0, high: 0.5}"}, 11, "search.space.dropout", "finitely many", "continuous", "choices or a step"),
    ({8: "  sampler: grid", 9: "", 11: "    units: {low: 1, high: 16384}", 12: "    dense_units: {low: 1, high: 16384}"}, 10, "search.space", "100,000", "536,870,912"),
    ({11: "    units: {low: x, high: 128}"}, 11, "search.space.units.low", "a number", "'x'"),
    ({11: "    units: {low: 16, high: 8}"}, 11, "search.space.units.low", "at most high (8)", "16"),
    ({11: "    dropout: {low: 0.0, high: 0.5, log: true}"}, 11, "search.space.dropout.low", "above 0", "0"),
    ({11: "    units: {low: 1, high: 9, step: -2}"}, 11, "search.space.units.step", "more than 0", "-2"),
    ({11: "    units: {low: 1, high: 9, log: true, step: 2}"}, 11, "search.space.units.step", "no step with log", ""),
    ({11: "    dropout: {low: 0.1, high: 0.45, step: 0.1}"}, 11, "search.space.dropout.high", "such as 0.4", "0.45"),
    ({11: "    units: {low: 16}"}, 11, "search.space.units.high", "a value", "nothing"),
    ({11: "    units: {low: 16, hihg: 32}"}, 11, "search.space.units.hihg", "high", "'hihg'", "'high'"),
    ({13: "    batch_size: {choice: [1, 2]}"}, 13, "search.space.batch_size.choice", "choices", "'choice'", "'choices'"),
    ({13: "    batch_size: 32"}, 13, "search.space.batch_size", "a list of choices, or {low", "32"),
    ({13: "    batch_size: []"}, 13, "search.space.batch_size", "at least 1", "[]"),
    ({13: "    batch_size: [32, 64, 32]"}, 13, "search.space.batch_size", "each choice once", "32 twice"),
    ({13: "    batch_size:\n      - 32\n      - null"}, 15, "search.space.batch_size[1]", "a number, a text", "nothing"),
    ({11: "    unit: [16, 32]"}, 11, "search.space.unit", "a setting of image_rows", "'unit'", "'units'"),
    ({11: "    units: {low: 0, high: 8}"}, 11, "search.space.units.low", "at least 1", "0"),
    ({13: "    cell: [lstm, grru]", 5: ""}, 13, "search.space.cell[1]", "'lstm', 'gru'", "'grru'", "'gru'"),
    ({11: "    units: {low: 16.0, high: 32}"}, 11, "search.space.units.low", "a whole number", "16.0"),
    ({2: "workload: a.b:c", 11: "    a-b: [1, 2]"}, 11, "search.space.a-b", "shape", "'a-b'"),
    ({13: "    batch_size: {choices: [8, 0], when: {layers: 2}}"}, 13, "search.space.batch_size.choices[1]", "at least 1", "0"),
    ({4: "", 11: "    dataset: [mnist, digits]"}, 11, "search.space.dataset", "a fixed setting", "'dataset'", "move dataset to settings"),
    ({2: "workload: a.b:c", 21: "  hardware: [{class: cpu, settings: {epoch: 1}}]"}, 21, "arms.hardware[0].settings.epoch", "one of the sweep's settings", "'epoch'", "'epochs'"),
    ({13: "    batch_size: {choices: [8, 9], when: {batch_size: 8}}"}, 13, "search.space.batch_size.when.batch_size", "before batch_size", "itself"),
    ({12: "    layers: {choices: [1, 2], when: {batch_size: 32}}"}, 12, "search.space.layers.when.batch_size", "before layers", "later", "move batch_size above"),
    ({13: "    batch_size: {choices: [8, 9], when: {layer: 1}}"}, 13, "search.space.batch_size.when.layer", "before batch_size", "unknown parameter 'layer'", "'layers'"),
    ({13: "    batch_size: {choices: [8, 9], when: {cell: lstm}}"}, 13, "search.space.batch_size.when.cell", "before batch_size", "fixed setting 'cell'"),
    ({13: "    batch_size: {choices: [8, 9], when: {layers: [1, 3]}}"}, 13, "search.space.batch_size.when.layers", "1 to 2", "3"),
    ({12: "    dropout: {low: 0.1, high: 0.3}", 13: "    batch_size: {choices: [8, 9], when: {dropout: 0.2}}"}, 13, "search.space.batch_size.when.dropout", "finite number", "range", "choices or a step"),
    ({12: "    layers: {choices: [1, 2], when: {use_bias: true}}", 11: "    use_bias: [true, false]", 13: "    batch_size: {choices: [8, 9], when: {layers: 1, use_bias: false}}"}, 13, "search.space.batch_size.when", "met together", "layers and use_bias"),
    ({15: "    val_accuracy: maximise"}, 15, "search.objectives.val_accuracy", "'maximize' or 'minimize'", "'maximise'", "'maximize'"),
    ({15: "    val_acuracy: maximize"}, 15, "search.objectives.val_acuracy", "a metric of image_rows", "'val_acuracy'", "'val_accuracy'"),
    ({16: "    cost_usd: minimize"}, 16, "search.objectives.cost_usd", "prices as well", "nothing"),
    ({4: "  data_path: x.npz"}, 3, "settings", "fit together", "data_path is read for dataset mnist"),
    ({16: "    step_ms: {direction: minimize, over: maen}"}, 16, "search.objectives.step_ms.over", "mean, min, max", "'maen'", "'mean'"),
    ({16: "    step_ms: {direction: minimize, over: tensorflow/portable+xla}"}, 16, "search.objectives.step_ms.over", "tensorflow/portable, tensorflow/cudnn", "+xla", "'tensorflow/portable'"),
    ({16: "    step_ms: {direction: minimize, over: tensorflow/cudnn on gpu}", 21: "  hardware: [cpu]"}, 16, "search.objectives.step_ms.over", "hardware of this sweep (cpu)", "'gpu'"),
    ({16: "    time_to_accuracy_s: minimize"}, 16, "search.objectives.time_to_accuracy_s", "settings.target_accuracy as well", "nothing"),
    ({16: "    peak_rss_mib: minimize", 23: "trainer: warm"}, 23, "trainer", "fresh, or no trainer at all, with the objective peak_rss_mib", "warm", "all its trials so far"),
    ({14: "  objectives: {}", 15: "", 16: ""}, 14, "search.objectives", "at least one objective", "nothing", "grid, random, qmc"),
    ({20: "    - tensorflow/cudn"}, 20, "arms.implementations[1]", "a kernel among portable, cudnn", "'cudnn'"),
    ({20: "    - tensorflow/portable+xlaa"}, 20, "arms.implementations[1]", "an option among", "'xla'"),
    ({19: "    - tensorflow/portabel", 23: "baseline: tensorflow/portable"}, 19, "arms.implementations[0]", "a kernel among", "'portabel'", ""),
    ({20: "    - tensorflow/portable+xla+xla"}, 20, "arms.implementations[1]", "each option once", "+xla+xla"),
    ({20: "    - torch/fused+tf32+bf16"}, 20, "arms.implementations[1]", "one precision at most", "bf16 and tf32 in 'torch/fused+bf16+tf32'"),
    ({19: "    - tensorflow/portable+xla+unroll", 20: "    - tensorflow/portable+unroll+xla"}, 20, "arms.implementations[1]", "each implementation once", "again"),
    ({18: "  implementations: tensorflow/cudnn", 19: "", 20: ""}, 18, "arms.implementations", "a list", "'tensorflow/cudnn'"),
    ({21: "  hardware: [gpu, {class: cpu, threads: 2}, {threads: 2, class: cpu}]"}, 21, "arms.hardware[2]", "each hardware class once", "'cpu [2 threads]'"),
    ({21: "  hardware:\n    - {class: cpu, thread: 2}"}, 22, "arms.hardware[0].thread", "class, labels, cpus, threads, settings, measure, wait_s", "'thread'", "'threads'"),
    ({21: "  hardware: [{threads: 2}]"}, 21, "arms.hardware[0]", "class, labels or both", "neither"),
    ({21: "  hardware: [3]"}, 21, "arms.hardware[0]", "text (cpu, gpu", "3"),
    ({21: "  hardware: [{class: gpu, cpus: 2, threads: 3}]"}, 21, "arms.hardware[0].threads", "at most cpus (2)", "3"),
    ({21: "  hardware: [{class: cpu, cpus: 2}]"}, 21, "arms.hardware[0].cpus", "no cpus with class: cpu", "2", "whole node"),
    ({21: "  hardware: [{labels: {-a: b}}]"}, 21, "arms.hardware[0].labels.-a", "a label's key", "'-a'"),
    ({21: "  hardware: [{labels: {a: 'in()'}}]"}, 21, "arms.hardware[0].labels.a", "in(one, other)", "'in()'"),
    ({21: "  hardware: [{labels: {a: 4}}]"}, 21, "arms.hardware[0].labels.a", "a label selector", "4", "quotes"),
    ({21: "  hardware: [{class: cpu, settings: {cell: 1}}]"}, 21, "arms.hardware[0].settings.cell", "an amount of work (epochs", "'cell'", "compared in pairs"),
    ({21: "  hardware: [{class: cpu, settings: {epochs: 0}}]"}, 21, "arms.hardware[0].settings.epochs", "at least 1", "0"),
    ({21: "  hardware: [{class: cpu, settings: {units: 8}}]"}, 21, "arms.hardware[0].settings.units", "a setting that no config has", "'units'"),
    ({21: "  hardware: [cpu]\n  variants: [{cell: lstm}, {cell: lstm}]"}, 22, "arms.variants[1]", "each variant once", "'lstm' again", "A/A test"),
    ({21: "  hardware: [cpu]\n  variants: [{units: 8}]"}, 22, "arms.variants[0].units", "a setting that no config has", "'units'", ""),
    ({21: "  hardware: [cpu]\n  variants: [{epochs: 1}]"}, 22, "arms.variants[0].epochs", "no amount of work", "'epochs'", "arms.hardware"),
    ({21: "  hardware: [cpu]\n  variants: [{dataset: mnist}]"}, 22, "arms.variants[0].dataset", "the same data", "'dataset'", ""),
    ({21: "  hardware: [cpu]\n  variants: [{cel: gru}]"}, 22, "arms.variants[0].cel", "a setting of image_rows", "'cel'", "'cell'"),
    ({21: "  hardware: [cpu]\n  variants: [{cell: grru}]"}, 22, "arms.variants[0].cell", "'lstm', 'gru'", "'grru'", "'gru'"),
    ({21: "  hardware: [cpu]\n  variants: [{cell: [gru]}]"}, 22, "arms.variants[0].cell", "a number, a text", "['gru']", ""),
    ({21: "  hardware: [cpu]\n  variants: [{activation: relu, cell: rnn_tanh}]"}, 22, "arms.variants[0]", "fit together", "has a fixed activation", ""),
    ({21: "  hardware: [cpu]\n  variants: [{name: gpu, settings: {cell: gru}}]"}, 22, "arms.variants[0].name", "a name without", "'gpu'", "settings name it"),
    ({21: "  hardware: [cpu]\n  variants: [{name: deep, cell: gru}]"}, 22, "arms.variants[0].cell", "name, settings", "'cell'", ""),
    ({21: "  hardware: [cpu]\n  variants: [gru]"}, 22, "arms.variants[0]", "settings, such as", "'gru'", ""),
    ({2: "workload: a.b:c", 21: "  hardware: [cpu]\n  variants: [{name: usual}, {depth: 2}]"}, 22, "arms.variants[1].depth", "every variant has", "'depth'"),
    ({2: "workload: a.b:c", 21: "  hardware: [{class: cpu, settings: {depth: 1}}]\n  variants: [{depth: 2}]", 5: "  depth: 3"}, 21, "arms.hardware[0].settings.depth", "no variant has", "'depth'"),
    ({21: "  hardware: [cpu]\n  variants: [{cell: lstm}, {cell: gru}]", 23: "baseline: grru"}, 24, "baseline", "an implementation or a variant of this sweep", "'grru'", "'gru'"),
    ({20: "    - tensorflow/portable+relu"}, 20, "arms.implementations[1]", "arms.variants: [{activation: tanh}, {activation: relu}]", "+relu"),
    ({23: "baseline: tensorflow/cudnnn"}, 23, "baseline", "an implementation of this sweep", "cudnnn", "'tensorflow/cudnn'"),
    ({23: "limits: {trial_s: 1:30}"}, 23, "limits.trial_s", "a number", "'1:30'"),
    ({23: "limits: {trial_seconds: 5}"}, 23, "limits.trial_seconds", "trial_s, idle_s", "'trial_seconds'", "'trial_s'"),
    ({23: "prices: 3"}, 23, "prices", "a list", "3"),
    ({23: "prices: [{hardware: cpu, source: a, date: 2026-11-21}]"}, 23, "prices[0]", "usd_per_hour, usd_per_kwh, or both", "neither"),
    ({23: "prices: [{hardware: cpu, usd_per_hour: 1, date: 2026-11-21}]"}, 23, "prices[0].source", "a value", "nothing"),
    ({23: "prices: [{hardware: cpu, usd_per_hour: 0, source: a, date: 2026-11-21}]"}, 23, "prices[0].usd_per_hour", "more than 0", "0"),
    ({23: "prices: [{hardware: cpu, usd_per_hour: 1, source: a, date: last year}]"}, 23, "prices[0].date", "the day of the price", "'last year'"),
]  # fmt: skip
WRONG_LISTS = [
    ({10: "  sampler: grid"}, 10, "search.sampler", "list, or no sampler", "'grid'", "remove the sampler"),
    ({10: "  space: {epochs: [1, 2]}"}, 10, "search.space", "no space", "{epochs}", "settings"),
    ({6: "  sampler: list", 7: "  configs: 3", 8: "", 9: ""}, 7, "search.configs", "a list of configs", "3", "- {units: 64}"),
    ({6: "  configs: []", 7: "", 8: "", 9: ""}, 6, "search.configs", "at least one config", "[]"),
    ({7: "    units: 8", 8: "    layers: 1", 9: ""}, 6, "search.configs", "a whole number, or a list", "{units, layers}", "a dash before"),
    ({8: "    - units"}, 8, "search.configs[1]", "a mapping", "'units'"),
    ({8: "    - {units: [8, 16], layers: 2, use_bias: true}"}, 8, "search.configs[1].units", "a number, a text, true or false", "[8, 16]"),
    ({8: "    - {units: 16, layers: 2}"}, 8, "search.configs[1]", "the parameters of search.configs[0] (units, layers, use_bias)", "no use_bias", "every parameter"),
    ({9: "    - {units: 8, layer: 2, use_bias: true}"}, 9, "search.configs[2].layer", "the parameters of search.configs[0]", "'layer'", "'layers'"),
    ({9: "    - {use_bias: true, layers: 1, units: 8}"}, 9, "search.configs[2]", "each config once", "search.configs[0] again"),
    ({7: "    - {dropout: 0}", 8: "    - {dropout: 0.0}", 9: ""}, 8, "search.configs[1]", "each config once", "search.configs[0] again"),
    ({4: "  units: 8"}, 4, "settings.units", "a fixed setting or a searched parameter", "search.configs[0].units"),
    ({4: "", 3: "settings: {}", 7: "    - {dataset: digits}", 8: "    - {dataset: mnist}", 9: ""}, 7, "search.configs[0].dataset", "a fixed setting", "'dataset'", "move dataset to settings"),
    ({8: "    - units: 16\n      layers: '2'\n      use_bias: true"}, 9, "search.configs[1].layers", "a whole number", "'2'", "write 2"),
    ({4: "  activation: relu", 7: "    - {cell: lstm}", 8: "    - {cell: rnn_tanh}", 9: ""}, 8, "search.configs[1]", "fit together", "has a fixed activation"),
    ({4: "  data_path: x.npz"}, 3, "settings", "fit together", "data_path is read for dataset mnist"),
]  # fmt: skip
OBJECTIVES = {"val_accuracy": "maximize", "val_loss": {"direction": "minimize", "over": "cpu"}}
WRONG_PRECISION = [
    ("measure=timming", "measure", "full or timing", "'timing'"),
    ("measure={mod: timing}", "measure.mod", "mode, interval, slices", "'mode'"),
    ("measure={mode: timing, slices: [9, 7]}", "measure.slices", "fewest slices first", ""),
    ("measure={mode: timing, slices: [2, 7]}", "measure.slices[0]", "at least 6", ""),
    ("measure.interval=0.02", "measure.interval", "timed in slices", "mode: timing"),
    ("arms.hardware=[{class: cpu, measure: slices}]", "arms.hardware[0].measure", "'timing'", ""),
    ("arms.hardware=[cpu, {class: cpu, measure: full}]", "arms.hardware[1]", "once", ""),
    ("blocks=7", "blocks", "auto", "search.configs"),
    ("blocks.at_lest=8", "blocks.at_lest", "at_least", "'at_least'"),
    ("blocks={at_least: 9, at_most: 8}", "blocks.at_most", "at_least (9)", ""),
    ("search.configs=5", "search.configs", "no configs with blocks", "at_most"),
    ("search={configs: [{units: 5}]}", "search.configs", "no configs with blocks", "a list decides"),
    ("search.space.units=[1, 2, 3]", "search.space", "at least 6 configs", ""),
    ("disturbed=again", "disturbed", "mark, or a mapping", ""),
    ("disturbed=rerun", "disturbed", "mark", "blocks: auto"),
    ("disturbed.canary=0.9", "disturbed.canary", "more than 1", ""),
    ("margins={sped: 0.1}", "margins.sped", "speed, accuracy", "'speed'"),
    ("blocks=null", "search.configs", "how many configs", "blocks: auto"),
    ("measure=timing", "search.objectives.val_accuracy", "an arm that is trained whole", "measure: full"),
    ("arms.hardware=[gpu, {class: cpu, measure: timing}]", "search.objectives.val_loss", "an arm that is trained whole", "measure: full"),
    ("published=[{source: x}]", "published[0].implementation", "a value", ""),
    ("published=[{source: x, implementation: y, hardware: z, metrics: {step_m: 1}}]", "published[0].metrics.step_m", "a metric of ours", "'step_ms'"),
]  # fmt: skip


PRUNED = {"settings": {"epochs": 8}, "objectives": {"val_accuracy": "maximize"}}
WRONG_PRUNERS = [
    ({"pruner": "medain"}, "search.pruner", "median or hyperband or wilcoxon, or a mapping"),
    ({"pruner": {"name": "median", "p_threshold": 0.1}}, "search.pruner.p_threshold", "an option of median (n_startup"),
    ({"pruner": {"name": "hyperband", "min_resource": 0}}, "search.pruner.min_resource", "at least 1"),
    ({"pruner": "median", "objectives": OBJECTIVES}, "search.pruner", "one objective"),
    ({"pruner": "median", "objectives": {"step_ms": "minimize"}}, "search.pruner", "a metric of each epoch (loss"),
    ({"pruner": "median", "measure": "timing"}, "search.pruner", "an arm that is trained whole"),
    ({"pruner": "wilcoxon", "settings": {"epochs": 4}}, "search.pruner", "more than 4"),
]  # fmt: skip


CASES = [(LINES, *row) for row in WRONG] + [(LISTED, *row) for row in WRONG_LISTS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[3]} {case[5]}")
def test_a_wrong_spec_is_reported_with_its_place(case: Any) -> None:
    good, lines, line, key, expected, received, *hint = case
    (problem,) = refused(written(lines, good))
    assert (problem.place, problem.key) == (f"x.yaml:{line}", key)
    assert expected in problem.expected
    assert received in problem.received
    assert "".join(hint) in problem.hint


@pytest.mark.parametrize(("changes", "key", "expected"), WRONG_PRUNERS)
def test_a_pruner_that_cannot_prune_is_refused(
    changes: dict[str, Any], key: str, expected: str
) -> None:
    problems = refused(spec_text(**{**PRUNED, **changes}))
    assert [expected in one.expected for one in problems if one.key == key] == [True]


@pytest.mark.parametrize(("override", "key", "expected", "hint"), WRONG_PRECISION)
def test_a_wrong_precision_is_reported_at_its_key(
    override: str, key: str, expected: str, hint: str
) -> None:
    problem = {one.key: one for one in refused(precise(objectives=OBJECTIVES), override)}[key]
    assert expected in problem.expected
    assert hint in problem.hint
