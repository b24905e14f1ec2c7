"""What a selector of hardware means, and which arm a text names."""

from __future__ import annotations

import pytest

from orchestrator.objectives import arms_read
from orchestrator.selector import device_of, gpu_of, names_arm, selects
from orchestrator.spec import Objective
from orchestrator.trial import Arm

EPYC = "AMD EPYC, 16 CPUs"
XEON = "Intel(R) Xeon(R) CPU @ 2.20GHz, 1 CPU"
H200 = f"NVIDIA H200 ({EPYC})"
T4 = f"Tesla T4 [rev (a)] ({XEON})"


@pytest.mark.parametrize(
    ("name", "device", "gpu"),
    [
        (EPYC, "cpu", None),
        (XEON, "cpu", None),
        (H200, "gpu", "NVIDIA H200"),
        (f"NVIDIA T4 ({XEON})", "gpu", "NVIDIA T4"),
        ("arm (big.LITTLE), 8 CPUs", "cpu", None),
    ],
)
def test_the_name_of_a_class_tells_its_device(name: str, device: str, gpu: str | None) -> None:
    assert (device_of(name), gpu_of(name)) == (device, gpu)


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("cpu", {EPYC, XEON}),
        ("gpu", {H200, T4}),
        (EPYC, {EPYC}),
        (H200, {H200}),
        (T4, {T4}),
        ("NVIDIA H200", {H200}),
        ("nvidia h200", {H200}),
        ("*H200", {H200}),
        ("*h200*", {H200}),
        ("AMD*", {EPYC}),
        ("*T4*", {T4}),
        ("NVIDIA A100", set()),
        ("NVIDIA H20", set()),
        ("", set()),
    ],
)
def test_a_selector_means_classes(selector: str, meant: set[str]) -> None:
    assert {name for name in (EPYC, XEON, H200, T4) if selects(selector, name)} == meant


ON_CPU, ON_GPU = Arm("tensorflow/portable", EPYC), Arm("tensorflow/portable", H200)
OTHER = Arm("tensorflow/cudnn", H200)


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("tensorflow/portable", (ON_CPU, ON_GPU)),
        ("tensorflow/portable on cpu", (ON_CPU,)),
        ("tensorflow/portable on gpu", (ON_GPU,)),
        ("tensorflow/portable on NVIDIA H200", (ON_GPU,)),
        (f"tensorflow/portable on {H200}", (ON_GPU,)),
        ("tensorflow/cudnn on gpu", (OTHER,)),
        ("tensorflow/cudnn on cpu", ()),
    ],
)
def test_an_objective_reads_the_arms_that_it_names(text: str, arms: tuple[Arm, ...]) -> None:
    objective = Objective(direction="minimize", over=text)
    assert arms_read(objective, (ON_CPU, ON_GPU, OTHER)) == arms
    assert all(names_arm(text, arm) for arm in arms)
