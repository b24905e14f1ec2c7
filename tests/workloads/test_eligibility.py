"""Implementations by name, and the rules of eligibility alone."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.backends.registry import (
    backends,
    find_backend,
    is_compiled,
    parse_known_implementation,
)
from workloads.eligibility import ineligibility_reason
from workloads.implementations import (
    KERNELS,
    OPTIONS,
    Implementation,
    ImplementationError,
    parse_implementation,
)
from workloads.layer_traits import SIMPLE_CELLS, Cell, LayerTraits, Mask
from workloads.process import BackendClaim, environment_for
from workloads.protocol import Device

USUAL = LayerTraits()
implementations = st.builds(
    lambda backend, kernel, options: Implementation(backend, kernel, tuple(sorted(options))),
    st.sampled_from(sorted(backends())),
    st.sampled_from(sorted(KERNELS)),
    st.sets(st.sampled_from(sorted(OPTIONS))),
)
layers = st.builds(
    LayerTraits,
    cell=st.sampled_from(get_args(Cell)),
    activation=st.sampled_from(["tanh", "relu", "linear"]),
    recurrent_activation=st.sampled_from(["sigmoid", "hard_sigmoid"]),
    recurrent_dropout=st.sampled_from([0.0, 0.5]),
    use_bias=st.booleans(),
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    dropout=st.sampled_from([0.0, 0.5]),
    mask=st.sampled_from(get_args(Mask)),
    stateful=st.booleans(),
)


def reason_against(
    implementation: Implementation, traits: LayerTraits = USUAL, device: Device = "gpu", **of: Any
) -> str | None:
    return ineligibility_reason(implementation, traits, device, has_package=lambda _: True, **of)


@given(implementations, layers, st.sampled_from(get_args(Device)))
def test_the_rules_are_complete_and_consistent(
    implementation: Implementation, traits: LayerTraits, device: Device
) -> None:
    reason = reason_against(implementation, traits, device)
    assert reason is None or (reason.strip() == reason != "" and not set("{}<>") & set(reason))
    if implementation.kernel == "portable" and not implementation.options:
        assert reason is None, "Keras' portable layers run everything everywhere"
    if reason is None:
        assert reason_against(implementation, traits, "gpu") is None, "a GPU runs what a CPU runs"
        if traits.cell not in SIMPLE_CELLS:
            usual = replace(USUAL, cell=traits.cell)
            assert reason_against(implementation, usual, device) is None
    absent = ineligibility_reason(implementation, traits, device, has_package=lambda _: False)
    how = backends()[implementation.backend].how_to_install
    assert absent == f"{implementation.backend} is not installed here: {how}"


def test_what_is_timed_may_decide() -> None:
    eager = parse_implementation("jax/portable+eager")
    assert reason_against(eager, timed_work="train") is None
    assert "remove +eager" in str(reason_against(eager, timed_work="predict"))


class OnGpu(NamedTuple):
    """An implementation on a GPU, and a part of the reason against it, if there is one."""

    implementation: str
    traits: Mapping[str, Any] = {}
    capability: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        capability = f" on capability {self.capability}" if self.capability else ""
        return f"{self.implementation} {dict(self.traits)}{capability}"


ON_A_GPU = [
    OnGpu(
        implementation="torch/fused+bf16",
        capability=7.5,
        reason="+bf16 needs compute capability 8.0, and the GPU has 7.5",
    ),
    OnGpu(implementation="torch/fused+bf16", capability=8.0),
    OnGpu(implementation="jax/portable+xla", reason="remove +xla"),
    OnGpu(implementation="torch/portable+xla", reason="remove +xla"),
    OnGpu(implementation="torch/portable+eager", reason="remove +eager"),
    OnGpu(implementation="tensorflow/portable+eager+unroll", reason="remove +unroll"),
    OnGpu(
        implementation="tensorflow/portable+eager+xla", reason="no graph that +xla could compile"
    ),
    OnGpu(implementation="tensorflow/cudnn+xla", reason="no XLA kernel"),
    OnGpu(implementation="tensorflow/cudnn+unroll", reason="cannot be unrolled"),
    OnGpu(implementation="jax/cudnn+bf16", reason="float32 only"),
    OnGpu(
        implementation="tensorflow/cudnn+bf16",
        reason="silently compute in float32 instead of bfloat16",
    ),
    OnGpu(implementation="torch/cudnn", traits={"stateful": True}, reason="overwrite states"),
    OnGpu(implementation="torch/cudnn+bf16", traits={"stateful": True}),
    OnGpu(
        implementation="jax/fused",
        traits={"layers": 2, "dropout": 0.2},
        reason="a new dropout mask at each step",
    ),
    OnGpu(implementation="jax/fused", traits={"layers": 1, "dropout": 0.2}),
    OnGpu(
        implementation="tensorflow/fused", traits={"layers": 2, "dropout": 0.2, "stateful": True}
    ),
    OnGpu(
        implementation="tensorflow/fused",
        traits={"stateful": True, "mask": "right"},
        reason="a stateful fused layer takes no mask",
    ),
]


@pytest.mark.parametrize("case", ON_A_GPU, ids=str)
def test_what_a_gpu_cannot_run(case: OnGpu) -> None:
    implementation = parse_implementation(case.implementation)
    traits = LayerTraits(**case.traits)
    reason = reason_against(implementation, traits, capability=case.capability)
    if case.reason is None:
        assert reason is None
    else:
        assert reason is not None and case.reason in reason


@pytest.mark.parametrize(
    ("implementation", "reason"),
    [
        ("tensorflow/cudnn", "need an NVIDIA GPU"),
        ("tensorflow/fused", "CudnnRNNV3 has no CPU kernel"),
        ("torch/portable+tf32", "TF32 is a number format of NVIDIA's GPUs"),
        ("torch/portable+fp16", "computes float16 products in float32 on a CPU"),
    ],
)
def test_implementations_that_need_a_gpu(implementation: str, reason: str) -> None:
    parsed = parse_implementation(implementation)
    assert reason in (reason_against(parsed, device="cpu") or "")
    assert reason_against(parsed, device="gpu") is None


class Properties(NamedTuple):
    """The text of an implementation, and what follows from it."""

    text: str
    kernel: str
    jit: bool
    eager: bool
    precision: str
    process: str


PROPERTIES = [
    Properties(
        text="tensorflow/portable+xla",
        kernel="portable+xla",
        jit=True,
        eager=False,
        precision="float32",
        process="tensorflow",
    ),
    Properties(
        text="jax/portable+eager",
        kernel="portable+eager",
        jit=False,
        eager=True,
        precision="float32",
        process="jax",
    ),
    Properties(
        text="torch/fused+bf16+again",
        kernel="fused+bf16",
        jit=False,
        eager=True,
        precision="bf16",
        process="torch+again",
    ),
]


@pytest.mark.parametrize("case", PROPERTIES, ids=lambda case: case.text)
def test_properties_of_an_implementation(case: Properties) -> None:
    implementation = parse_known_implementation(case.text)
    name, *options = case.text.split("+")
    assert str(implementation) == "+".join([name, *sorted(options)])
    assert parse_implementation(str(implementation)) == implementation
    assert implementation.kernel_text == case.kernel
    backend = find_backend(implementation.backend)
    assert backend.is_compiled(implementation) == is_compiled(implementation) == case.jit
    assert backend.is_eager(implementation) == case.eager
    assert (implementation.precision, implementation.process) == (case.precision, case.process)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensorflow/", "expected backend/kernel"),
        ("tensorflo/portable", "did you mean 'tensorflow'"),
        ("tensorflow/cudn", "did you mean 'cudnn'"),
        ("tensorflow/portable+xl", "did you mean 'xla'"),
        ("tensorflow/portable+xla+xla", "expected each option once"),
        ("torch/fused+bf16+tf32", "expected at most one precision; received bf16 and tf32"),
    ],
)
def test_a_wrong_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(ImplementationError, match=message):
        parse_known_implementation(text)


def test_a_process_is_prepared_for_its_backend_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = environment_for(parse_implementation("tensorflow/portable"), "cpu")
    assert (cpu["KERAS_BACKEND"], cpu["CUDA_VISIBLE_DEVICES"]) == ("tensorflow", "-1")
    gpu = environment_for(parse_implementation("tensorflow/cudnn"), "gpu")
    assert "CUDA_VISIBLE_DEVICES" not in gpu
    assert gpu["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as the probe counts them
    assert gpu["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert gpu["CUDA_CACHE_MAXSIZE"] == "4294967296"  # for all of TensorFlow's kernels
    own = parse_implementation("numpy/loop")
    assert "KERAS_BACKEND" not in environment_for(own, "cpu")
    monkeypatch.setattr(os, "environ", {"NVIDIA_TF32_OVERRIDE": "1"})
    BackendClaim().claim(own, "gpu")
    assert "NVIDIA_TF32_OVERRIDE" not in os.environ
