"""The built-in workloads in real trainers: their metrics, their data, and that they learn."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from tests.workloads.tasks.small_settings import SMALL
from workloads.protocol import (
    RECURRENT_LAYERS,
    Artifact,
    Dataset,
    EnvironmentFacts,
    Epoch,
    Event,
    KernelProof,
)
from workloads.registry import find_workload

pytestmark = pytest.mark.full


def ask(trainer: Trainer, workload: str, implementation: str, **settings: Any) -> list[Event]:
    own = {**SMALL[workload], **settings}
    return trainer.ask(workload, implementation, settings=own, seed=3)


def expect_metrics_data_and_kernel(events: list[Event], workload: str) -> None:
    metrics, definition = result(events), find_workload(workload)
    optional = {"time_to_accuracy_s", "step_ms_p95", "import_s"}
    optional |= {"peak_gpu_mib", "peak_flops_per_s", "model_flops_utilization_pct"}
    if workload == "char_rnn":  # a stateful model takes full batches only
        optional |= {"latency_s", "predict_sample_ms"}
    assert set(metrics) - optional == set(definition.metrics) - optional
    proof = single_event(events, KernelProof)
    assert proof.ran == proof.asked
    facts = [event.facts for event in events if isinstance(event, EnvironmentFacts)]
    assert {fact.get(RECURRENT_LAYERS) for fact in facts} - {None} <= {"GRU", "LSTM"}
    assert any(RECURRENT_LAYERS in fact for fact in facts)
    assert metrics["sample_us"] == pytest.approx(1e6 / metrics["samples_per_s"])
    if workload == "synthetic":
        assert 0 < metrics["step_ms"] <= 1_000.001 * metrics["train_s"] / 3, "the fastest slice"
        return
    data = single_event(events, Dataset)
    assert data.digest == definition.data_digest(SMALL[workload])
    assert data.samples == SMALL[workload]["samples"]
    assert data.validation_samples == SMALL[workload].get("validation_samples", 359)


@pytest.mark.parametrize(
    ("workload", "settings", "implementations"),
    [
        pytest.param(
            "image_rows",
            {"cell": "gru"},
            ["tensorflow/portable+xla+unroll", "tensorflow/portable", "jax/portable"],
            id="image_rows",
        ),
        pytest.param("char_rnn", {"layers": 2}, ["torch/portable", "torch/fused"], id="char_rnn"),
        pytest.param(
            "sentiment", {"masked": True}, ["jax/portable", "torch/fused"], id="sentiment"
        ),
    ],
)
def test_arms_start_equal_stay_close_and_report_their_metrics_and_data(
    trainer_for: Callable[[str], Trainer],
    workload: str,
    settings: dict[str, Any],
    implementations: list[str],
) -> None:
    losses, texts = [], set[str]()
    for implementation in implementations:
        events = ask(trainer_for(implementation), workload, implementation, **settings)
        expect_metrics_data_and_kernel(events, workload)
        losses.append([result(events)[metric] for metric in ("loss", "val_loss")])
        texts |= {event.text for event in events if isinstance(event, Artifact)}
    assert np.array(losses) == pytest.approx(np.array([losses[0]] * len(losses)), rel=1e-4)
    assert len(texts) == (workload == "char_rnn"), "equal weights and seeds write equal texts"


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("tensorflow", "portable+bf16+xla"),
        ("tensorflow", "portable+eager+fp16"),
        ("jax", "portable+unroll"),
        ("jax", "portable+bf16"),
        ("torch", "fused+bf16"),
    ],
)
def test_passes_of_every_kernel_are_timed_and_proven(
    trainer_of: Trainer, backend: str, kernel: str
) -> None:
    events = ask(trainer_of, "synthetic", f"{backend}/{kernel}")
    expect_metrics_data_and_kernel(events, "synthetic")
    assert result(events)["forward_ms"] > 0


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_relu"])
def test_passes_of_every_cell_are_proven_and_counted(torch_trainer: Trainer, cell: str) -> None:
    shape = {"cell": cell, "layers": 2, "bidirectional": True, "timed_steps": 20}
    events = ask(torch_trainer, "synthetic", "torch/fused", **shape)
    metrics, gates = result(events), {"lstm": 4, "gru": 3}.get(cell, 1)
    assert single_event(events, KernelProof).ran == "fused"
    assert metrics["step_ms_median"] <= metrics["step_ms_p95"]
    forward = 6 * 2 * (2 * gates * 4 * (5 + 4) + 2 * gates * 4 * (8 + 4))
    assert metrics["model_flops_per_step"] == 3 * 3 * forward  # steps, samples, both passes


def test_a_workload_learns(torch_trainer: Trainer) -> None:
    settings = {"units": 64, "epochs": 12, "learning_rate": 0.005, "samples": None}
    target = {"target_accuracy": 0.9, "timed_steps": 0}
    events = ask(torch_trainer, "image_rows", "torch/fused", **settings, **target)
    metrics = result(events)
    assert metrics["val_accuracy"] > 0.9
    assert 0 < metrics["time_to_accuracy_s"] <= metrics["train_s"]
    curve = [event.metrics["val_accuracy"] for event in events if isinstance(event, Epoch)]
    assert curve[-1] == metrics["val_accuracy"] > curve[0]


@pytest.mark.parametrize("batches", ["stateful", "windows"])
def test_char_rnn_reports_bits_and_writes_a_text(torch_trainer: Trainer, batches: str) -> None:
    settings = {"batches": batches, "validation_samples": 10}
    events = ask(torch_trainer, "char_rnn", "torch/fused", **settings)
    metrics, text = result(events), single_event(events, Artifact)
    assert metrics["bits_per_char"] == pytest.approx(metrics["loss"] / math.log(2))
    assert metrics["val_bits_per_char"] == pytest.approx(metrics["val_loss"] / math.log(2))
    assert text.name == "sample.txt"
    prime, mark, continuation = text.text.partition("--- written at temperature 0.8:\n")
    assert (len(prime), bool(mark), len(continuation)) == (12 + 1, True, 30 + 1)
    counted = 8 if batches == "stateful" else 10  # full batches of four samples
    assert single_event(events, Dataset).validation_samples == counted


@pytest.mark.parametrize(
    ("backend", "probe", "kind", "words"),
    [
        ("tensorflow", "cudnn_unchecked", "not_possible", "cudnn: Keras refuses cuDNN: "),
        ("jax", "cudnn_unchecked", "not_possible", "cuDNN by itself fails too: "),
        ("jax", "full_gpu", "out_of_memory", "9 bytes. (JAX gives each cuDNN call four times"),
        ("torch", "full_gpu", "out_of_memory", "9 bytes.: reduce batch_size"),
        ("tensorflow", "full_memory", "out_of_memory", "the memory of the node is full: Unable"),
    ],
)
def test_what_fails_on_a_device_has_its_cause(
    trainer_of: Trainer, backend: str, probe: str, kind: str, words: str
) -> None:
    probe, settings = f"tests.workloads.probes:{probe}", SMALL["image_rows"]
    failed = failure(trainer_of.ask(probe, f"{backend}/portable", settings=settings))
    assert (failed.kind, words in failed.message) == (kind, True)
