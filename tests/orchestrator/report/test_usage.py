"""The lines that put an implementation to use in a program without rnnsweep."""

import pytest

from orchestrator.report.usage import usage_lines


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
        ("torch/auto+compile", ["torch.compile(module)"]),
        ("torch/auto+bf16+compile", ["torch.compile(module)", "torch.bfloat16"]),
        ("fast/own", []),
    ],
)
def test_there_is_a_line_for_each_choice(implementation: str, parts: list[str]) -> None:
    lines = usage_lines(implementation)
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line
