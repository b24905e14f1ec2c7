"""Malformed arms: implementations, hardware, variants and the baseline."""

import pytest

from tests.orchestrator.spec.example_specs import MalformedSpec

MALFORMED_ARMS = [
    MalformedSpec(
        name="an own setting of hardware that the sweep lacks",
        replaced={
            "workload": "workload: a.b:c",
            "hardware": "hardware: [{class: cpu, settings: {epoch: 1}}]",
        },
        line="hardware",
        key="arms.hardware[0].settings.epoch",
        expected="one of the sweep's settings",
        hint="'epochs'",
    ),
    MalformedSpec(
        name="a misspelt device",
        replaced={"hardware": "hardware: [cpu, gpus]"},
        key="arms.hardware[1]",
        expected="cpu, gpu, or the name of a hardware class",
        hint="'gpu'",
    ),
    MalformedSpec(
        name="the same option twice",
        replaced={"- tensorflow/cudnn": "- tensorflow/portable+xla+xla"},
        key="arms.implementations[1]",
        expected="each option once",
    ),
    MalformedSpec(
        name="the same implementation with its options in another order",
        replaced={
            "- tensorflow/portable": "- tensorflow/portable+xla+unroll",
            "- tensorflow/cudnn": "- tensorflow/portable+unroll+xla",
        },
        line="- tensorflow/portable+unroll+xla",
        key="arms.implementations[1]",
        received="listed twice",
    ),
    MalformedSpec(
        name="the same hardware class twice",
        replaced={
            "hardware": "hardware: [gpu, {class: cpu, threads: 2}, {threads: 2, class: cpu}]"
        },
        key="arms.hardware[2]",
        received="listed twice",
    ),
    MalformedSpec(
        name="hardware without a class or labels",
        replaced={"hardware": "hardware: [{threads: 2}]"},
        key="arms.hardware[0]",
        received="missing",
    ),
    MalformedSpec(
        name="hardware that is a number",
        replaced={"hardware": "hardware: [3]"},
        key="arms.hardware[0]",
        expected="text (cpu, gpu",
    ),
    MalformedSpec(
        name="more threads than CPUs",
        replaced={"hardware": "hardware: [{class: gpu, cpus: 2, threads: 3}]"},
        key="arms.hardware[0].threads",
        received="cpus (2)",
    ),
    MalformedSpec(
        name="CPUs of the class cpu",
        replaced={"hardware": "hardware: [{class: cpu, cpus: 2}]"},
        key="arms.hardware[0].cpus",
        received="no cpus",
    ),
    MalformedSpec(
        name="a label's key that cannot be one",
        replaced={"hardware": "hardware: [{labels: {-a: b}}]"},
        key="arms.hardware[0].labels.-a",
        expected="a label's key",
    ),
    MalformedSpec(
        name="a label selector that is a number",
        replaced={"hardware": "hardware: [{labels: {a: 4}}]"},
        key="arms.hardware[0].labels.a",
        expected="a label selector",
        hint="quotes",
    ),
    MalformedSpec(
        name="a setting of hardware that is no amount of work",
        replaced={"hardware": "hardware: [{class: cpu, settings: {cell: 1}}]"},
        key="arms.hardware[0].settings.cell",
        expected="an amount of work (epochs",
    ),
    MalformedSpec(
        name="a setting of hardware that is too small",
        replaced={"hardware": "hardware: [{class: cpu, settings: {epochs: 0}}]"},
        key="arms.hardware[0].settings.epochs",
        expected="at least 1",
    ),
    MalformedSpec(
        name="a setting of hardware that is searched",
        replaced={"hardware": "hardware: [{class: cpu, settings: {units: 8}}]"},
        key="arms.hardware[0].settings.units",
        received="share their config",
    ),
    MalformedSpec(
        name="the same variant twice",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{cell: lstm}, {cell: lstm}]"},
        line="variants",
        key="arms.variants[1]",
        received="listed twice",
    ),
    MalformedSpec(
        name="a setting of a variant that is searched",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{units: 8}]"},
        line="variants",
        key="arms.variants[0].units",
        received="share their config",
    ),
    MalformedSpec(
        name="an amount of work as a variant",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{epochs: 1}]"},
        line="variants",
        key="arms.variants[0].epochs",
        received="amount of work",
    ),
    MalformedSpec(
        name="data as a variant",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{dataset: mnist}]"},
        line="variants",
        key="arms.variants[0].dataset",
        received="the same data",
    ),
    MalformedSpec(
        name="a misspelt setting of a variant",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{cel: gru}]"},
        line="variants",
        key="arms.variants[0].cel",
        expected="a setting of image_rows",
        hint="'cell'",
    ),
    MalformedSpec(
        name="a value of a variant that the setting cannot take",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{cell: grru}]"},
        line="variants",
        key="arms.variants[0].cell",
        expected="'lstm', 'gru'",
        hint="'gru'",
    ),
    MalformedSpec(
        name="a variant whose settings do not fit together",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{activation: relu, cell: rnn_tanh}]"},
        line="variants",
        key="arms.variants[0]",
        received="has a fixed activation",
    ),
    MalformedSpec(
        name="a variant named as hardware",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{name: gpu, settings: {cell: gru}}]"},
        line="variants",
        key="arms.variants[0].name",
        expected="a name without",
    ),
    MalformedSpec(
        name="a variant that is a word",
        replaced={"hardware": "hardware: [cpu]\nvariants: [gru]"},
        line="variants",
        key="arms.variants[0]",
        expected="settings, such as",
    ),
    MalformedSpec(
        name="an own setting that one variant lacks",
        replaced={
            "workload": "workload: a.b:c",
            "hardware": "hardware: [cpu]\nvariants: [{name: usual}, {depth: 2}]",
        },
        line="variants",
        key="arms.variants[1].depth",
        received="every variant",
    ),
    MalformedSpec(
        name="an own setting of both hardware and a variant",
        replaced={
            "workload": "workload: a.b:c",
            "hardware": "hardware: [{class: cpu, settings: {depth: 1}}]\nvariants: [{depth: 2}]",
            "cell": "depth: 3",
        },
        line="hardware",
        key="arms.hardware[0].settings.depth",
        received="a variant has",
    ),
    MalformedSpec(
        name="a misspelt variant as the baseline",
        replaced={"hardware": "hardware: [cpu]\nvariants: [{cell: lstm}, {cell: gru}]"},
        added="baseline: grru",
        key="baseline",
        expected="an implementation or a variant of this sweep",
        hint="'gru'",
    ),
]


@pytest.mark.parametrize("case", MALFORMED_ARMS, ids=lambda case: case.name)
def test_wrong_arms_are_reported_at_their_line(case: MalformedSpec) -> None:
    case.expect_its_problem_alone()
