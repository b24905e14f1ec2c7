from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.implementations import (
    BACKENDS,
    KERNELS,
    OPTIONS,
    Implementation,
    ImplementationError,
    parse_implementation,
)
from workloads.process import environment_for

PRECISIONS = {"tf32", "bf16", "fp16"}

known_implementations = st.builds(
    lambda backend, kernel, options: Implementation(backend, kernel, tuple(sorted(options))),
    st.sampled_from(sorted(BACKENDS)),
    st.sampled_from(sorted(KERNELS)),
    st.sets(st.sampled_from(sorted(OPTIONS))).filter(lambda options: len(options & PRECISIONS) < 2),
)


@given(known_implementations)
def test_an_implementation_survives_a_round_trip_through_its_text(
    implementation: Implementation,
) -> None:
    assert parse_implementation(str(implementation)) == implementation
    text = f"{implementation.backend}/{implementation.kernel_text}"
    unlisted = [option for option in ("relu", "again") if option in implementation.options]
    assert parse_implementation("+".join([text, *unlisted])) == implementation
    assert not {"again", "relu"} & set(text.split("+"))


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
    ],
)
def test_a_wrong_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(ImplementationError, match=message):
        parse_implementation(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parsed = parse_implementation(text, known_only=False)
    except ImplementationError as error:
        assert text in str(error) or repr(text) in str(error)
    else:
        assert parse_implementation(str(parsed), known_only=False) == parsed


def test_a_process_is_prepared_for_its_backend_and_device() -> None:
    cpu = environment_for(parse_implementation("tensorflow/portable"), "cpu")
    assert (cpu["KERAS_BACKEND"], cpu["CUDA_VISIBLE_DEVICES"]) == ("tensorflow", "-1")
    gpu = environment_for(parse_implementation("tensorflow/cudnn"), "gpu")
    assert "CUDA_VISIBLE_DEVICES" not in gpu
    assert gpu["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as the probe counts them
    assert gpu["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    own = parse_implementation("numpy/loop", known_only=False)
    assert "KERAS_BACKEND" not in environment_for(own, "cpu")
