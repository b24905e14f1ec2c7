"""Evidence of the kernel that ran: from real steps on a CPU, and from programs for a GPU."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.backends.kernel_evidence import OperationCounts, Stack, identify_kernel
from workloads.protocol import KernelProof

SMALL: dict[str, Any] = {"units": 4, "layers": 1, "dense_units": 4, "samples": 32, "dropout": 0.0}
DEEP: dict[str, Any] = {"layers": 2, "dropout": 0.2, "bidirectional": True}
PROBES = "tests.workloads.evidence.evidence_probes"
full = pytest.mark.full


def prove(
    trainer: Trainer, probe: str, implementation: str, own: Mapping[str, Any] = {}, **settings: Any
) -> KernelProof:
    settings = {**SMALL, **own, **settings}
    events = trainer.ask(f"{PROBES}:{probe}", implementation, settings=settings)
    assert result(events).get("changed", 0) == 0
    return single_event(events, KernelProof)


class CpuKernel(NamedTuple):
    """An implementation that runs on a CPU, and a part of the evidence."""

    backend: str
    kernel: str
    shown: str
    settings: Mapping[str, Any] = {}


CPU_KERNELS = [
    CpuKernel(
        backend="tensorflow",
        kernel="portable",
        settings=DEEP,
        shown="TensorFlow's traced step: While × ",
    ),
    CpuKernel(
        backend="jax", kernel="portable", settings=DEEP, shown="JAX's lowered step: dot_general × "
    ),
    CpuKernel(
        backend="torch",
        kernel="portable",
        settings=DEEP,
        shown="PyTorch's profiler, forward over 8 steps: aten::mm × ",
    ),
    CpuKernel(
        backend="torch",
        kernel="fused",
        settings=DEEP,
        shown="aten::lstm × 1, aten::mkldnn_rnn_layer × 4",
    ),
]
CPU_OPTIONS = [
    CpuKernel(
        backend="tensorflow",
        kernel="portable+bf16",
        settings={"cell": "gru"},
        shown="of bfloat16; _XlaMustCompile false",
    ),
    CpuKernel(
        backend="tensorflow", kernel="portable+fp16+xla", shown="of float16; _XlaMustCompile true"
    ),
    CpuKernel(
        backend="tensorflow",
        kernel="portable+unroll+xla",
        settings={"cell": "gru"},
        shown="MatMul × ",
    ),
    CpuKernel(
        backend="tensorflow",
        kernel="portable+eager",
        settings=DEEP,
        shown="TensorFlow's operations in one eager step: MatMul",
    ),
    CpuKernel(
        backend="tensorflow",
        kernel="portable",
        settings={"cell": "rnn_relu"},
        shown="While × 1, StatelessWhile × 1",
    ),
    CpuKernel(
        backend="jax",
        kernel="portable+bf16+unroll",
        settings={"cell": "gru"},
        shown="of bfloat16, float32; precision HIGHEST",
    ),
    CpuKernel(
        backend="jax",
        kernel="portable+fp16",
        settings={"cell": "rnn_tanh"},
        shown="while × 2, of float16",
    ),
    CpuKernel(
        backend="jax", kernel="portable+eager", shown="JAX's step, run operation by operation: "
    ),
    CpuKernel(
        backend="torch", kernel="portable+bf16", settings={"cell": "gru"}, shown="of bfloat16"
    ),
    CpuKernel(backend="torch", kernel="fused+bf16", shown="in fused_stack, of bfloat16"),
    CpuKernel(backend="torch", kernel="fused", settings={"cell": "gru"}, shown="aten::gru × 1"),
    CpuKernel(
        backend="torch", kernel="fused", settings={"cell": "rnn_relu"}, shown="aten::rnn_relu × 1"
    ),
]


def name_of(case: "CpuKernel | GpuProgram") -> str:
    return f"{case.backend}/{case.kernel} {dict(case.settings)}"


@pytest.mark.parametrize(
    "case",
    [*CPU_KERNELS, *(pytest.param(case, marks=full) for case in CPU_OPTIONS)],
    ids=name_of,
)
def test_every_implementation_of_a_cpu_is_recognised(
    trainer_for: Callable[[str], Trainer], case: CpuKernel
) -> None:
    proof = prove(
        trainer_for(case.backend), "proven", f"{case.backend}/{case.kernel}", case.settings
    )
    assert proof.ran == proof.asked == case.kernel
    assert case.shown in proof.evidence


class OtherRequest(NamedTuple):
    """The kernels that a trial asks for and builds, and the one that ran."""

    backend: str
    asked: str
    built: str
    ran: str
    settings: Mapping[str, Any] = {}


OTHER_REQUESTS = [
    OtherRequest(backend="tensorflow", asked="cudnn", built="portable", ran="portable"),
    OtherRequest(backend="tensorflow", asked="portable+xla", built="portable", ran="portable"),
    OtherRequest(
        backend="tensorflow", asked="portable", built="portable+unroll", ran="portable+unroll"
    ),
    OtherRequest(backend="tensorflow", asked="portable+bf16", built="portable", ran="portable"),
    OtherRequest(
        backend="jax", asked="cudnn", built="cudnn", settings={"cell": "gru"}, ran="portable"
    ),  # Keras silently runs a scan
    OtherRequest(backend="jax", asked="portable", built="portable+fp16", ran="portable+fp16"),
    OtherRequest(
        backend="torch", asked="cudnn", built="cudnn", ran="portable"
    ),  # Keras silently runs its own loop
    OtherRequest(
        backend="torch", asked="cudnn", built="cudnn", settings={"cell": "gru"}, ran="portable"
    ),
    OtherRequest(
        backend="torch", asked="portable+fp16", built="portable+fp16", ran="portable"
    ),  # and computes in float32
    OtherRequest(backend="torch", asked="portable", built="fused", ran="fused"),
]


@full
@pytest.mark.parametrize(
    "case",
    OTHER_REQUESTS,
    ids=lambda case: f"{case.backend} asked {case.asked}, built {case.built}, {case.settings}",
)
def test_evidence_does_not_depend_on_the_request(
    trainer_for: Callable[[str], Trainer], case: OtherRequest
) -> None:
    proof = prove(
        trainer_for(case.backend),
        "proven",
        f"{case.backend}/{case.asked}",
        case.settings,
        built=f"{case.backend}/{case.built}",
    )
    assert (proof.asked, proof.ran) == (case.asked, case.ran)


class GpuProgram(NamedTuple):
    """What would run on a simulated GPU (of a capability), and a part of the evidence."""

    backend: str
    kernel: str
    ran: str
    settings: Mapping[str, Any] = {}
    shown: str = ""


ON_A_GPU = [
    GpuProgram(backend="tensorflow", kernel="cudnn", ran="cudnn"),
    GpuProgram(
        backend="tensorflow",
        kernel="cudnn",
        settings={"cell": "gru", "layers": 2, "dropout": 0.2, "bidirectional": True},
        ran="cudnn",
    ),
    GpuProgram(backend="tensorflow", kernel="cudnn+fp16", ran="cudnn+fp16"),
    GpuProgram(
        backend="tensorflow", kernel="cudnn+bf16", ran="cudnn"
    ),  # the operation computes in float32
    GpuProgram(
        backend="tensorflow",
        kernel="cudnn",
        settings={"layers": 2, "fallen_back": "recurrent_1"},
        ran="mixed",
    ),
    GpuProgram(backend="tensorflow", kernel="fused", settings=DEEP, ran="fused"),
    GpuProgram(
        backend="tensorflow",
        kernel="fused+fp16",
        settings={"cell": "rnn_tanh", "layers": 3},
        ran="fused+fp16",
    ),
    GpuProgram(
        backend="tensorflow", kernel="fused+tf32", settings={"capability": 9}, ran="fused+tf32"
    ),
    GpuProgram(
        backend="tensorflow", kernel="cudnn+tf32", settings={"capability": 7}, ran="cudnn"
    ),  # a GPU without the format
    GpuProgram(
        backend="tensorflow",
        kernel="portable+tf32",
        settings={"capability": 8},
        ran="portable+tf32",
    ),
    GpuProgram(
        backend="jax",
        kernel="cudnn",
        ran="cudnn",
        shown="16 MiB of work space, four times what cuDNN asks for; cuDNN without TF32",
    ),
    GpuProgram(
        backend="jax", kernel="cudnn", settings=DEEP, ran="cudnn"
    ),  # one call for both directions
    GpuProgram(
        backend="jax",
        kernel="cudnn",
        settings={"layers": 2, "fallen_back": "recurrent_1"},
        ran="mixed",
    ),
    GpuProgram(
        backend="jax",
        kernel="fused",
        settings={"layers": 3, "bidirectional": True},
        ran="fused",
        shown="cuDNN without TF32",
    ),
    GpuProgram(
        backend="jax",
        kernel="fused+tf32",
        settings={"capability": 9},
        ran="fused+tf32",
        shown="cuDNN with TF32",
    ),
    GpuProgram(
        backend="jax",
        kernel="cudnn+tf32",
        settings={"capability": 7},
        ran="cudnn",
        shown="cuDNN with TF32",
    ),
    GpuProgram(
        backend="jax",
        kernel="portable+tf32",
        settings={"capability": 9},
        ran="portable+tf32",
        shown="; precision DEFAULT;",
    ),
    GpuProgram(
        backend="jax",
        kernel="portable",
        settings={"capability": 9},
        ran="portable",
        shown="; precision HIGHEST;",
    ),
]


@full
@pytest.mark.parametrize("case", ON_A_GPU, ids=name_of)
def test_what_a_backend_would_run_on_a_gpu_is_recognised(
    trainer_for: Callable[[str], Trainer], case: GpuProgram
) -> None:
    probe = "traced_for_a_gpu" if case.backend == "tensorflow" else "lowered_for_a_gpu"
    proof = prove(trainer_for(case.backend), probe, f"{case.backend}/{case.kernel}", case.settings)
    assert (proof.ran, case.shown in proof.evidence) == (case.ran, True)


class Counts(NamedTuple):
    """Counts of operations in a stack of layers, and the parts of the kernel's name."""

    counted: dict[str, int]
    stack: Stack
    is_eager: bool
    kernel: list[str]


COUNTS = [
    Counts(counted={"fused": 1}, stack=Stack(2, 2, 8), is_eager=True, kernel=["fused"]),
    Counts(counted={"fused": 2}, stack=Stack(2, 1, 8), is_eager=False, kernel=["mixed"]),
    Counts(
        counted={"fused": 1, "calls": 1}, stack=Stack(2, 1, 8), is_eager=False, kernel=["mixed"]
    ),
    Counts(
        counted={"calls": 1}, stack=Stack(1, 2, 8), is_eager=True, kernel=["cudnn"]
    ),  # one call for both directions
    Counts(counted={"calls": 2}, stack=Stack(1, 2, 8), is_eager=True, kernel=["cudnn"]),
    Counts(
        counted={"calls": 1, "float32": 16}, stack=Stack(2, 1, 8), is_eager=True, kernel=["mixed"]
    ),  # one layer fell back
    Counts(
        counted={"calls": 1, "float32": 16}, stack=Stack(1, 2, 8), is_eager=True, kernel=["mixed"]
    ),  # one direction did
    Counts(
        counted={"calls": 1, "loops": 1}, stack=Stack(2, 1, 8), is_eager=False, kernel=["mixed"]
    ),
    Counts(counted={"loops": 2}, stack=Stack(1, 2, 8), is_eager=False, kernel=["portable"]),
    Counts(counted={"loops": 1}, stack=Stack(1, 2, 8), is_eager=False, kernel=["unknown"]),
    Counts(counted={"float32": 16}, stack=Stack(2, 1, 8), is_eager=True, kernel=["portable"]),
    Counts(
        counted={"float32": 16}, stack=Stack(2, 1, 8), is_eager=False, kernel=["portable", "unroll"]
    ),
    Counts(
        counted={"float16": 16, "float32": 2},
        stack=Stack(2, 1, 8),
        is_eager=False,
        kernel=["portable", "fp16", "unroll"],
    ),
    Counts(
        counted={"float16": 16, "float32": 16},
        stack=Stack(2, 1, 8),
        is_eager=False,
        kernel=["mixed"],
    ),
    Counts(counted={"float32": 15}, stack=Stack(2, 1, 8), is_eager=True, kernel=["unknown"]),
    Counts(counted={}, stack=Stack(1, 1, 8), is_eager=False, kernel=["unknown"]),
]


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: f"{case.counted} in {case.stack}")
def test_the_counts_of_operations_identify_the_kernel(case: Counts) -> None:
    types_counted = dict(case.counted)
    calls, fused, loops = (types_counted.pop(name, 0) for name in ("calls", "fused", "loops"))
    types = Counter(float32=1) if calls or fused or loops else Counter[str]()
    counts = OperationCounts(calls, fused, loops, Counter(types_counted), types)
    assert identify_kernel(counts, case.stack, eager=case.is_eager) == tuple(case.kernel)
    with_tf32 = identify_kernel(counts, case.stack, eager=case.is_eager, tf32=True)
    is_float32 = case.kernel[0] not in ("mixed", "unknown") and "fp16" not in case.kernel
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
