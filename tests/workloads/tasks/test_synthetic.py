from __future__ import annotations

from typing import Any

import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.protocol import Event, KernelProof
from workloads.registry import find_workload

SMALL: dict[str, Any] = {
    **{"features": 5, "sequence_length": 6, "units": 4, "batch_size": 3, "timed_steps": 3},
}


def synthetic(trainer: Trainer, implementation: str, **settings: Any) -> list[Event]:
    return trainer.ask("synthetic", implementation, settings={**SMALL, **settings}, seed=3)


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        *(("tensorflow", f"portable{option}") for option in ("", "+xla", "+unroll", "+eager")),
        *(("jax", f"portable{option}") for option in ("", "+unroll", "+eager")),
        *(("torch", kernel) for kernel in ("portable", "fused", "fused+bf16")),
    ],
)
def test_both_passes_are_timed_and_proven(trainer_of: Trainer, backend: str, kernel: str) -> None:
    events = synthetic(trainer_of, f"{backend}/{kernel}")
    metrics, proof = result(events), single_event(events, KernelProof)
    assert proof.ran == proof.asked == kernel
    assert metrics["forward_ms"] > 0
    assert metrics["step_ms"] == pytest.approx(1_000 * metrics["train_s"] / 3)
    assert metrics["step_ms_median"] > 0
    assert metrics["sample_us"] == pytest.approx(1_000 * metrics["step_ms"] / 3)
    missing = {"peak_gpu_mib", "step_ms_p95"}
    assert set(metrics) - {"import_s"} == set(find_workload("synthetic").metrics) - missing


def test_a_percentile_needs_20_steps(torch_trainer: Trainer) -> None:
    metrics = result(synthetic(torch_trainer, "torch/fused", timed_steps=20))
    assert metrics["step_ms_median"] <= metrics["step_ms_p95"]


def test_flops_are_those_of_the_formula(torch_trainer: Trainer) -> None:
    metrics = result(
        synthetic(torch_trainer, "torch/fused", cell="gru", layers=2, bidirectional=True)
    )
    forward = 6 * 2 * (2 * 3 * 4 * (5 + 4) + 2 * 3 * 4 * (8 + 4))
    assert metrics["model_flops_per_step"] == 3 * 3 * forward


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_every_cell_has_passes(torch_trainer: Trainer, cell: str) -> None:
    events = synthetic(torch_trainer, "torch/fused", cell=cell, layers=2, bidirectional=True)
    assert single_event(events, KernelProof).ran == "fused"


def test_an_implementation_without_a_cpu_kernel_is_not_possible(trainer: Trainer) -> None:
    failed = failure(synthetic(trainer, "tensorflow/fused"))
    assert failed.kind == "not_possible"
    assert "CudnnRNNV3 has no CPU kernel" in failed.message
