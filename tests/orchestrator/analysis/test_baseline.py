"""Test which arm each arm is compared with."""

from __future__ import annotations

import pytest

from orchestrator.analysis.pairing.baseline import BaselineError, pick_baseline
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.trial import ImpossibleArm
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, sweep

H200, T4 = on_gpu("NVIDIA H200"), on_gpu("NVIDIA T4")
FAST = Arm("tensorflow/portable", H200)
CUDNN = Arm("tensorflow/cudnn", H200)
SMALL = Arm("tensorflow/portable", T4)
SMALL_CUDNN = Arm("tensorflow/cudnn", T4)
TWO_CLASSES = (PORTABLE, XLA, FAST, CUDNN)
TWO_GPUS = (PORTABLE, FAST, SMALL, SMALL_CUDNN)


@pytest.mark.parametrize(
    ("arms", "asked", "scope", "baselines"),
    [
        (TWO_CLASSES, None, "arm", [PORTABLE] * 4),  # the first arm
        (TWO_CLASSES, f"tensorflow/portable on {H200}", "arm", [FAST] * 4),
        (TWO_CLASSES, "tensorflow/portable on gpu", "arm", [FAST] * 4),
        (TWO_CLASSES, "tensorflow/portable on cpu", "arm", [PORTABLE] * 4),
        (TWO_CLASSES, "tensorflow/cudnn", "arm", [CUDNN] * 4),
        (TWO_CLASSES, "tensorflow/portable", "same hardware", [PORTABLE, PORTABLE, FAST, FAST]),
        (TWO_GPUS, "tensorflow/portable on gpu", "same hardware", [None, FAST, SMALL, SMALL]),
    ],
)
def test_a_baseline_is_an_arm_or_an_implementation_in_each_hardware_class(
    arms: tuple[Arm, ...], asked: str | None, scope: str, baselines: list[Arm | None]
) -> None:
    baseline = pick_baseline(sweep([], arms=arms), asked)
    assert baseline is not None
    assert baseline.scope == scope
    assert [baseline.of.get(arm) for arm in arms] == baselines


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("jax/fused", "is not an arm of sweep 'quickstart'"),
        ("", "is not an arm of sweep 'quickstart'"),
        (f"tensorflow/cudnn on {H200}", "is not an arm of sweep 'quickstart'"),
        ("tensorflow/cudnn", "cannot run: needs a GPU"),
        ("torch/fused", "cannot run: on cpu, not installed; on gpu, no GPU found"),
        ("torch/fused on cpu", "cannot run: not installed"),
    ],
)
def test_an_unknown_baseline_is_refused_with_the_choices(asked: str, problem: str) -> None:
    impossible = (
        ImpossibleArm(RequestedArm("tensorflow/cudnn", "cpu"), "needs a GPU"),
        ImpossibleArm(RequestedArm("torch/fused", "cpu"), "not installed"),
        ImpossibleArm(RequestedArm("torch/fused", "gpu"), "no GPU found"),
    )
    with pytest.raises(BaselineError) as refused:
        pick_baseline(sweep([], impossible=impossible), asked)
    assert str(refused.value) == (
        f"baseline {asked!r} {problem}; choose one of: "
        "tensorflow/portable; tensorflow/portable+xla; "
        f"tensorflow/portable on {CPU}; tensorflow/portable+xla on {CPU}"
    )
    with pytest.raises(BaselineError, match="nothing to choose from"):
        pick_baseline(sweep([], arms=(), impossible=impossible), asked)


def test_without_arms_there_is_no_baseline() -> None:
    assert pick_baseline(sweep([], arms=()), None) is None
