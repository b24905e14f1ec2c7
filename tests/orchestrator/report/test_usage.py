"""The lines that put an implementation to use in a program without rnnsweep."""

from dataclasses import replace

import pytest

from orchestrator.core.arms import Usage
from orchestrator.report.usage import usage_lines
from tests.building.arms import PORTABLE
from tests.building.trials import build_trial
from workloads.protocol import MODEL_KIND, MODULE_KIND


@pytest.mark.parametrize(
    ("implementation", "parts"),
    [
        ("tensorflow/auto", ['"tensorflow"']),
        ("tensorflow/portable", ['"tensorflow"', "use_cudnn=False", "jit_compile=False"]),
        ("tensorflow/portable+unroll+xla", ['"tensorflow"', "unroll=True", "jit_compile=True"]),
        ("tensorflow/portable+eager", ['"tensorflow"', "use_cudnn=False", "run_eagerly=True"]),
        ("jax/cudnn+bf16", ['"jax"', "mixed_bfloat16", "use_cudnn=True", "jit_compile=True"]),
        ("torch/portable+tf32", ['"torch"', "matmul_precision", "use_cudnn=False"]),
        ("torch/fused", ['"torch"', 'rnnsweep.convert(model, "torch/fused")']),
        ("fast/own", []),
    ],
)
def test_there_is_a_line_for_each_choice(implementation: str, parts: list[str]) -> None:
    lines = usage_lines(replace(PORTABLE, implementation=implementation), [build_trial(0)])
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("implementation", "parts"),
    [
        ("torch/auto", ["module(inputs)"]),
        ("torch/auto+compile", ["torch.compile(module)"]),
        ("torch/auto+bf16", ["torch.bfloat16"]),
        ("torch/auto+bf16+compile", ["torch.compile(module)", "torch.bfloat16"]),
        ("torch/auto+fp16", ["torch.float16", "GradScaler"]),
        ("torch/auto+tf32", ["matmul_precision"]),
    ],
)
def test_a_module_has_lines_without_keras(implementation: str, parts: list[str]) -> None:
    trial = build_trial(0, environment={MODEL_KIND: MODULE_KIND})
    lines = usage_lines(replace(PORTABLE, implementation=implementation), [trial])
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line
        assert "keras" not in line


@pytest.mark.parametrize(
    ("implementation", "part"),
    [
        ("torch/auto", "torch.set_num_threads(2)"),
        ("tensorflow/portable", "set_intra_op_parallelism_threads(2)"),
        ("jax/portable", '"PJRT_NPROC"] = "2"'),
    ],
)
def test_an_arm_with_a_number_of_threads_has_a_line_for_it(implementation: str, part: str) -> None:
    as_usual = replace(PORTABLE, implementation=implementation)
    with_threads = replace(as_usual, hardware=replace(as_usual.hardware, usage=Usage(threads=2)))
    *others, last = usage_lines(with_threads, [build_trial(0)])
    assert tuple(others) == usage_lines(as_usual, [build_trial(0)])
    assert part in last
