"""The Python that puts an implementation to use in a program without rnnsweep."""

import ast
import os
import sys
from dataclasses import replace
from itertools import pairwise
from unittest.mock import Mock

import pytest

from orchestrator.core.arms import Usage
from orchestrator.report.best.program import implementation_program
from tests.building.arms import PORTABLE
from tests.building.trials import build_trial
from workloads.protocol import MODEL_KIND, MODULE_KIND, RECURRENT_LAYERS


@pytest.mark.parametrize(
    ("implementation", "parts"),
    [
        ("tensorflow/portable", ['"tensorflow"', "use_cudnn=False", "jit_compile=False"]),
        ("tensorflow/portable+unroll+xla", ['"tensorflow"', "unroll=True", "jit_compile=True"]),
        ("tensorflow/portable+eager", ['"tensorflow"', "use_cudnn=False", "run_eagerly=True"]),
        ("jax/cudnn+bf16", ['"jax"', "mixed_bfloat16", "use_cudnn=True", "jit_compile=True"]),
        ("torch/portable+tf32", ['"torch"', "matmul_precision", "use_cudnn=False"]),
        ("torch/fused", ['"torch"', 'rnnsweep.convert(model, "torch/fused")']),
    ],
)
def test_a_program_has_each_choice(implementation: str, parts: list[str]) -> None:
    arm = replace(PORTABLE, implementation=implementation)
    program = implementation_program(arm, [build_trial(0)])
    assert all(part in program for part in parts)


def test_an_implementation_of_the_users_own_has_no_program() -> None:
    arm = replace(PORTABLE, implementation="fast/own")
    assert implementation_program(arm, [build_trial(0)]) == ""


@pytest.mark.parametrize(
    ("layers", "implementation", "options"),
    [
        ("GRU", "tensorflow/portable", {"keras.layers.GRU": "use_cudnn=False"}),
        ("SimpleRNN", "tensorflow/portable", {}),
        ("SimpleRNN", "tensorflow/portable+unroll", {"keras.layers.SimpleRNN": "unroll=True"}),
        (
            "LSTM, MyLayer",
            "tensorflow/portable+unroll",
            {"keras.layers.LSTM": "use_cudnn=False, unroll=True", "MyLayer": "unroll=True"},
        ),
        ("", "tensorflow/portable", {}),
    ],
)
def test_layers_have_arguments_that_they_take(
    layers: str, implementation: str, options: dict[str, str]
) -> None:
    arm = replace(PORTABLE, implementation=implementation)
    trials = [
        build_trial(0, arm, environment={RECURRENT_LAYERS: layers}),
        build_trial(0, environment={RECURRENT_LAYERS: "LSTM"}),
    ]
    if implementation == PORTABLE.implementation:
        del trials[1]
    lines = implementation_program(arm, trials).splitlines()
    found = {
        line[2:].partition("(")[0]: following.partition("dict(")[2].rstrip(")")
        for line, following in pairwise(lines)
        if line.startswith("# ") and "compile" not in line
    }
    assert found == options


@pytest.mark.parametrize(
    ("implementation", "parts"),
    [
        ("torch/auto", ["module(inputs)"]),
        ("torch/auto+compile", ["torch.compile(module)"]),
        ("torch/auto+bf16+compile", ["torch.compile(module)", "torch.bfloat16"]),
        ("torch/auto+fp16", ["torch.float16", "GradScaler"]),
        ("torch/auto+tf32", ["matmul_precision"]),
    ],
)
def test_a_module_has_a_program_without_keras(implementation: str, parts: list[str]) -> None:
    trial = build_trial(0, environment={MODEL_KIND: MODULE_KIND})
    arm = replace(PORTABLE, implementation=implementation)
    program = implementation_program(arm, [trial])
    assert all(part in program for part in parts)
    assert "keras" not in program


@pytest.mark.parametrize(
    ("implementation", "part"),
    [
        ("torch/auto", "torch.set_num_threads(2)"),
        ("tensorflow/portable", "set_intra_op_parallelism_threads(2)"),
        ("jax/portable", '"PJRT_NPROC"] = "2"'),
    ],
)
def test_an_arm_with_a_number_of_threads_sets_it(implementation: str, part: str) -> None:
    as_usual = replace(PORTABLE, implementation=implementation)
    with_threads = replace(as_usual, hardware=replace(as_usual.hardware, usage=Usage(threads=2)))
    assert part in implementation_program(with_threads, [build_trial(0)])
    assert part not in implementation_program(as_usual, [build_trial(0)])


def _names(program: str) -> set[str]:
    """Return the names that a module uses and nobody defines."""
    tree = ast.parse(program)
    nodes = [*ast.walk(tree)]
    used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    made = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {a.asname or a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    made |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return used - made - {"dict"}


@pytest.mark.parametrize(
    ("implementation", "kind", "executed"),
    [
        (
            "tensorflow/portable+unroll+xla",
            "",
            {
                "layer_options": {"use_cudnn": False, "unroll": True},
                "compile_options": {"jit_compile": True},
            },
        ),
        ("jax/cudnn+bf16", "", {}),
        ("torch/fused+bf16", "", {}),
        ("torch/auto+bf16+compile", MODULE_KIND, {}),
        ("torch/auto+fp16", MODULE_KIND, {}),
    ],
)
def test_a_program_defines_every_name_that_it_uses(
    implementation: str, kind: str, executed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = Usage(threads=2)
    arm = replace(PORTABLE, implementation=implementation)
    arm = replace(arm, hardware=replace(arm.hardware, usage=usage))
    program = implementation_program(arm, [build_trial(0, environment={MODEL_KIND: kind})])
    assert not _names(program)
    for module in ("keras", "tensorflow", "torch", "jax", "rnnsweep"):
        monkeypatch.setitem(sys.modules, module, Mock())
    monkeypatch.setattr("os.environ", {})
    found: dict[str, object] = {}
    exec(compile(program, "printed", "exec"), found)
    assert {name: found[name] for name in executed} == executed
    if not kind:
        backend = implementation.partition("/")[0]
        assert os.environ["KERAS_BACKEND"] == backend
        assert program.index("KERAS_BACKEND") < program.index("import keras")
    elif "compile" in implementation:
        assert program.index("torch.compile") < program.index("torch.autocast")
