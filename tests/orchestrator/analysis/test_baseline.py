"""Test which arm each arm is compared with."""

from __future__ import annotations

import pytest

from orchestrator.analysis.pairing.baseline import BaselineError, pick_baseline
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.trial import ImpossibleArm
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, XLA, sweep

GPU_PORTABLE = Arm("tensorflow/portable", GPU)
GPU_CUDNN = Arm("tensorflow/cudnn", GPU)
TWO_CLASSES = sweep([], arms=(PORTABLE, XLA, GPU_PORTABLE, GPU_CUDNN))


def test_the_default_is_the_first_arm_for_all_of_them() -> None:
    baseline = pick_baseline(TWO_CLASSES, None)
    assert baseline is not None
    assert baseline.scope == "arm"
    assert set(baseline.of.values()) == {PORTABLE}


def test_an_arm_by_its_whole_name() -> None:
    baseline = pick_baseline(TWO_CLASSES, f"tensorflow/portable on {GPU}")
    assert baseline is not None
    assert baseline.scope == "arm"
    assert set(baseline.of.values()) == {GPU_PORTABLE}


def test_an_implementation_on_several_hardware_classes_is_the_baseline_in_each() -> None:
    baseline = pick_baseline(TWO_CLASSES, "tensorflow/portable")
    assert baseline is not None
    assert baseline.scope == "same hardware"
    assert baseline.of == {
        PORTABLE: PORTABLE,
        XLA: PORTABLE,
        GPU_PORTABLE: GPU_PORTABLE,
        GPU_CUDNN: GPU_PORTABLE,
    }


def test_hardware_without_the_implementation_has_no_baseline() -> None:
    other = Arm("tensorflow/cudnn", on_gpu("NVIDIA T4"))
    baseline = pick_baseline(sweep([], arms=(PORTABLE, GPU_PORTABLE, other)), "tensorflow/portable")
    assert baseline is not None
    assert other not in baseline.of


def test_an_implementation_on_one_hardware_class_is_that_arm() -> None:
    baseline = pick_baseline(TWO_CLASSES, "tensorflow/cudnn")
    assert baseline is not None
    assert baseline.scope == "arm"
    assert set(baseline.of.values()) == {GPU_CUDNN}


H200, T4 = on_gpu("NVIDIA H200"), on_gpu("NVIDIA T4")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("tensorflow/portable on cpu", PORTABLE),
        ("tensorflow/portable on gpu", Arm("tensorflow/portable", H200)),
        ("tensorflow/portable on NVIDIA H200", Arm("tensorflow/portable", H200)),
    ],
)
def test_hardware_may_be_named_as_in_a_spec(asked: str, meant: Arm) -> None:
    baseline = pick_baseline(
        sweep([], arms=(PORTABLE, XLA, Arm("tensorflow/portable", H200))), asked
    )
    assert baseline is not None
    assert (baseline.name, baseline.scope) == (str(meant), "arm")
    assert set(baseline.of.values()) == {meant}


def test_a_device_with_several_classes_has_a_baseline_in_each() -> None:
    one, other = Arm("tensorflow/portable", H200), Arm("tensorflow/portable", T4)
    arms = (PORTABLE, one, other, Arm("tensorflow/cudnn", T4))
    baseline = pick_baseline(sweep([], arms=arms), "tensorflow/portable on gpu")
    assert baseline is not None
    assert baseline.scope == "same hardware"
    assert baseline.of == {one: one, other: other, arms[-1]: other}


def test_no_arms_no_baseline() -> None:
    assert pick_baseline(sweep([], arms=()), None) is None


@pytest.mark.parametrize("asked", ["torch/fused", "", f"tensorflow/cudnn on {GPU}"])
def test_an_unknown_baseline_is_refused_with_the_choices(asked: str) -> None:
    with pytest.raises(BaselineError) as refused:
        pick_baseline(sweep([]), asked)
    assert str(refused.value) == (
        f"baseline {asked!r} is not an arm of sweep 'quickstart'; choose one of: "
        "tensorflow/portable; tensorflow/portable+xla; "
        f"tensorflow/portable on {CPU}; tensorflow/portable+xla on {CPU}"
    )


def test_a_baseline_that_cannot_run_is_refused_with_its_reason() -> None:
    with pytest.raises(
        BaselineError, match=r"cannot run: cuDNN kernels need an NVIDIA GPU; choose"
    ):
        pick_baseline(sweep([]), "tensorflow/cudnn")


def test_a_baseline_that_cannot_run_is_refused_with_the_reason_of_each_hardware() -> None:
    missing, no_gpu = "PyTorch is not installed", "no NVIDIA GPU found"
    impossible = tuple(
        ImpossibleArm(RequestedArm("torch/fused", hardware), reason)
        for hardware, reason in (("cpu", missing), ("gpu", no_gpu))
    )
    with pytest.raises(BaselineError) as refused:
        pick_baseline(sweep([], impossible=impossible), "torch/fused")
    assert f"'torch/fused' cannot run: on cpu, {missing}; on gpu, {no_gpu}; choose" in str(
        refused.value
    )
    with pytest.raises(BaselineError, match=f"cannot run: {missing}; choose"):
        pick_baseline(sweep([], impossible=impossible), "torch/fused on cpu")


def test_a_sweep_of_no_arms_has_nothing_to_choose_from() -> None:
    with pytest.raises(BaselineError, match="nothing to choose from"):
        pick_baseline(sweep([], arms=(), impossible=()), "tensorflow/portable")
