"""Implementations by name, and the rules of eligibility alone."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
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
ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("eligibility.yaml").read_text())
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
    how = backends()[implementation.backend].install
    assert absent == f"{implementation.backend} is not installed here: {how}"


ON_A_GPU = [
    *ROWS["on_a_gpu"],
    *(
        (f"{backend}/{kernel}", traits, words)
        for backend in backends()
        for kernel in ("cudnn", "fused")
        for traits, words in ROWS["of_cudnn_and_fused"]
    ),
]


@pytest.mark.parametrize(("implementation", "traits", "words"), ON_A_GPU)
def test_what_a_gpu_cannot_run(
    implementation: str, traits: dict[str, Any], words: str | None
) -> None:
    of = {name: traits[name] for name in traits if name == "capability"}
    layers = LayerTraits(**{name: traits[name] for name in traits.keys() - of})
    reason = reason_against(parse_implementation(implementation), layers, **of)
    assert (reason is None) if words is None else (reason is not None and words in reason)


def test_implementations_that_need_a_gpu() -> None:
    for implementation, words in ROWS["need_a_gpu"]:
        parsed = parse_implementation(implementation)
        assert words in (reason_against(parsed, device="cpu") or "")
        assert reason_against(parsed, device="gpu") is None


@pytest.mark.parametrize(("traits", "kernel", "able"), ROWS["cells_and_masks"])
def test_cells_and_masks_on_a_gpu(traits: dict[str, Any], kernel: str, able: list[str]) -> None:
    asked = LayerTraits(**traits, bidirectional=True)
    reasons = {name: reason_against(Implementation(name, kernel), asked) for name in backends()}
    assert {backend for backend, reason in reasons.items() if reason is None} == set(able)


@pytest.mark.parametrize(
    ("text", "kernel", "jit", "eager", "precision", "process"), ROWS["properties"]
)
def test_properties_of_an_implementation(
    text: str, kernel: str, jit: bool, eager: bool, precision: str, process: str
) -> None:
    implementation = parse_known_implementation(text)
    name, *options = text.split("+")
    assert str(implementation) == "+".join([name, *sorted(options)])
    assert parse_implementation(str(implementation)) == implementation
    assert implementation.kernel_text == kernel
    backend = find_backend(implementation.backend)
    assert backend.is_compiled(implementation) == is_compiled(implementation) == jit
    assert backend.is_eager(implementation) == eager
    assert (implementation.precision, implementation.process) == (precision, process)


@pytest.mark.parametrize(("text", "message"), ROWS["wrong"])
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
