"""Implementations by name, and the rules of eligibility alone.

`test_eligibility_keras` compares these with Keras.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, Mask, ineligibility_reason
from workloads.implementations import (
    BACKENDS,
    KERNELS,
    OPTIONS,
    Implementation,
    ImplementationError,
    parse_implementation,
)
from workloads.process import environment_for
from workloads.protocol import Device

USUAL = LayerTraits()
implementations = st.builds(
    lambda backend, kernel, options: Implementation(backend, kernel, tuple(sorted(options))),
    st.sampled_from(sorted(BACKENDS)),
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
    implementation: Implementation, traits: LayerTraits = USUAL, device: Device = "gpu"
) -> str | None:
    """Return the reason with all backends installed."""
    return ineligibility_reason(implementation, traits, device, has_package=lambda _: True)


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
    how = BACKENDS[implementation.backend]
    assert absent == f"{implementation.backend} is not installed here: {how}"


@pytest.mark.parametrize(
    ("implementation", "traits", "words"),
    [
        ("jax/portable+xla", {}, "leave +xla out"),
        ("torch/portable+xla", {}, "leave +xla out"),
        ("torch/portable+eager", {}, "leave +eager out"),
        ("torch/portable+unroll", {}, "leave +unroll out"),
        ("tensorflow/portable+eager+unroll", {}, "leave +unroll out"),
        ("tensorflow/portable+eager+xla", {}, "no graph that +xla could compile"),
        ("tensorflow/cudnn+xla", {}, "no XLA kernel"),
        ("tensorflow/cudnn+unroll", {}, "cannot be unrolled"),
        ("torch/fused+unroll", {}, "cannot be unrolled"),
        ("jax/cudnn+bf16", {}, "float32 only"),
        ("jax/fused+fp16", {}, "float32 only"),
        ("tensorflow/cudnn+bf16", {}, "silently compute in float32 instead of bfloat16"),
        ("torch/cudnn", {"stateful": True}, "overwrite the states"),
        ("torch/cudnn+bf16", {"stateful": True}, None),
        *(
            (f"{backend}/{kernel}", traits, words)
            for backend in BACKENDS
            for kernel in ("cudnn", "fused")
            for traits, words in (
                ({"activation": "relu"}, "only the activation tanh, not relu"),
                ({"recurrent_activation": "linear"}, "recurrent activation sigmoid, not linear"),
                ({"recurrent_dropout": 0.5}, "no recurrent dropout (recurrent_dropout is 0.5)"),
                ({"use_bias": False}, "(use_bias is false)"),
            )
        ),
        ("jax/fused", {"layers": 2, "dropout": 0.2}, "a new dropout mask at each step"),
        ("jax/fused", {"layers": 1, "dropout": 0.2}, None),
        ("tensorflow/fused", {"layers": 2, "dropout": 0.2, "stateful": True}, None),
        ("tensorflow/fused", {"stateful": True, "mask": "right"}, "no mask if it is stateful"),
    ],
)
def test_what_a_gpu_cannot_run(
    implementation: str, traits: dict[str, Any], words: str | None
) -> None:
    reason = reason_against(parse_implementation(implementation), LayerTraits(**traits))
    assert (reason is None) if words is None else (reason is not None and words in reason)


@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        *((f"{backend}/cudnn", "need an NVIDIA GPU") for backend in BACKENDS),
        ("tensorflow/fused", "CudnnRNNV3 has no CPU kernel"),
        ("jax/fused", "jax.experimental.rnn has no CPU kernel"),
        ("torch/portable+tf32", "TF32 is a number format of NVIDIA's GPUs"),
        ("torch/portable+fp16", "computes float16 products in float32 on a CPU"),
    ],
)
def test_implementations_that_need_a_gpu(implementation: str, words: str) -> None:
    parsed = parse_implementation(implementation)
    assert words in (reason_against(parsed, device="cpu") or "")
    assert reason_against(parsed, device="gpu") is None


@pytest.mark.parametrize(
    ("traits", "kernel", "able"),
    [
        ({"cell": "lstm"}, "cudnn", {"tensorflow", "jax", "torch"}),
        ({"cell": "gru"}, "cudnn", {"tensorflow", "torch"}),
        ({"cell": "rnn_tanh"}, "cudnn", set()),
        ({"cell": "rnn_relu"}, "cudnn", set()),
        ({"cell": "lstm"}, "fused", {"tensorflow", "jax", "torch"}),
        ({"cell": "gru"}, "fused", {"tensorflow", "torch"}),
        ({"cell": "rnn_tanh"}, "fused", {"tensorflow", "torch"}),
        ({"cell": "rnn_relu"}, "fused", {"tensorflow", "torch"}),
        ({"mask": "right"}, "cudnn", {"tensorflow"}),
        ({"mask": "left"}, "cudnn", set()),
        ({"mask": "right"}, "fused", {"tensorflow", "jax", "torch"}),
        ({"mask": "left"}, "fused", set()),
    ],
)
def test_cells_and_masks_on_a_gpu(traits: dict[str, Any], kernel: str, able: set[str]) -> None:
    asked = LayerTraits(**traits, bidirectional=True)
    reasons = {name: reason_against(Implementation(name, kernel), asked) for name in BACKENDS}
    assert {backend for backend, reason in reasons.items() if reason is None} == able


@pytest.mark.parametrize(
    ("text", "written", "kernel"),
    [
        ("tensorflow/portable", "tensorflow/portable", "portable"),
        ("jax/cudnn+unroll+tf32", "jax/cudnn+tf32+unroll", "cudnn+tf32+unroll"),
        ("torch/fused+bf16+again", "torch/fused+again+bf16", "fused+bf16"),
    ],
)
def test_an_implementation_is_written_with_sorted_options(
    text: str, written: str, kernel: str
) -> None:
    implementation = parse_implementation(text)
    assert (str(implementation), implementation.kernel_text) == (written, kernel)
    assert parse_implementation(written) == implementation


@pytest.mark.parametrize(
    ("text", "jit", "eager", "precision", "process"),
    [
        ("tensorflow/portable", False, False, "float32", "tensorflow"),
        ("tensorflow/portable+xla", True, False, "float32", "tensorflow"),
        ("tensorflow/portable+eager", False, True, "float32", "tensorflow"),
        ("tensorflow/cudnn+tf32", False, False, "tf32", "tensorflow"),
        ("tensorflow/portable+fp16", False, False, "fp16", "tensorflow"),
        ("jax/portable", True, False, "float32", "jax"),
        ("jax/portable+eager", False, True, "float32", "jax"),
        ("torch/fused+bf16+again", False, True, "bf16", "torch+again"),
    ],
)
def test_properties_of_an_implementation(
    text: str, jit: bool, eager: bool, precision: str, process: str
) -> None:
    implementation = parse_implementation(text)
    assert (implementation.jit, implementation.eager) == (jit, eager)
    assert (implementation.precision, implementation.process) == (precision, process)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensorflow", "expected backend/kernel"),
        ("tensorflow/", "expected backend/kernel"),
        ("tensorflow/portable+", "expected backend/kernel"),
        ("TensorFlow/portable", "expected backend/kernel"),
        ("tensorflo/portable", "did you mean 'tensorflow'"),
        ("tensorflow/cudn", "did you mean 'cudnn'"),
        ("tensorflow/portable+xl", "did you mean 'xla'"),
        ("tensorflow/portable+xla+xla", "expected each option once"),
        ("torch/fused+bf16+tf32", "expected one precision at most; received bf16 and tf32"),
        ("", "expected backend/kernel"),
    ],
)
def test_a_wrong_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(ImplementationError, match=message):
        parse_implementation(text)


def test_a_process_is_prepared_for_its_backend_and_device() -> None:
    cpu = environment_for(parse_implementation("tensorflow/portable"), "cpu")
    assert (cpu["KERAS_BACKEND"], cpu["CUDA_VISIBLE_DEVICES"]) == ("tensorflow", "-1")
    gpu = environment_for(parse_implementation("tensorflow/cudnn"), "gpu")
    assert "CUDA_VISIBLE_DEVICES" not in gpu
    assert gpu["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as the probe counts them
    assert gpu["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    own = parse_implementation("numpy/loop", known_only=False)
    assert "KERAS_BACKEND" not in environment_for(own, "cpu")
