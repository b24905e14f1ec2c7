"""Selectors of hardware, and which arms a text matches."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.names import names_arm, selects
from orchestrator.planning.objectives import arms_read
from orchestrator.spec import Objective
from tests.orchestrator.sample_hardware import in_slices, on_cpu, on_gpu

XEON_MODEL = "Intel(R) Xeon(R) CPU @ 2.20GHz"
EPYC, XEON = on_cpu("AMD EPYC", 16), on_cpu(XEON_MODEL, 1)
H200, T4 = on_gpu("NVIDIA H200", "AMD EPYC", 16), on_gpu("Tesla T4 [rev (a)]", XEON_MODEL, 1)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("cpu", {EPYC, XEON}),
        ("gpu", {H200, T4}),
        (str(EPYC), {EPYC}),
        (str(H200), {H200}),
        (str(T4), {T4}),
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
def test_a_selector_matches_classes(selector: str, matches: set[HardwareUse]) -> None:
    every = (EPYC, XEON, H200, T4)
    assert {use for use in every if selects(selector, use.hardware_class)} == matches
    assert {use for use in every if selects(selector, use)} == matches


def test_a_cpu_named_like_a_gpu_class_is_a_cpu() -> None:
    strange = on_cpu("NVIDIA H200 (AMD EPYC, 16 CPUs)", 4)
    assert selects("cpu", strange)
    assert not selects("NVIDIA H200", strange)


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


FOUR = on_cpu("AMD EPYC", 16, Usage(threads=4))
SHORT = on_cpu("AMD EPYC", 16, Usage(settings={"epochs": 1}))
EIGHT = on_gpu("NVIDIA H200", "AMD EPYC", 16, Usage(cpus=8))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("cpu", {EPYC, FOUR, SHORT}),
        ("AMD*", {EPYC, FOUR, SHORT}),
        (str(EPYC), {EPYC}),
        (str(FOUR), {FOUR}),
        ("*[4 threads]", {FOUR}),
        ("*thread*", {FOUR}),
        ("NVIDIA H200", {H200, EIGHT}),
        (str(H200), {H200}),
    ],
)
def test_a_full_text_matches_one_use_and_a_pattern_any(
    selector: str, matches: set[HardwareUse]
) -> None:
    assert {use for use in (EPYC, FOUR, SHORT, H200, EIGHT) if selects(selector, use)} == matches


@pytest.mark.parametrize(
    ("text", "arms"),
    [("* on gpu", (ON_GPU, OTHER)), ("* on *H200*", (ON_GPU, OTHER)), ("* on cpu", (ON_CPU,))],
)
def test_an_objective_reads_all_arms_on_some_hardware(text: str, arms: tuple[Arm, ...]) -> None:
    objective = Objective(direction="minimize", over=text)
    assert arms_read(objective, (ON_CPU, ON_GPU, OTHER)) == arms


def test_an_average_leaves_out_arms_that_did_less() -> None:
    short = Arm("tensorflow/portable", SHORT)
    mean = Objective(direction="maximize")
    assert arms_read(mean, (ON_GPU, short, OTHER)) == (ON_GPU, OTHER)
    assert arms_read(mean, (short,)) == (short,)
    named = Objective(direction="maximize", over="cpu")
    assert arms_read(named, (ON_GPU, short)) == (short,)


def test_an_objective_reads_arms_timed_in_slices_only_where_no_other_matches() -> None:
    timed = Arm("tensorflow/portable", in_slices(EPYC))
    arms = (timed, ON_CPU, ON_GPU)
    for over in ("mean", "cpu", "tensorflow/portable", "tensorflow/portable on cpu"):
        read = arms_read(Objective(direction="maximize", over=over), arms)
        assert timed not in read and ON_CPU in read
    for over in (str(timed), "tensorflow/portable on *[[]timing]"):
        assert arms_read(Objective(direction="minimize", over=over), arms) == (timed,)
    alone = Objective(direction="minimize", over="tensorflow/portable on cpu")
    assert arms_read(alone, (timed, ON_GPU)) == (timed,)
