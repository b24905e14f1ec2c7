"""Test which arm each arm is compared with, and what is refused as a baseline."""

from collections.abc import Sequence

import pytest

from orchestrator.analysis.pairing.baselines import (
    BaselineError,
    pick_baseline,
    pick_runnable_baseline,
)
from orchestrator.core.arms import Arm, HardwareUse, RequestedArm, Usage
from orchestrator.core.trial import ImpossibleArm
from tests.building.arms import ARMS_OF_CELLS, CPU, GRU, LSTM, PORTABLE
from tests.building.hardware import build_gpu_use
from tests.building.records import build_record

H200, SMALL = build_gpu_use("NVIDIA H200"), Arm("tensorflow/portable", build_gpu_use("NVIDIA T4"))
CUDNN = Arm("tensorflow/cudnn", SMALL.hardware)
ON_CLASSES = (PORTABLE, Arm("tensorflow/portable", H200), SMALL, CUDNN)
THREADS = tuple(
    Arm("torch/fused", HardwareUse(CPU.hardware_class, Usage(threads=count)), cell)
    for count in (1, 2)
    for cell in (LSTM, GRU)
)


@pytest.mark.parametrize(
    ("arms", "asked", "scope", "baselines"),
    [
        (ON_CLASSES, None, "arm", [0, 0, 0, 0]),  # the first arm
        (ON_CLASSES, f"tensorflow/portable on {H200}", "arm", [1, 1, 1, 1]),
        (ON_CLASSES, "tensorflow/cudnn", "arm", [3, 3, 3, 3]),
        (ON_CLASSES, "tensorflow/portable", "same hardware", [0, 1, 2, 2]),
        (ON_CLASSES, "tensorflow/portable on gpu", "same hardware", [None, 1, 2, 2]),
        # Another variant is compared on its own implementation, if it is there.
        *((ARMS_OF_CELLS, asked, None, [0, 0, 0, 2]) for asked in (None, "lstm")),
        (ARMS_OF_CELLS, "torch/fused", None, [2, 0, 2, 2]),
        (ARMS_OF_CELLS, "gru: torch/fused", None, [1, 3, 3, 3]),
        # A value of another factor: each arm is compared with the one that is otherwise the same.
        (THREADS, "1 thread", "arm", [0, 1, 0, 1]),
        # An arm with its hardware is the baseline of all, whatever they differ in.
        (THREADS, "lstm: torch/fused on 2 threads", "arm", [2, 2, 2, 2]),
    ],
)
def test_a_baseline_is_an_arm_or_an_implementation_in_each_class_and_variant(
    arms: Sequence[Arm], asked: str | None, scope: str | None, baselines: list[int | None]
) -> None:
    baseline = pick_baseline(build_record([], arms=arms), asked)
    assert baseline is not None and scope in (None, baseline.scope)
    expected = [None if place is None else arms[place] for place in baselines]
    assert [baseline.of.get(arm) for arm in arms] == expected


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (f"tensorflow/cudnn on {H200}", "is not an arm of sweep 'quickstart'"),
        ("torch/fused", "cannot run: on cpu, not installed; on gpu, no GPU found"),
    ],
)
def test_an_unknown_baseline_is_refused_with_the_choices(asked: str, problem: str) -> None:
    impossible = (
        ImpossibleArm(RequestedArm("tensorflow/cudnn", "cpu"), "needs a GPU"),
        ImpossibleArm(RequestedArm("torch/fused", "cpu"), "not installed"),
        ImpossibleArm(RequestedArm("torch/fused", "gpu"), "no GPU found"),
    )
    with pytest.raises(BaselineError) as refused:
        pick_baseline(build_record([], impossible=impossible), asked)
    replaced = pick_runnable_baseline(build_record([], impossible=impossible), "torch/fused")
    assert replaced is not None
    assert replaced.name == f"tensorflow/portable on {CPU}"
    assert "torch/fused cannot run: not installed; no GPU found" in replaced.instead_of
    with pytest.raises(BaselineError, match="is not an arm"):
        pick_runnable_baseline(build_record([], impossible=impossible), "torch/unknown")
    assert str(refused.value) == (
        f"baseline {asked!r} {problem}; choose one of: "
        "tensorflow/portable; tensorflow/portable+xla; "
        f"tensorflow/portable on {CPU}; tensorflow/portable+xla on {CPU}"
    )
    with pytest.raises(BaselineError, match="no other arm can run"):
        pick_baseline(build_record([], arms=(), impossible=impossible), asked)
    assert pick_baseline(build_record([], arms=()), None) is None
