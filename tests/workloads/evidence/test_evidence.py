"""Evidence of the kernel that ran: from real steps on a CPU, and from programs for a GPU."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.backends.kernel_evidence import OperationCounts, Stack, identify_kernel
from workloads.protocol import KernelProof

SMALL: dict[str, Any] = {"units": 4, "layers": 1, "dense_units": 4, "samples": 32, "dropout": 0.0}
DEEP: dict[str, Any] = {"layers": 2, "dropout": 0.2, "bidirectional": True}
ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("kernels.yaml").read_text())
PROBES = "tests.workloads.evidence.evidence_probes"
full = pytest.mark.full


def prove(
    trainer: Trainer, probe: str, implementation: str, own: Any = None, **settings: Any
) -> KernelProof:
    settings = {**SMALL, **(DEEP if own == "deep" else own or {}), **settings}
    events = trainer.ask(f"{PROBES}:{probe}", implementation, settings=settings)
    assert result(events).get("changed", 0) == 0
    return single_event(events, KernelProof)


@pytest.mark.parametrize(
    ("backend", "kernel", "settings", "shown"),
    [*ROWS["cpu_kernels"], *(pytest.param(*case, marks=full) for case in ROWS["cpu_options"])],
)
def test_every_implementation_of_a_cpu_is_recognised(
    trainer_of: Trainer, backend: str, kernel: str, settings: Any, shown: str
) -> None:
    proof = prove(trainer_of, "proven", f"{backend}/{kernel}", settings)
    assert proof.ran == proof.asked == kernel
    assert shown in proof.evidence


@full
@pytest.mark.parametrize(("backend", "asked", "built", "settings", "ran"), ROWS["other_requests"])
def test_evidence_does_not_depend_on_the_request(
    trainer_of: Trainer, backend: str, asked: str, built: str, settings: Any, ran: str
) -> None:
    proof = prove(trainer_of, "proven", f"{backend}/{asked}", settings, built=f"{backend}/{built}")
    assert (proof.asked, proof.ran) == (asked, ran)


@full
@pytest.mark.parametrize(("backend", "kernel", "settings", "ran", "shown"), ROWS["on_a_gpu"])
def test_what_a_backend_would_run_on_a_gpu_is_recognised(
    trainer_of: Trainer, backend: str, kernel: str, settings: Any, ran: str, shown: str
) -> None:
    probe = "traced_for_a_gpu" if backend == "tensorflow" else "lowered_for_a_gpu"
    proof = prove(trainer_of, probe, f"{backend}/{kernel}", settings)
    assert (proof.ran, shown in proof.evidence) == (ran, True)


@pytest.mark.parametrize(("counted", "stack", "is_eager", "kernel"), ROWS["counts"])
def test_the_counts_of_operations_identify_the_kernel(
    counted: dict[str, int], stack: list[int], is_eager: bool, kernel: list[str]
) -> None:
    calls, fused, loops = (counted.pop(name, 0) for name in ("calls", "fused", "loops"))
    types = Counter(float32=1) if calls or fused or loops else Counter[str]()
    counts = OperationCounts(calls, fused, loops, Counter(counted), types)
    assert identify_kernel(counts, Stack(*stack), eager=is_eager) == tuple(kernel)
    with_tf32 = identify_kernel(counts, Stack(*stack), eager=is_eager, tf32=True)
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
    torch_trainer: Trainer, events: list[Any], settings: Any, ran: str
) -> None:
    proof = prove(torch_trainer, "profiled_on_a_gpu", "torch/cudnn", events=events, **settings)
    assert proof.ran == ran
