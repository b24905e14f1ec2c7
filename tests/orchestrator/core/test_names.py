"""What a selector of hardware means, and which arm a text names."""

from __future__ import annotations

import pytest

from orchestrator.core.names import (
    Usage,
    class_of,
    device_of,
    gpu_of,
    names_arm,
    selects,
    usage_of,
    used,
    work_of,
)
from orchestrator.core.trial import Arm
from orchestrator.planning.objectives import arms_read
from orchestrator.spec import Objective

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


@pytest.mark.parametrize("hardware", [EPYC, XEON, H200, T4])
@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(threads=1), " [1 thread]"),
        (Usage(cpus=8, threads=4), " [8 CPUs, 4 threads]"),
        (Usage(settings={"epochs": 1, "timed_steps": 10}), " [epochs 1, timed_steps 10]"),
        (
            Usage(threads=2, settings={"share": 0.5, "tiny": 1e-7}),
            " [2 threads, share 0.5, tiny 1e-07]",
        ),
    ],
)
def test_the_name_of_used_hardware_tells_all_of_it(hardware: str, usage: Usage, text: str) -> None:
    name = used(hardware, usage)
    assert name == hardware + text
    assert (class_of(name), usage_of(name)) == (hardware, usage)
    assert (device_of(name), gpu_of(name)) == (device_of(hardware), gpu_of(hardware))


def test_settings_keep_their_kind() -> None:
    settings = usage_of("CPU A, 4 CPUs [epochs 1, share 1.0]").settings
    assert [type(value) for value in settings.values()] == [int, float]


FOUR, SHORT = f"{EPYC} [4 threads]", f"{EPYC} [epochs 1]"


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("cpu", {EPYC, FOUR, SHORT}),
        ("AMD*", {EPYC, FOUR, SHORT}),
        (EPYC, {EPYC}),
        (FOUR, {FOUR}),
        ("*[4 threads]", {FOUR}),
        ("*thread*", {FOUR}),
        ("NVIDIA H200", {H200, f"{H200} [8 CPUs]"}),
        (H200, {H200}),
    ],
)
def test_a_whole_name_means_one_use_and_a_pattern_any(selector: str, meant: set[str]) -> None:
    names = (EPYC, FOUR, SHORT, H200, f"{H200} [8 CPUs]")
    assert {name for name in names if selects(selector, name)} == meant


@pytest.mark.parametrize(
    ("text", "arms"),
    [("* on gpu", (ON_GPU, OTHER)), ("* on *H200*", (ON_GPU, OTHER)), ("* on cpu", (ON_CPU,))],
)
def test_an_objective_reads_all_arms_on_some_hardware(text: str, arms: tuple[Arm, ...]) -> None:
    objective = Objective(direction="minimize", over=text)
    assert arms_read(objective, (ON_CPU, ON_GPU, OTHER)) == arms


def test_an_arms_own_work_is_part_of_its_name() -> None:
    assert work_of(Arm("tensorflow/portable", SHORT)) == "epochs 1"
    assert work_of(Arm("tensorflow/portable", FOUR)) == work_of(ON_CPU) == ""


def test_an_average_leaves_out_arms_that_did_less() -> None:
    short = Arm("tensorflow/portable", SHORT)
    mean = Objective(direction="maximize")
    assert arms_read(mean, (ON_GPU, short, OTHER)) == (ON_GPU, OTHER)
    assert arms_read(mean, (short,)) == (short,)
    named = Objective(direction="maximize", over="cpu")
    assert arms_read(named, (ON_GPU, short)) == (short,)


def test_an_objective_reads_arms_that_are_timed_in_slices_where_no_other_is_meant() -> None:
    timed = Arm("tensorflow/portable", f"{EPYC} [timing]")
    arms = (timed, ON_CPU, ON_GPU)
    for over in ("mean", "cpu", "tensorflow/portable", "tensorflow/portable on cpu"):
        read = arms_read(Objective(direction="maximize", over=over), arms)
        assert timed not in read and ON_CPU in read
    for over in (str(timed), "tensorflow/portable on *[[]timing]"):
        assert arms_read(Objective(direction="minimize", over=over), arms) == (timed,)
    alone = Objective(direction="minimize", over="tensorflow/portable on cpu")
    assert arms_read(alone, (timed, ON_GPU)) == (timed,)
