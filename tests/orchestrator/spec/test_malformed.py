"""Malformed specs, one row each: its one problem is reported at its line, with the expectation."""
# ruff: noqa: E501  a table is read by its columns

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.orchestrator.spec.test_load import refused, written


@dataclass
class Case:
    """One wrong spec and its one problem: the line, the key, and words of the message."""

    name: str
    lines: dict[int, str]
    line: int
    key: str
    expected: str
    received: str
    hint: str = ""


CASES = [
    # names and types
    Case("yes is true", {1: "name: yes"}, 1, "name", "text", "true", "quotes"),
    Case("number as name", {1: "name: 12"}, 1, "name", "text", "12", "quotes"),
    Case("capital name", {1: "name: Quick"}, 1, "name", "shape ^[a-z0-9]", "'Quick'"),
    Case("path as name", {1: "name: ../quick"}, 1, "name", "shape", "'../quick'"),
    Case("long name", {1: f"name: {'a' * 65}"}, 1, "name", "shape", "aaa"),
    Case("unknown key", {23: "repeat: 3"}, 23, "repeat", "repeats", "'repeat'", "'repeats'"),
    Case("misspelt required", {2: "worklod: x"}, 2, "worklod", "workload", "'worklod'", "workload"),
    Case("text as number", {22: "repeats: two"}, 22, "repeats", "a whole number", "'two'"),
    Case("quoted number", {22: 'repeats: "3"'}, 22, "repeats", "whole number", "'3'", "write 3,"),
    Case("float repeats", {22: "repeats: 1.5"}, 22, "repeats", "a whole number", "1.5"),
    Case("true repeats", {22: "repeats: on"}, 22, "repeats", "a whole number", "true"),
    Case("octal repeats", {22: "repeats: 010"}, 22, "repeats", "whole number", "'010'", "write 10"),
    Case("repeats 0", {22: "repeats: 0"}, 22, "repeats", "at least 1", "0"),
    Case("negative seed", {23: "seed: -1"}, 23, "seed", "at least 0", "-1"),
    Case("huge seed", {23: f"seed: {'9' * 5000}"}, 23, "seed", "64 bits", "999"),
    Case("null settings", {3: "settings:", 4: "", 5: "", 6: ""}, 3, "settings", "a mapping", "nothing"),
    # settings
    Case("unknown workload", {2: "workload: image_row"}, 2, "workload", "package.module:function", "'image_row'", "image_rows"),
    Case("unknown setting", {6: "  epoch: 2"}, 6, "settings.epoch", "a setting of image_rows", "'epoch'", "'epochs'"),
    Case("setting's type", {6: "  epochs: many"}, 6, "settings.epochs", "a whole number", "'many'"),
    Case("setting's bound", {6: "  epochs: 0"}, 6, "settings.epochs", "at least 1", "0"),
    Case("setting's choice", {5: "  cell: lstn"}, 5, "settings.cell", "'lstm', 'gru'", "'lstn'", "'lstm'"),
    Case("settings together", {6: "  data_path: a.npz"}, 3, "settings", "fit together", "data_path is read for dataset mnist"),
    Case("nan setting", {6: "  dropout: .nan"}, 6, "settings.dropout", "finite", ".nan"),
    Case("fixed and searched", {6: "  units: 32"}, 6, "settings.units", "fixed setting or a searched", "search.space.units"),
    # sampler
    Case("unknown sampler", {8: "  sampler: tpee"}, 8, "search.sampler", "'random'", "'tpee'", "'tpe'"),
    Case("configs 0", {9: "  configs: 0"}, 9, "search.configs", "at least 1", "0"),
    Case("negative configs", {9: "  configs: -3"}, 9, "search.configs", "at least 1", "-3"),
    Case("no configs", {9: ""}, 7, "search.configs", "how many configs", "nothing"),
    Case("misspelt configs", {9: "  config: 3"}, 9, "search.config", "configs", "'config'", "configs"),
    Case("open blocks 0", {9: "  configs: 3\n  open_blocks: 0"}, 10, "search.open_blocks", "at least 1", "0"),
    Case("too many configs", {9: "  configs: 5", 11: ""}, 9, "search.configs", "at most 4", "5"),
    Case("grid of ranges", {8: "  sampler: grid", 9: "", 11: "    dropout: {low: 0.0, high: 0.5}"}, 11, "search.space.dropout", "finitely many", "continuous", "choices or a step"),
    Case("grid too large", {8: "  sampler: grid", 9: "", 11: "    units: {low: 1, high: 16384}", 12: "    dense_units: {low: 1, high: 16384}"}, 10, "search.space", "100,000", "536,870,912"),
    # dimensions
    Case("low is text", {11: "    units: {low: x, high: 128}"}, 11, "search.space.units.low", "a number", "'x'"),
    Case("low quoted", {11: "    units: {low: '16', high: 128}"}, 11, "search.space.units.low", "a number", "'16'", "write 16,"),
    Case("high below low", {11: "    units: {low: 16, high: 8}"}, 11, "search.space.units.low", "at most high (8)", "16"),
    Case("log of 0", {11: "    units: {low: 0, high: 8, log: true}"}, 11, "search.space.units.low", "above 0", "0"),
    Case("log and step", {11: "    units: {low: 1, high: 9, log: true, step: 2}"}, 11, "search.space.units.step", "no step with log", ""),
    Case("step does not fit", {11: "    units: {low: 16, high: 33, step: 8}"}, 11, "search.space.units.high", "such as 32", "33"),
    Case("float step does not fit", {11: "    dropout: {low: 0.1, high: 0.45, step: 0.1}"}, 11, "search.space.dropout.high", "such as 0.4", "0.45"),
    Case("step 0", {11: "    units: {low: 16, high: 32, step: 0}"}, 11, "search.space.units.step", "more than 0", "0"),
    Case("infinite bound", {11: "    dropout: {low: 0.0, high: .inf}"}, 11, "search.space.dropout.high", "finite", ".inf"),
    Case("no high", {11: "    units: {low: 16}"}, 11, "search.space.units.high", "a value", "nothing"),
    Case("misspelt high", {11: "    units: {low: 16, hihg: 32}"}, 11, "search.space.units.hihg", "high", "'hihg'", "'high'"),
    Case("misspelt choices", {13: "    batch_size: {choice: [1, 2]}"}, 13, "search.space.batch_size.choice", "choices", "'choice'", "'choices'"),
    Case("scalar dimension", {13: "    batch_size: 32"}, 13, "search.space.batch_size", "a list of choices, or {low", "32"),
    Case("no choices", {13: "    batch_size: []"}, 13, "search.space.batch_size", "at least 1", "[]"),
    Case("choice twice", {13: "    batch_size: [32, 64, 32]"}, 13, "search.space.batch_size", "each choice once", "32 twice"),
    Case("null choice", {13: "    batch_size:\n      - 32\n      - null"}, 15, "search.space.batch_size[1]", "a number, a text", "nothing"),
    Case("unknown parameter", {11: "    unit: [16, 32]"}, 11, "search.space.unit", "a setting of image_rows", "'unit'", "'units'"),
    Case("bound not allowed", {11: "    units: {low: 0, high: 8}"}, 11, "search.space.units.low", "at least 1", "0"),
    Case("high not allowed", {11: "    units:\n      low: 1\n      high: 99999"}, 13, "search.space.units.high", "at most 16384", "99999"),
    Case("choice not allowed", {13: "    cell: [lstm, grru]", 5: ""}, 13, "search.space.cell[1]", "'lstm', 'gru'", "'grru'", "'gru'"),
    Case("floats for ints", {11: "    units: {low: 16.0, high: 32}"}, 11, "search.space.units.low", "a whole number", "16.0"),
    Case("bad parameter name", {2: "workload: a.b:c", 11: "    a-b: [1, 2]"}, 11, "search.space.a-b", "shape", "'a-b'"),
    # conditions
    Case("condition on itself", {13: "    batch_size: {choices: [8, 9], when: {batch_size: 8}}"}, 13, "search.space.batch_size.when.batch_size", "before batch_size", "itself"),
    Case("condition on a later one", {12: "    layers: {choices: [1, 2], when: {batch_size: 32}}"}, 12, "search.space.layers.when.batch_size", "before layers", "later", "move batch_size above"),
    Case("condition on an unknown one", {13: "    batch_size: {choices: [8, 9], when: {layer: 1}}"}, 13, "search.space.batch_size.when.layer", "before batch_size", "unknown parameter 'layer'", "'layers'"),
    Case("condition on a setting", {13: "    batch_size: {choices: [8, 9], when: {cell: lstm}}"}, 13, "search.space.batch_size.when.cell", "before batch_size", "fixed setting 'cell'"),
    Case("condition never met", {13: "    batch_size: {choices: [8, 9], when: {layers: [1, 3]}}"}, 13, "search.space.batch_size.when.layers", "1 to 2", "3"),
    Case("condition of another type", {13: "    batch_size: {choices: [8, 9], when: {layers: true}}"}, 13, "search.space.batch_size.when.layers", "1 to 2", "true"),
    Case("condition on a continuum", {12: "    dropout: {low: 0.1, high: 0.3}", 13: "    batch_size: {choices: [8, 9], when: {dropout: 0.2}}"}, 13, "search.space.batch_size.when.dropout", "finite number", "range", "choices or a step"),
    Case("conditions apart", {12: "    layers: {choices: [1, 2], when: {use_bias: true}}", 11: "    use_bias: [true, false]", 13: "    batch_size: {choices: [8, 9], when: {layers: 1, use_bias: false}}"}, 13, "search.space.batch_size.when", "met together", "layers and use_bias"),
    # objectives
    Case("direction", {15: "    val_accuracy: maximise"}, 15, "search.objectives.val_accuracy", "'maximize' or 'minimize'", "'maximise'", "'maximize'"),
    Case("long direction", {15: "    val_accuracy: {direction: up}"}, 15, "search.objectives.val_accuracy.direction", "'maximize'", "'up'"),
    Case("no direction", {15: "    val_accuracy: {over: mean}"}, 15, "search.objectives.val_accuracy.direction", "a value", "nothing"),
    Case("unknown in objective", {15: "    val_accuracy: {direction: maximize, ovr: min}"}, 15, "search.objectives.val_accuracy.ovr", "direction, over", "'ovr'", "'over'"),
    Case("metric name", {15: "    Val-Accuracy: maximize"}, 15, "search.objectives.Val-Accuracy", "shape", "'Val-Accuracy'"),
    Case("over", {16: "    step_ms: {direction: minimize, over: maen}"}, 16, "search.objectives.step_ms.over", "mean, min, max", "'maen'", "'mean'"),
    Case("over another arm", {16: "    step_ms: {direction: minimize, over: tensorflow/portable+xla}"}, 16, "search.objectives.step_ms.over", "tensorflow/portable, tensorflow/cudnn", "+xla", "'tensorflow/portable'"),
    Case("over absent hardware", {16: "    step_ms: {direction: minimize, over: tensorflow/cudnn on gpu}", 21: "  hardware: [cpu]"}, 16, "search.objectives.step_ms.over", "hardware of this sweep (cpu)", "'gpu'"),
    Case("time to no accuracy", {16: "    time_to_accuracy_s: minimize"}, 16, "search.objectives.time_to_accuracy_s", "settings.target_accuracy as well", "nothing"),
    Case("warm memory", {16: "    peak_rss_mib: minimize", 23: "trainer: warm"}, 23, "trainer", "fresh, or no trainer at all, with the objective peak_rss_mib", "warm", "all its trials so far"),
    Case("unknown trainer", {23: "trainer: frech"}, 23, "trainer", "'warm' or 'fresh'", "'frech'", "'fresh'"),
    Case("no objective", {14: "  objectives: {}", 15: "", 16: ""}, 14, "search.objectives", "at least one objective", "nothing", "grid, random, qmc"),
    # arms
    Case("unknown kernel", {20: "    - tensorflow/cudn"}, 20, "arms.implementations[1]", "a kernel among portable, cudnn", "'cudn'", "'cudnn'"),
    Case("unknown backend", {20: "    - tensorflwo/cudnn"}, 20, "arms.implementations[1]", "a backend among", "'tensorflwo'", "'tensorflow'"),
    Case("unknown option", {20: "    - tensorflow/portable+xlaa"}, 20, "arms.implementations[1]", "an option among", "'xlaa'", "'xla'"),
    Case("option twice", {20: "    - tensorflow/portable+xla+xla"}, 20, "arms.implementations[1]", "each option once", "+xla+xla"),
    Case("two precisions", {20: "    - torch/fused+tf32+bf16"}, 20, "arms.implementations[1]", "one precision at most", "bf16 and tf32 in 'torch/fused+bf16+tf32'"),
    Case("no implementation", {20: "    - cudnn"}, 20, "arms.implementations[1]", "backend/kernel", "'cudnn'"),
    Case("number as implementation", {20: "    - 3"}, 20, "arms.implementations[1]", "text", "3"),
    Case("arm twice", {19: "    - tensorflow/portable+xla+unroll", 20: "    - tensorflow/portable+unroll+xla"}, 20, "arms.implementations[1]", "each implementation once", "again"),
    Case("implementations as text", {18: "  implementations: tensorflow/cudnn", 19: "", 20: ""}, 18, "arms.implementations", "a list", "'tensorflow/cudnn'"),
    Case("no implementations", {18: "  implementations: []", 19: "", 20: ""}, 18, "arms.implementations", "at least 1", "[]"),
    Case("hardware twice", {21: "  hardware: [cpu, gpu, cpu]"}, 21, "arms.hardware[2]", "each hardware class once", "'cpu'"),
    Case("hardware alike twice", {21: "  hardware: [gpu, {class: cpu, threads: 2}, {threads: 2, class: cpu}]"}, 21, "arms.hardware[2]", "each hardware class once", "'cpu [2 threads]'"),
    Case("hardware unknown key", {21: "  hardware:\n    - {class: cpu, thread: 2}"}, 22, "arms.hardware[0].thread", "class, labels, cpus, threads, settings, measure, wait_s", "'thread'", "'threads'"),
    Case("hardware empty", {21: "  hardware: [{threads: 2}]"}, 21, "arms.hardware[0]", "class, labels or both", "neither"),
    Case("hardware a number", {21: "  hardware: [3]"}, 21, "arms.hardware[0]", "text (cpu, gpu", "3"),
    Case("no threads", {21: "  hardware: [{class: cpu, threads: 0}]"}, 21, "arms.hardware[0].threads", "at least 1", "0"),
    Case("threads beyond cpus", {21: "  hardware: [{class: gpu, cpus: 2, threads: 3}]"}, 21, "arms.hardware[0].threads", "at most cpus (2)", "3"),
    Case("part of a node", {21: "  hardware: [{class: cpu, cpus: 2}]"}, 21, "arms.hardware[0].cpus", "no cpus with class: cpu", "2", "whole node"),
    Case("label's key", {21: "  hardware: [{labels: {-a: b}}]"}, 21, "arms.hardware[0].labels.-a", "a label's key", "'-a'"),
    Case("label's condition", {21: "  hardware: [{labels: {a: 'in()'}}]"}, 21, "arms.hardware[0].labels.a", "in(one, other)", "'in()'"),
    Case("label's type", {21: "  hardware: [{labels: {a: 4}}]"}, 21, "arms.hardware[0].labels.a", "a label selector", "4", "quotes"),
    Case("no wait", {21: "  hardware: [{class: gpu, wait_s: 0}]"}, 21, "arms.hardware[0].wait_s", "more than 0", "0"),
    Case("own size", {21: "  hardware: [{class: cpu, settings: {cell: 1}}]"}, 21, "arms.hardware[0].settings.cell", "an amount of work (epochs", "'cell'", "compared in pairs"),
    Case("own text", {21: "  hardware: [{class: cpu, settings: {epochs: few}}]"}, 21, "arms.hardware[0].settings.epochs", "a number", "'few'"),
    Case("own bound", {21: "  hardware: [{class: cpu, settings: {epochs: 0}}]"}, 21, "arms.hardware[0].settings.epochs", "at least 1", "0"),
    Case("own searched", {21: "  hardware: [{class: cpu, settings: {units: 8}}]"}, 21, "arms.hardware[0].settings.units", "a setting that no config has", "'units'"),
    Case("over any on absent", {16: "    step_ms: {direction: minimize, over: gpu}", 21: "  hardware: [cpu]"}, 16, "search.objectives.step_ms.over", "hardware of this sweep (cpu)", "'gpu'"),
    Case("no hardware", {21: "  hardware: []"}, 21, "arms.hardware", "at least 1", "[]"),
    Case("baseline", {23: "baseline: tensorflow/cudnnn"}, 23, "baseline", "an implementation of this sweep", "cudnnn", "'tensorflow/cudnn'"),
    Case("baseline's hardware", {21: "  hardware: [cpu]", 23: "baseline: tensorflow/cudnn on gpu"}, 23, "baseline", "hardware of this sweep (cpu)", "'gpu'"),
    # limits
    Case("limit 0", {23: "limits: {trial_s: 0}"}, 23, "limits.trial_s", "more than 0", "0"),
    Case("negative limit", {23: "limits: {idle_s: -5.0}"}, 23, "limits.idle_s", "more than 0", "-5.0"),
    Case("infinite limit", {23: "limits: {trial_s: .inf}"}, 23, "limits.trial_s", "finite", ".inf"),
    Case("sexagesimal limit", {23: "limits: {trial_s: 1:30}"}, 23, "limits.trial_s", "a number", "'1:30'"),
    Case("unknown limit", {23: "limits: {trial_seconds: 5}"}, 23, "limits.trial_seconds", "trial_s, idle_s", "'trial_seconds'", "'trial_s'"),
    Case("attempts 0", {23: "limits: {attempts: 0}"}, 23, "limits.attempts", "at least 1", "0"),
    Case("memory in words", {23: "limits: {memory_mib: 4GiB}"}, 23, "limits.memory_mib", "a whole number", "'4GiB'"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_spec_is_reported_with_its_place(case: Case) -> None:
    [problem] = refused(written(case.lines))
    assert problem.place == f"x.yaml:{case.line}"
    assert problem.key == case.key
    assert case.expected in problem.expected
    assert case.received in problem.received
    assert case.hint in problem.hint
