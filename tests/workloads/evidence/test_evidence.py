"""Evidence of the kernel that ran: from real steps on a CPU, and from programs for a GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.evidence.kernel_evidence import OperationCounts, Stack, identify_kernel
from workloads.protocol import KernelProof

SMALL: dict[str, Any] = {"units": 4, "layers": 1, "dense_units": 4, "samples": 32, "dropout": 0.0}
DEEP: dict[str, Any] = {"layers": 2, "dropout": 0.2, "bidirectional": True}
PROBES = "tests.workloads.evidence.evidence_probes"
full = pytest.mark.full


def prove(trainer: Trainer, probe: str, implementation: str, **settings: Any) -> KernelProof:
    events = trainer.ask(f"{PROBES}:{probe}", implementation, settings={**SMALL, **settings})
    assert result(events).get("changed", 0) == 0
    return single_event(events, KernelProof)


CPU_KERNELS: list[tuple[str, str, dict[str, Any], str]] = [
    ("tensorflow", "portable", DEEP, "TensorFlow's traced step: While × "),
    ("jax", "portable", DEEP, "JAX's lowered step: dot_general × "),
    ("torch", "portable", DEEP, "PyTorch's profiler, forward over 8 steps: aten::mm × "),
    ("torch", "fused", DEEP, "aten::lstm × 1, aten::mkldnn_rnn_layer × 4"),
]
CPU_OPTIONS: list[tuple[str, str, dict[str, Any], str]] = [
    ("tensorflow", "portable+bf16", {"cell": "gru"}, "of bfloat16; _XlaMustCompile false"),
    ("tensorflow", "portable+fp16+xla", {}, "of float16; _XlaMustCompile true"),
    ("tensorflow", "portable+unroll+xla", {"cell": "gru"}, "MatMul × "),
    ("tensorflow", "portable+eager", DEEP, "TensorFlow's operations in one eager step: MatMul"),
    ("tensorflow", "portable", {"cell": "rnn_relu"}, "While × 1, StatelessWhile × 1"),
    ("jax", "portable+bf16+unroll", {"cell": "gru"}, "of bfloat16, float32; precision HIGHEST"),
    ("jax", "portable+fp16", {"cell": "rnn_tanh"}, "while × 2, of float16"),
    ("jax", "portable+eager", {}, "JAX's step, run operation by operation: "),
    ("torch", "portable+bf16", {"cell": "gru"}, "of bfloat16"),
    ("torch", "fused+bf16", {}, "in fused_stack, of bfloat16"),
    ("torch", "fused", {"cell": "gru"}, "aten::gru × 1"),
    ("torch", "fused", {"cell": "rnn_relu"}, "aten::rnn_relu × 1"),
]


@pytest.mark.parametrize(
    ("backend", "kernel", "settings", "shown"),
    [*CPU_KERNELS, *(pytest.param(*case, marks=full) for case in CPU_OPTIONS)],
)
def test_every_implementation_of_a_cpu_is_recognised(
    trainer_of: Trainer, backend: str, kernel: str, settings: dict[str, Any], shown: str
) -> None:
    proof = prove(trainer_of, "proven", f"{backend}/{kernel}", **settings)
    assert proof.ran == proof.asked == kernel
    assert shown in proof.evidence


@full
@pytest.mark.parametrize(
    ("backend", "asked", "built", "settings", "ran"),
    [
        ("tensorflow", "cudnn", "portable", {}, "portable"),
        ("tensorflow", "portable+xla", "portable", {}, "portable"),
        ("tensorflow", "portable", "portable+unroll", {}, "portable+unroll"),
        ("tensorflow", "portable+bf16", "portable", {}, "portable"),
        ("jax", "cudnn", "cudnn", {"cell": "gru"}, "portable"),  # Keras silently runs a scan
        ("jax", "portable", "portable+fp16", {}, "portable+fp16"),
        ("torch", "cudnn", "cudnn", {}, "portable"),  # Keras silently runs its own loop
        ("torch", "cudnn", "cudnn", {"cell": "gru"}, "portable"),
        ("torch", "portable+fp16", "portable+fp16", {}, "portable"),  # and computes in float32
        ("torch", "portable", "fused", {}, "fused"),
    ],
)
def test_evidence_does_not_depend_on_the_request(
    trainer_of: Trainer, backend: str, asked: str, built: str, settings: dict[str, Any], ran: str
) -> None:
    proof = prove(
        trainer_of, "proven", f"{backend}/{asked}", built=f"{backend}/{built}", **settings
    )
    assert (proof.asked, proof.ran) == (asked, ran)


@full
@pytest.mark.parametrize(
    ("backend", "kernel", "settings", "ran"),
    [
        ("tensorflow", "cudnn", {}, "cudnn"),
        ("tensorflow", "cudnn", {"cell": "gru", **DEEP}, "cudnn"),
        ("tensorflow", "cudnn+fp16", {}, "cudnn+fp16"),
        ("tensorflow", "cudnn+bf16", {}, "cudnn"),  # the operation computes in float32
        ("tensorflow", "cudnn", {"layers": 2, "fallen_back": "recurrent_1"}, "mixed"),
        ("tensorflow", "fused", DEEP, "fused"),
        ("tensorflow", "fused+fp16", {"cell": "rnn_tanh", "layers": 3}, "fused+fp16"),
        ("tensorflow", "fused+tf32", {"capability": 9}, "fused+tf32"),
        ("tensorflow", "cudnn+tf32", {"capability": 7}, "cudnn"),  # a GPU without the format
        ("tensorflow", "portable+tf32", {"capability": 8}, "portable+tf32"),
        ("jax", "cudnn", {}, "cudnn"),
        ("jax", "cudnn", DEEP, "cudnn"),  # one call for both directions
        ("jax", "cudnn", {"layers": 2, "fallen_back": "recurrent_1"}, "mixed"),
        ("jax", "fused", {"layers": 3, "bidirectional": True}, "fused"),
        ("jax", "fused+tf32", {"capability": 9}, "fused+tf32"),
        ("jax", "cudnn+tf32", {"capability": 7}, "cudnn"),
        ("jax", "portable+tf32", {"capability": 9}, "portable+tf32"),
        ("jax", "portable", {"capability": 9}, "portable"),
    ],
)
def test_what_a_backend_would_run_on_a_gpu_is_recognised(
    trainer_of: Trainer, backend: str, kernel: str, settings: dict[str, Any], ran: str
) -> None:
    probe = "traced_for_a_gpu" if backend == "tensorflow" else "lowered_for_a_gpu"
    assert prove(trainer_of, probe, f"{backend}/{kernel}", **settings).ran == ran


def counts(loops: int = 0, calls: int = 0, fused: int = 0, **products: int) -> OperationCounts:
    types = Counter(float32=1) if loops or calls or fused else Counter[str]()
    return OperationCounts(calls, fused, loops, Counter(products), types)


@pytest.mark.parametrize(
    ("counted", "stack", "is_eager", "kernel"),
    [
        (counts(fused=1), Stack(2, 2, 8), True, ("fused",)),
        (counts(fused=2), Stack(2, 1, 8), False, ("mixed",)),
        (counts(fused=1, calls=1), Stack(2, 1, 8), False, ("mixed",)),
        (counts(calls=1), Stack(1, 2, 8), True, ("cudnn",)),  # one call for both directions
        (counts(calls=2), Stack(1, 2, 8), True, ("cudnn",)),
        (counts(calls=1, float32=16), Stack(2, 1, 8), True, ("mixed",)),  # one layer fell back
        (counts(calls=1, float32=16), Stack(1, 2, 8), True, ("mixed",)),  # one direction did
        (counts(calls=1, loops=1), Stack(2, 1, 8), False, ("mixed",)),
        (counts(loops=2), Stack(1, 2, 8), False, ("portable",)),
        (counts(loops=1), Stack(1, 2, 8), False, ("unknown",)),
        (counts(float32=16), Stack(2, 1, 8), True, ("portable",)),
        (counts(float32=16), Stack(2, 1, 8), False, ("portable", "unroll")),
        (counts(float16=16, float32=2), Stack(2, 1, 8), False, ("portable", "fp16", "unroll")),
        (counts(float16=16, float32=16), Stack(2, 1, 8), False, ("mixed",)),
        (counts(float32=15), Stack(2, 1, 8), True, ("unknown",)),
        (counts(), Stack(1, 1, 8), False, ("unknown",)),
    ],
)
def test_the_counts_of_operations_identify_the_kernel(
    counted: OperationCounts, stack: Stack, is_eager: bool, kernel: tuple[str, ...]
) -> None:
    assert identify_kernel(counted, stack, eager=is_eager) == kernel
    with_tf32 = identify_kernel(counted, stack, eager=is_eager, tf32=True)
    is_float32 = kernel[0] not in ("mixed", "unknown") and "fp16" not in kernel
    assert ("tf32" in with_tf32) == is_float32


CALL, CUDNN = ["aten::lstm", 10, 30], ["aten::_cudnn_rnn", 12, 28]
SCOPE = ["fused_stack", 5, 35]
OWN_LOOP = [["aten::addmm", 12 + step, 13 + step] for step in range(16)]
LOOP = [["aten::mm", 70 + step, 71 + step] for step in range(16)]


@pytest.mark.parametrize(
    ("events", "settings", "ran"),
    [
        ([SCOPE, CALL, CUDNN], {"layers": 2}, "fused"),
        ([["aten::gru", 10, 30, "c10::Half"], CUDNN], {}, "cudnn+fp16"),
        ([CALL, CUDNN, *LOOP], {"layers": 2}, "mixed"),  # one layer fell back
        ([SCOPE, CALL, *OWN_LOOP], {"layers": 2}, "unknown"),  # the library's loop, not cuDNN's
        (LOOP, {"layers": 2}, "portable"),
    ],
)
def test_what_pytorchs_profiler_sees_on_a_gpu_is_recognised(
    torch_trainer: Trainer, events: list[Any], settings: dict[str, Any], ran: str
) -> None:
    proof = prove(torch_trainer, "profiled_on_a_gpu", "torch/cudnn", events=events, **settings)
    assert proof.ran == ran
