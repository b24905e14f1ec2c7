from __future__ import annotations

import pytest

from workloads.implementations import ImplementationError, parse_implementation
from workloads.process import environment_for


@pytest.mark.parametrize(
    ("text", "written", "kernel"),
    [
        ("tensorflow/portable", "tensorflow/portable", "portable"),
        ("jax/cudnn+unroll+tf32", "jax/cudnn+tf32+unroll", "cudnn+tf32+unroll"),
        ("torch/fused+relu+bf16+again", "torch/fused+again+bf16+relu", "fused+bf16"),
    ],
)
def test_an_implementation_is_written_with_sorted_options(
    text: str, written: str, kernel: str
) -> None:
    implementation = parse_implementation(text)
    assert (str(implementation), implementation.kernel_text) == (written, kernel)
    assert parse_implementation(written) == implementation


@pytest.mark.parametrize(
    ("text", "jit", "eager", "precision", "mathematics", "process"),
    [
        ("tensorflow/portable", False, False, "float32", "", "tensorflow"),
        ("tensorflow/portable+xla", True, False, "float32", "", "tensorflow"),
        ("tensorflow/portable+eager", False, True, "float32", "", "tensorflow"),
        ("tensorflow/cudnn+tf32", False, False, "tf32", "", "tensorflow"),
        ("tensorflow/portable+fp16+relu", False, False, "fp16", "activation relu", "tensorflow"),
        ("jax/portable", True, False, "float32", "", "jax"),
        ("jax/portable+eager", False, True, "float32", "", "jax"),
        ("torch/fused+bf16+again", False, True, "bf16", "", "torch+again"),
    ],
)
def test_properties_of_an_implementation(
    text: str, jit: bool, eager: bool, precision: str, mathematics: str, process: str
) -> None:
    implementation = parse_implementation(text)
    assert (implementation.jit, implementation.eager) == (jit, eager)
    assert (implementation.precision, implementation.mathematics) == (precision, mathematics)
    assert implementation.process == process


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
