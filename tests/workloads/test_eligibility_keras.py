"""The rules on who may run what, held against what Keras and the libraries do, both ways.

On `cudnn` and `fused` a GPU is pretended (tests/workloads/pretended): what we allow becomes the
library's call, and what we refuse does not. Portable layers, and PyTorch's fused ones, really run.
"""

from __future__ import annotations

import pytest

from tests.workloads.eligibility_probes import REFUSED
from tests.workloads.shared_trainer import Trainer, result
from tests.workloads.stand_in_gpus import CUDNN, ELSEWHERE

PROBES = "tests.workloads.eligibility_probes"
EACH_BACKEND = pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])


def ask(trainer: Trainer, probe: str, implementation: str, **settings: int) -> dict[str, float]:
    """What a probe counted."""
    counts = result(trainer.ask(f"{PROBES}:{probe}", implementation, settings=settings))
    return {what: count for what, count in counts.items() if not what.endswith(("_s", "_mib"))}


@EACH_BACKEND
def test_our_rules_on_cudnn_are_those_of_keras(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "cudnn_rules", f"{backend}/portable", stride=61)
    beside = {
        "tensorflow": {"a failed assertion", "without XLA, quietly"},
        "jax": {"a program that JAX cannot make", ELSEWHERE},
        "torch": {"a failed backward pass", ELSEWHERE},
    }
    assert set(counts) == {CUDNN, REFUSED} | beside[backend]


@EACH_BACKEND
def test_our_rules_on_the_fused_layer_are_its_own(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "fused_rules", f"{backend}/portable", stride=5)
    beside = {"tensorflow": {"a failed assertion"}, "jax": {"a program that JAX cannot make"}}
    assert set(counts) == {CUDNN, REFUSED} | beside.get(backend, set())


@pytest.mark.parametrize(
    ("backend", "lstm", "gru"),
    [
        ("tensorflow", REFUSED, REFUSED),
        ("jax", REFUSED, ELSEWHERE),
        ("torch", ELSEWHERE, ELSEWHERE),
    ],
)
def test_without_a_gpu_keras_refuses_or_quietly_does_otherwise(
    trainer_of: Trainer, backend: str, lstm: str, gru: str
) -> None:
    counts = ask(trainer_of, "without_gpu", f"{backend}/portable")
    assert set(counts) == {f"lstm: {lstm}", f"gru: {gru}"}


def test_keras_swallows_what_cudnn_says_on_pytorch(torch_trainer: Trainer) -> None:
    assert ask(torch_trainer, "swallowed", "torch/portable") == {ELSEWHERE: 4.0}


def test_keras_simple_layers_cannot_be_asked_for_cudnn(trainer: Trainer) -> None:
    assert ask(trainer, "simple_cudnn", "tensorflow/portable") == {"refused": 1.0}


def test_xla_compiles_portable_layers_and_never_cudnn(trainer: Trainer) -> None:
    assert ask(trainer, "xla", "tensorflow/portable") == {
        "MatMul": 1.0, "CudnnRNNV3": 0.0, "portable": 1.0, "bidirectional": 1.0
    }  # fmt: skip


def test_jax_calls_cudnn_without_a_graph_too(jax_trainer: Trainer) -> None:
    assert ask(jax_trainer, "eager_call", "jax/portable") == {"reached": 1.0}


@pytest.mark.parametrize(
    ("backend", "option", "cases"),
    [
        ("tensorflow", "", 4),
        ("tensorflow", "+unroll", 2),
        ("tensorflow", "+xla", 1),
        ("tensorflow", "+bf16+xla", 1),
        ("tensorflow", "+bf16+unroll", 3),
        ("tensorflow", "+eager+fp16", 6),
        ("jax", "", 2),
        ("jax", "+eager", 1),
        ("jax", "+bf16+unroll", 1),
        ("jax", "+fp16", 1),
        ("torch", "", 12),
        ("torch", "+bf16", 12),
    ],
)
def test_portable_layers_run_on_a_cpu_in_every_way(
    trainer_of: Trainer, backend: str, option: str, cases: int
) -> None:
    counts = ask(trainer_of, "portable_runs", f"{backend}/portable{option}", cases=cases)
    assert counts == {"runs": float(cases)}
