"""The rules of eligibility alone; `test_eligibility_keras` compares them with Keras."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, Mask, ineligibility_reason
from workloads.implementations import (
    BACKENDS,
    KERNELS,
    OPTIONS,
    Implementation,
    parse_implementation,
)
from workloads.protocol import Device

USUAL = LayerTraits()
devices: st.SearchStrategy[Device] = st.sampled_from(["cpu", "gpu"])
backends, kernels = st.sampled_from(sorted(BACKENDS)), st.sampled_from(sorted(KERNELS))
implementations = st.builds(
    lambda backend, kernel, options: Implementation(backend, kernel, tuple(sorted(options))),
    backends,
    kernels,
    st.sets(st.sampled_from(sorted(OPTIONS))),
)
layers = st.builds(
    LayerTraits,
    cell=st.sampled_from(typing.get_args(Cell)),
    activation=st.sampled_from(["tanh", "relu", "linear"]),
    recurrent_activation=st.sampled_from(["sigmoid", "hard_sigmoid"]),
    recurrent_dropout=st.sampled_from([0.0, 0.5]),
    use_bias=st.booleans(),
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    dropout=st.sampled_from([0.0, 0.5]),
    mask=st.sampled_from(typing.get_args(Mask)),
    stateful=st.booleans(),
)


def reason_against(
    implementation: Implementation | str, traits: LayerTraits = USUAL, device: Device = "gpu"
) -> str | None:
    """Return the reason with all backends installed."""
    parsed = (
        parse_implementation(implementation) if isinstance(implementation, str) else implementation
    )
    return ineligibility_reason(parsed, traits, device, has_package=lambda _: True)


@given(implementations, layers, devices)
def test_a_reason_is_none_or_a_complete_text(
    implementation: Implementation, traits: LayerTraits, device: Device
) -> None:
    reason = reason_against(implementation, traits, device)
    assert reason is None or (reason.strip() == reason != "" and not set("{}<>") & set(reason))
    assert reason_against(implementation, traits, device) == reason


@given(backends, layers, devices)
def test_keras_own_portable_layers_run_everything_everywhere(
    backend: str, traits: LayerTraits, device: Device
) -> None:
    assert reason_against(Implementation(backend, "portable"), traits, device) is None


@given(implementations, layers)
def test_a_gpu_runs_all_that_a_cpu_runs(
    implementation: Implementation, traits: LayerTraits
) -> None:
    if reason_against(implementation, traits, "cpu") is None:
        assert reason_against(implementation, traits, "gpu") is None


@given(implementations, layers)
def test_a_kernel_that_does_more_does_the_usual_too(
    implementation: Implementation, traits: LayerTraits
) -> None:
    if reason_against(implementation, traits) is None and traits.cell not in SIMPLE_CELLS:
        assert reason_against(implementation, replace(USUAL, cell=traits.cell)) is None


@given(kernels, backends, layers, devices)
def test_relu_is_the_activation_relu_by_another_name(
    kernel: str, backend: str, traits: LayerTraits, device: Device
) -> None:
    gated = replace(traits, cell="lstm", activation="tanh")
    option = reason_against(Implementation(backend, kernel, ("relu",)), gated, device)
    setting = reason_against(
        Implementation(backend, kernel), replace(gated, activation="relu"), device
    )
    assert (option is None) == (setting is None)


@given(implementations, layers, devices)
def test_a_missing_backend_is_the_first_reason_with_its_installation(
    implementation: Implementation, traits: LayerTraits, device: Device
) -> None:
    reason = ineligibility_reason(implementation, traits, device, has_package=lambda _: False)
    how = BACKENDS[implementation.backend]
    assert reason == f"{implementation.backend} is not installed here: {how}"


def test_only_the_requested_backend_must_be_installed() -> None:
    implementation = parse_implementation("tensorflow/portable")
    assert (
        ineligibility_reason(
            implementation, USUAL, "cpu", has_package=lambda name: name == "tensorflow"
        )
        is None
    )


@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        ("tensorflow/cudnn", "need an NVIDIA GPU"),
        ("jax/cudnn", "need an NVIDIA GPU"),
        ("torch/cudnn", "need an NVIDIA GPU"),
        ("tensorflow/fused", "CudnnRNNV3 has no CPU kernel"),
        ("jax/fused", "jax.experimental.rnn has no CPU kernel"),
        ("torch/portable+tf32", "TF32 is a number format of NVIDIA's GPUs"),
        ("torch/portable+fp16", "computes float16 products in float32 on a CPU"),
    ],
)
def test_implementations_that_need_a_gpu(implementation: str, words: str) -> None:
    reason = reason_against(implementation, device="cpu")
    assert reason is not None and words in reason
    assert reason_against(implementation, device="gpu") is None


def test_pytorch_has_a_fused_kernel_on_a_cpu_too() -> None:
    for cell in typing.get_args(Cell):
        for traits in (USUAL, LayerTraits(layers=3, dropout=0.2, bidirectional=True)):
            assert reason_against("torch/fused", replace(traits, cell=cell), "cpu") is None


@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        ("jax/portable+xla", "leave +xla out"),
        ("torch/portable+xla", "leave +xla out"),
        ("torch/portable+eager", "leave +eager out"),
        ("torch/portable+unroll", "leave +unroll out"),
        ("tensorflow/portable+eager+unroll", "leave +unroll out"),
        ("tensorflow/portable+eager+xla", "no graph that +xla could compile"),
        ("tensorflow/cudnn+xla", "no XLA kernel"),
        ("tensorflow/cudnn+unroll", "cannot be unrolled"),
        ("torch/fused+unroll", "cannot be unrolled"),
        ("jax/cudnn+bf16", "float32 only"),
        ("jax/fused+fp16", "float32 only"),
        ("tensorflow/cudnn+relu", "only the activation tanh, not relu"),
    ],
)
def test_options_that_an_implementation_does_not_have(implementation: str, words: str) -> None:
    reason = reason_against(implementation)
    assert reason is not None and words in reason


@pytest.mark.parametrize("kernel", ["cudnn", "fused"])
@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize(
    ("traits", "words"),
    [
        (LayerTraits(activation="relu"), "only the activation tanh, not relu"),
        (
            LayerTraits(recurrent_activation="hard_sigmoid"),
            "only the recurrent activation sigmoid, not hard_sigmoid",
        ),
        (LayerTraits(recurrent_dropout=0.5), "no recurrent dropout (recurrent_dropout is 0.5)"),
        (LayerTraits(use_bias=False), "(use_bias is false)"),
    ],
)
def test_layers_that_no_library_call_supports(
    kernel: str, backend: str, traits: LayerTraits, words: str
) -> None:
    reason = reason_against(Implementation(backend, kernel), traits)
    assert reason is not None and words in reason


@pytest.mark.parametrize(
    ("cell", "kernel", "able"),
    [
        ("lstm", "cudnn", {"tensorflow", "jax", "torch"}),
        ("gru", "cudnn", {"tensorflow", "torch"}),
        ("rnn_tanh", "cudnn", set()),
        ("rnn_relu", "cudnn", set()),
        ("lstm", "fused", {"tensorflow", "jax", "torch"}),
        ("gru", "fused", {"tensorflow", "torch"}),
        ("rnn_tanh", "fused", {"tensorflow", "torch"}),
        ("rnn_relu", "fused", {"tensorflow", "torch"}),
    ],
)
def test_cells_on_a_gpu(cell: Cell, kernel: str, able: set[str]) -> None:
    traits = LayerTraits(cell=cell)
    reasons = {
        backend: reason_against(Implementation(backend, kernel), traits) for backend in BACKENDS
    }
    assert {backend for backend, reason in reasons.items() if reason is None} == able
    assert all(cell in reason or "GRU" in reason for reason in reasons.values() if reason)


@pytest.mark.parametrize(
    ("mask", "kernel", "able"),
    [
        ("right", "cudnn", {"tensorflow"}),
        ("left", "cudnn", set()),
        ("right", "fused", {"tensorflow", "jax", "torch"}),
        ("left", "fused", set()),
    ],
)
def test_masks_on_a_gpu(mask: Mask, kernel: str, able: set[str]) -> None:
    traits = LayerTraits(mask=mask, bidirectional=True)
    reasons = {
        backend: reason_against(Implementation(backend, kernel), traits) for backend in BACKENDS
    }
    assert {backend for backend, reason in reasons.items() if reason is None} == able


def test_dropout_between_layers_and_stateful_layers() -> None:
    between = LayerTraits(layers=2, dropout=0.2)
    assert "a new dropout mask at each step" in (reason_against("jax/fused", between) or "")
    assert reason_against("jax/fused", replace(between, layers=1)) is None
    assert reason_against("tensorflow/fused", between) is None
    on = LayerTraits(layers=2, stateful=True)
    assert reason_against("tensorflow/fused", on) is None
    assert "no mask if it is stateful" in (
        reason_against("tensorflow/fused", replace(on, mask="right")) or ""
    )
