"""Evidence of the kernel that ran: from real steps on a CPU, and from programs for a GPU."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.backends.kernel_evidence import (
    OperationCounts,
    PartCounts,
    RecurrentPart,
    identify_kernel,
    part_scope,
)
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
        backend="jax",
        kernel="portable+bf16+unroll",
        settings={"cell": "gru"},
        shown="of bfloat16; precision HIGHEST",
    ),
    CpuKernel(
        backend="jax", kernel="portable+eager", shown="JAX's step, run operation by operation: "
    ),
    CpuKernel(
        backend="torch", kernel="portable+bf16", settings={"cell": "gru"}, shown="of bfloat16"
    ),
]


def name_of(case: "CpuKernel | GpuProgram") -> str:
    return f"{case.backend}/{case.kernel} {dict(case.settings)}"


@pytest.mark.parametrize("case", CPU_KERNELS, ids=name_of)
def test_what_runs_on_a_cpu_is_recognised(
    trainer_for: Callable[[str], Trainer], case: CpuKernel
) -> None:
    proof = prove(
        trainer_for(case.backend), "proven", f"{case.backend}/{case.kernel}", case.settings
    )
    assert proof.ran == proof.asked == case.kernel
    assert case.shown in proof.evidence


class Shape(NamedTuple):
    """A model of `evidence_shapes`, the kernel that it ran, and a part of the evidence."""

    model: str
    ran: str
    shown: str = ""
    backends: tuple[str, ...] = ("tensorflow", "jax", "torch")


FAST = ("unequal_layers_after_pooling", "fused_beside_loop")

SHAPES = [
    Shape(model="unequal_layers_after_pooling", ran="portable"),
    Shape(model="shared_and_nested", ran="portable"),
    Shape(model="inside_own_layer", ran="portable"),
    Shape(
        model="one_layer_unrolled",
        ran="mixed",
        shown="by layer: portable: loop; portable+unroll: unrolled",
        backends=("tensorflow", "jax"),  # PyTorch has no graph to unroll into
    ),
    Shape(
        model="fused_beside_loop",
        ran="fused",
        shown="by layer: fused: recurrent; portable: loop",
        backends=("torch",),
    ),
    Shape(
        model="fused_without_its_call",
        ran="unknown",
        shown="by layer: portable: loop; unknown: recurrent",
        backends=("torch",),
    ),
]


@pytest.mark.parametrize(
    ("backend", "shape"),
    [
        pytest.param(
            backend,
            shape,
            marks=[] if shape.model in FAST else [full],
            id=f"{backend} {shape.model}",
        )
        for shape in SHAPES
        for backend in shape.backends
    ],
)
def test_the_layers_of_a_model_of_any_shape_are_recognised(
    trainer_for: Callable[[str], Trainer], backend: str, shape: Shape
) -> None:
    settings = {"model": shape.model}
    events = trainer_for(backend).ask(
        "tests.workloads.evidence.evidence_shapes:prove_shape",
        f"{backend}/portable",
        settings=settings,
    )
    proof = single_event(events, KernelProof)
    assert (proof.ran, shape.shown in proof.evidence) == (shape.ran, True), proof.evidence


class OtherRequest(NamedTuple):
    """The kernels that a trial asks for and builds, and the one that ran."""

    backend: str
    asked: str
    built: str
    ran: str
    settings: Mapping[str, Any] = {}


OTHER_REQUESTS = [
    OtherRequest(
        backend="jax", asked="cudnn", built="cudnn", settings={"cell": "gru"}, ran="portable"
    ),  # Keras silently runs a scan
    OtherRequest(
        backend="torch", asked="cudnn", built="cudnn", ran="portable"
    ),  # Keras silently runs its own loop
    OtherRequest(
        backend="torch", asked="portable+fp16", built="portable+fp16", ran="portable"
    ),  # and computes in float32
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
    GpuProgram(
        backend="tensorflow",
        kernel="cudnn",
        settings={"cell": "gru", "layers": 2, "dropout": 0.2, "bidirectional": True},
        ran="cudnn",
    ),
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
        backend="tensorflow", kernel="fused+tf32", settings={"capability": 9}, ran="fused+tf32"
    ),
    GpuProgram(
        backend="tensorflow", kernel="cudnn+tf32", settings={"capability": 7}, ran="cudnn"
    ),  # a GPU without the format
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
        kernel="fused+tf32",
        settings={"capability": 9},
        ran="fused+tf32",
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


LOOP_OF_8 = RecurrentPart("lstm", steps=8)
BOTH_WAYS = RecurrentPart("bidirectional", directions=2, steps=8)
SHORTER = RecurrentPart("after_pooling", steps=3)
FUSED = RecurrentPart("recurrent", steps=8, is_fused=True)


class Counts(NamedTuple):
    """Counts of operations in each layer of a model, and the parts of the kernel's name."""

    name: str
    layers: list[tuple[RecurrentPart, PartCounts]]
    kernel: list[str]
    is_eager: bool = False
    elsewhere: Mapping[str, int] = {}


def loops(count: int, kind: str = "float32") -> PartCounts:
    return PartCounts(loops=count, types=Counter({kind: count}))


def products(**counted: int) -> PartCounts:
    return PartCounts(products=Counter(counted))


def library(calls: int, **products: int) -> PartCounts:
    return PartCounts(library_calls=calls, products=Counter(products), types=Counter(float32=calls))


FUSED_CALL = PartCounts(fused_calls=1, types=Counter(float32=1))
LOOP, CALL = loops(1), library(1)

COUNTS = [
    Counts("a fused stack", [(FUSED, FUSED_CALL)], ["fused"], is_eager=True),
    Counts("a fused stack beside a loop", [(FUSED, FUSED_CALL), (LOOP_OF_8, LOOP)], ["fused"]),
    Counts(
        "a fused stack beside an unrolled loop",
        [(FUSED, FUSED_CALL), (LOOP_OF_8, products(float32=8))],
        ["fused"],
    ),
    Counts("a fused stack beside cuDNN", [(FUSED, FUSED_CALL), (LOOP_OF_8, CALL)], ["mixed"]),
    Counts("a fused stack that ran a loop", [(FUSED, loops(1))], ["unknown"]),
    Counts("one call for both directions", [(BOTH_WAYS, CALL)], ["cudnn"], is_eager=True),
    Counts("one direction fell back", [(BOTH_WAYS, library(1, float32=8))], ["mixed"], True),
    Counts("a layer fell back", [(LOOP_OF_8, CALL), (LOOP_OF_8, LOOP)], ["mixed"]),
    Counts(
        "a cuDNN layer between many other products",
        [(LOOP_OF_8, CALL)],
        ["cudnn"],
        elsewhere={"float32": 100},
    ),
    Counts("two loops for two directions", [(BOTH_WAYS, loops(2))], ["portable"]),
    Counts("one loop for two directions", [(BOTH_WAYS, LOOP)], ["unknown"]),
    Counts(
        "unequal layers, step by step",
        [(BOTH_WAYS, products(float32=16)), (SHORTER, products(float32=3))],
        ["portable"],
        is_eager=True,
    ),
    Counts(
        "an unrolled loop with a few products of another type",
        [(LOOP_OF_8, products(float16=8, float32=2))],
        ["portable", "fp16", "unroll"],
    ),
    Counts("products of two types", [(LOOP_OF_8, products(float16=8, float32=8))], ["mixed"]),
    Counts("too few products", [(LOOP_OF_8, products(float32=7))], ["unknown"], is_eager=True),
    Counts("nothing", [(LOOP_OF_8, PartCounts())], ["unknown"], elsewhere={"float32": 100}),
    Counts(
        "no recurrent layer, the last one in float32",
        [],
        ["portable", "fp16"],
        elsewhere={"float16": 2, "float32": 1},
    ),
]


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: case.name)
def test_the_counts_of_operations_identify_the_kernel(case: Counts) -> None:
    parts = [part for part, _ in case.layers]
    counts = OperationCounts({index: counted for index, (_, counted) in enumerate(case.layers)})
    counts.elsewhere.products.update(case.elsewhere)
    assert identify_kernel(counts, parts, eager=case.is_eager) == tuple(case.kernel)
    with_tf32 = identify_kernel(counts, parts, eager=case.is_eager, tf32=True)
    is_float32 = case.kernel[0] not in ("mixed", "unknown") and "fp16" not in case.kernel
    assert ("tf32" in with_tf32) == is_float32


def layer_scope(number: int, began: int, ended: int) -> list[Any]:
    return [part_scope(number), began, ended]


CALL_EVENTS = [["aten::lstm", 10, 30], ["aten::_cudnn_rnn", 12, 28]]
FUSED_SCOPE = ["fused_stack", 5, 35]
LIBRARY_LOOP = [["aten::addmm", 12 + step, 13 + step] for step in range(16)]
OWN_LOOP = [["aten::mm", 70 + step, 71 + step] for step in range(16)]
FIRST, SECOND = layer_scope(0, 4, 40), layer_scope(1, 60, 90)
DENSE = [["aten::addmm", 100 + step, 101 + step] for step in range(16)]
LAYER = {"name": "lstm", "steps": 16}


@pytest.mark.parametrize(
    ("events", "parts", "ran"),
    [
        pytest.param(
            [FIRST, FUSED_SCOPE, *CALL_EVENTS], [{**LAYER, "is_fused": True}], "fused", id="fused"
        ),
        pytest.param(
            [FIRST, ["aten::gru", 10, 30, "c10::Half"], CALL_EVENTS[1]],
            [LAYER],
            "cudnn+fp16",
            id="cudnn in half precision",
        ),
        pytest.param(
            [FIRST, *CALL_EVENTS, SECOND, *OWN_LOOP], [LAYER, LAYER], "mixed", id="one fell back"
        ),
        pytest.param(
            [FIRST, FUSED_SCOPE, CALL_EVENTS[0], *LIBRARY_LOOP],
            [{**LAYER, "is_fused": True}],
            "unknown",
            id="the library's loop, not cuDNN's",
        ),
        pytest.param([SECOND, *OWN_LOOP, *DENSE], [LAYER], "unknown", id="a loop elsewhere"),
    ],
)
def test_what_pytorchs_profiler_sees_on_a_gpu_is_recognised(
    torch_trainer: Trainer, events: list[Any], parts: Any, ran: str
) -> None:
    proof = prove(torch_trainer, "profiled_on_a_gpu", "torch/cudnn", events=events, parts=parts)
    assert proof.ran == ran
