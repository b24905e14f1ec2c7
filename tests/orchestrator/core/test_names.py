"""Selectors of hardware, the arms that a text matches, and Ray's label selectors."""

from __future__ import annotations

import pytest
from ray._private.label_utils import validate_label_key, validate_label_selector_value

from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.labels import carries, is_condition, is_key
from orchestrator.core.names import names_arm, selects
from orchestrator.planning.objectives import arms_read
from orchestrator.spec import Objective
from tests.orchestrator.sample_hardware import in_slices, on_cpu, on_gpu
from tests.orchestrator.sample_records import CELLS

XEON_MODEL = "Intel(R) Xeon(R) CPU @ 2.20GHz"
EPYC, XEON = on_cpu("AMD EPYC", 16), on_cpu(XEON_MODEL, 1)
FOUR = on_cpu("AMD EPYC", 16, Usage(threads=4))
SHORT = on_cpu("AMD EPYC", 16, Usage(settings={"epochs": 1}))
H200, T4 = on_gpu("NVIDIA H200", "AMD EPYC", 16), on_gpu("Tesla T4 [rev (a)]", XEON_MODEL, 1)
EIGHT = on_gpu("NVIDIA H200", "AMD EPYC", 16, Usage(cpus=8))
STRANGE = on_cpu("NVIDIA H200 (AMD EPYC, 16 CPUs)", 4)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("cpu", {EPYC, XEON, FOUR, SHORT, STRANGE}),
        ("gpu", {H200, T4, EIGHT}),
        (str(EPYC), {EPYC}),
        (str(FOUR), {FOUR}),
        (str(H200), {H200}),
        (str(T4), {T4}),
        ("nvidia h200", {H200, EIGHT}),
        ("AMD*", {EPYC, FOUR, SHORT}),
        ("*t4*", {T4}),
        ("*[4 threads]", {FOUR}),
        ("NVIDIA H20", set()),
        ("", set()),
    ],
)
def test_a_full_text_matches_one_use_and_a_pattern_any(
    selector: str, matches: set[HardwareUse]
) -> None:
    every = (EPYC, XEON, FOUR, SHORT, H200, T4, EIGHT, STRANGE)
    assert {use for use in every if selects(selector, use)} == matches
    assert selects(selector, EPYC.hardware_class) is (EPYC in matches)


ON_CPU, ON_GPU = Arm("tensorflow/portable", EPYC), Arm("tensorflow/portable", H200)
OTHER, LESS = Arm("tensorflow/cudnn", H200), Arm("tensorflow/portable", SHORT)
TIMED = Arm("tensorflow/portable", in_slices(EPYC))
ALL = (ON_CPU, ON_GPU, OTHER)
LSTM_TF, GRU_TF, LSTM_TORCH, GRU_TORCH = CELLS


@pytest.mark.parametrize(
    ("over", "among", "arms"),
    [
        ("tensorflow/portable", ALL, (ON_CPU, ON_GPU)),
        ("tensorflow/portable on cpu", ALL, (ON_CPU,)),
        ("tensorflow/portable on NVIDIA H200", ALL, (ON_GPU,)),
        ("tensorflow/cudnn on cpu", ALL, ()),
        ("* on gpu", ALL, (ON_GPU, OTHER)),
        ("mean", (ON_GPU, LESS, OTHER), (ON_GPU, OTHER)),  # an average leaves out less work
        ("mean", (LESS,), (LESS,)),
        ("mean", (TIMED, ON_CPU), (ON_CPU,)),  # arms timed in slices only where no other matches
        ("tensorflow/portable on cpu", (TIMED, ON_CPU), (ON_CPU,)),
        ("tensorflow/portable on cpu", (TIMED, ON_GPU), (TIMED,)),
        ("tensorflow/portable on *[[]timing]", (TIMED, ON_CPU), (TIMED,)),
        (str(TIMED), (TIMED, ON_CPU), (TIMED,)),
        ("torch/fused", CELLS, (LSTM_TORCH, GRU_TORCH)),
        ("gru", CELLS, (GRU_TF, GRU_TORCH)),
        ("gru on cpu", CELLS, (GRU_TF, GRU_TORCH)),
        ("gru: torch/fused", CELLS, (GRU_TORCH,)),
        (str(GRU_TF), CELLS, (GRU_TF,)),
    ],
)
def test_an_objective_reads_the_arms_that_it_names(
    over: str, among: tuple[Arm, ...], arms: tuple[Arm, ...]
) -> None:
    assert arms_read(Objective(direction="maximize", over=over), among) == arms
    if over != "mean":
        assert all(names_arm(over, arm) for arm in arms)


@pytest.mark.parametrize(
    ("selector", "is_met"),
    [
        ({}, True),
        ({"market-type": "!spot"}, False),
        ({"market-type": "in(on-demand, spot)"}, True),
        ({"market-type": "!in(on-demand,spot)"}, False),
        ({"market-type": "spot", "ray.io/accelerator-type": "L4"}, False),
        ({"region": "in(eu, us)"}, False),
        ({"region": "!in(eu, us)"}, True),
    ],
)
def test_a_node_meets_a_label_selector(selector: dict[str, str], is_met: bool) -> None:
    labels = {"ray.io/accelerator-type": "T4", "market-type": "spot"}
    assert carries(labels, selector) is is_met


CONDITIONS = [
    *("spot", "!GPU", "in(A123, B456)", "!in(spot,on-demand)", "a._b", "a" * 63, "a" * 64),
    *("-spot", "spot_", "in()", "in(spot,", "in(H, T!G)", "!!in(H)", "a b"),
]
KEYS = ["market-type", "ray.io/accelerator-type", "-a", "a/b/c", "a_", "a" * 64, "a b"]


def test_ray_takes_the_same_conditions_and_keys() -> None:
    for text in CONDITIONS:
        assert is_condition(text) is (validate_label_selector_value(text) is None), text
    for text in KEYS:
        assert is_key(text) is (validate_label_key(text) is None), text
