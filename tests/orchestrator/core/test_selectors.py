"""Selectors of hardware, the arms that a text matches, and Ray's label selectors."""

from typing import NamedTuple

import pytest
from ray._private.label_utils import validate_label_key, validate_label_selector_value

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.selectors import carries, is_condition, is_key, names_arm, selects
from orchestrator.planning.objectives import arms_read
from orchestrator.spec import Objective
from tests.building.arms import ARMS_OF_CELLS
from tests.building.hardware import build_cpu_use, build_gpu_use, build_timing_use

XEON_MODEL = "Intel(R) Xeon(R) CPU @ 2.20GHz"
USES = {
    "EPYC": build_cpu_use("AMD EPYC", 16),
    "XEON": build_cpu_use(XEON_MODEL, 1),
    "FOUR": build_cpu_use("AMD EPYC", 16, Usage(threads=4)),
    "SHORT": build_cpu_use("AMD EPYC", 16, Usage(settings={"epochs": 1})),
    "H200": build_gpu_use("NVIDIA H200", "AMD EPYC", 16),
    "T4": build_gpu_use("Tesla T4 [rev (a)]", XEON_MODEL, 1),
    "EIGHT": build_gpu_use("NVIDIA H200", "AMD EPYC", 16, Usage(cpus=8)),
    "STRANGE": build_cpu_use("NVIDIA H200 (AMD EPYC, 16 CPUs)", 4),
}
ARMS = {
    "ON_CPU": Arm("tensorflow/portable", USES["EPYC"]),
    "ON_GPU": Arm("tensorflow/portable", USES["H200"]),
    "OTHER": Arm("tensorflow/cudnn", USES["H200"]),
    "LESS": Arm("tensorflow/portable", USES["SHORT"]),
    "TIMED": Arm("tensorflow/portable", build_timing_use(USES["EPYC"])),
    **dict(zip(("LSTM_TF", "GRU_TF", "LSTM_TORCH", "GRU_TORCH"), ARMS_OF_CELLS, strict=True)),
}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("cpu", ["EPYC", "FOUR", "SHORT", "STRANGE", "XEON"]),
        ("{EPYC}", ["EPYC"]),
        ("{FOUR}", ["FOUR"]),
        ("{T4}", ["T4"]),
        ("nvidia h200", ["EIGHT", "H200"]),
        ("*t4*", ["T4"]),
        ("*[4 threads]", ["FOUR"]),
        ("", []),
    ],
)
def test_a_full_text_matches_one_use_and_a_pattern_any(selector: str, matches: list[str]) -> None:
    selector = selector.format(**USES)
    assert {name for name, use in USES.items() if selects(selector, use)} == set(matches)
    assert selects(selector, USES["EPYC"].hardware_class) is ("EPYC" in matches)


class ReadArms(NamedTuple):
    """What an objective is over, among which arms, and the arms that it reads (see ARMS)."""

    over: str
    among: list[str]
    arms: list[str]


READ_ARMS = [
    ReadArms(
        over="tensorflow/portable", among=["ON_CPU", "ON_GPU", "OTHER"], arms=["ON_CPU", "ON_GPU"]
    ),
    ReadArms(
        over="tensorflow/portable on cpu", among=["ON_CPU", "ON_GPU", "OTHER"], arms=["ON_CPU"]
    ),
    ReadArms(over="* on gpu", among=["ON_CPU", "ON_GPU", "OTHER"], arms=["ON_GPU", "OTHER"]),
    ReadArms(
        over="mean", among=["ON_GPU", "LESS", "OTHER"], arms=["ON_GPU", "OTHER"]
    ),  # an average leaves out less work
    ReadArms(over="mean", among=["LESS"], arms=["LESS"]),
    ReadArms(
        over="mean", among=["TIMED", "ON_CPU"], arms=["ON_CPU"]
    ),  # arms timed in slices only where no other matches
    ReadArms(over="tensorflow/portable on cpu", among=["TIMED", "ON_CPU"], arms=["ON_CPU"]),
    ReadArms(over="tensorflow/portable on cpu", among=["TIMED", "ON_GPU"], arms=["TIMED"]),
    ReadArms(over="{TIMED}", among=["TIMED", "ON_CPU"], arms=["TIMED"]),
    ReadArms(
        over="gru",
        among=["LSTM_TF", "GRU_TF", "LSTM_TORCH", "GRU_TORCH"],
        arms=["GRU_TF", "GRU_TORCH"],
    ),
    ReadArms(
        over="gru: torch/fused",
        among=["LSTM_TF", "GRU_TF", "LSTM_TORCH", "GRU_TORCH"],
        arms=["GRU_TORCH"],
    ),
]


@pytest.mark.parametrize(
    "case", READ_ARMS, ids=lambda case: f"{case.over} among {' '.join(case.among)}"
)
def test_an_objective_reads_the_arms_that_it_names(case: ReadArms) -> None:
    over, present = case.over.format(**ARMS), tuple(ARMS[name] for name in case.among)
    expected = tuple(ARMS[name] for name in case.arms)
    assert arms_read(Objective(direction="maximize", over=over), present) == expected
    if over != "mean":
        assert all(names_arm(over, arm) for arm in expected)


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
    "spot",
    "!GPU",
    "in(A123, B456)",
    "!in(spot,on-demand)",
    "a" * 63,
    "a" * 64,
    "spot_",
    "in()",
    "in(H, T!G)",
    "!!in(H)",
]
KEYS = ["market-type", "ray.io/accelerator-type", "-a", "a/b/c", "a_", "a" * 64, "a b"]


def test_ray_takes_the_same_conditions_and_keys() -> None:
    for text in CONDITIONS:
        assert is_condition(text) is (validate_label_selector_value(text) is None), text
    for text in KEYS:
        assert is_key(text) is (validate_label_key(text) is None), text
